"""Which folder is the workspace, what its configuration says, and which records it has."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import SHARED, copied_tree
from memtally._globs import slug_of
from memtally.config import Config, load_config, write_config
from memtally.errors import ConfigError, WorkspaceError
from memtally.inventory import scan
from memtally.report import build_report
from memtally.workspace import Workspace, find_workspace


def git(folder: Path, *arguments: str, **environment: str) -> str:
    """Run git in a folder, away from anybody's configuration."""
    done = subprocess.run(
        [
            "git",
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.org",
            "-c",
            "protocol.file.allow=always",
            *arguments,
        ],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, **environment},
    )
    return done.stdout


def repository(folder: Path, **files: str) -> Path:
    """A git repository with one commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "README").write_text("x")
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    return folder


# -- discovery ----------------------------------------------------------------------------------------


def test_the_order_of_discovery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Argument, then variable, then nearest ``.memtally``, then git root, then the current folder."""
    repo = repository(tmp_path / "repo")
    deep = repo / "a" / "b"
    deep.mkdir(parents=True)
    alone, named = tmp_path / "alone", tmp_path / "named"
    alone.mkdir()
    named.mkdir()
    monkeypatch.chdir(alone)
    assert find_workspace() == Workspace(alone, "current folder")
    monkeypatch.chdir(deep)
    assert find_workspace() == Workspace(repo, "git root")
    (repo / "a" / ".memtally").mkdir()
    assert find_workspace().root == repo / "a"
    monkeypatch.setenv("MEMTALLY_WORKSPACE", str(named))
    assert find_workspace() == Workspace(named, "MEMTALLY_WORKSPACE")
    assert find_workspace(alone) == Workspace(alone, "argument")
    assert find_workspace(".").root == deep


def test_folders_that_are_no_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that does not exist, a file, a current folder that was removed: named, with what to do."""
    (tmp_path / "file").touch()
    for wrong in ("nonesuch", "file"):
        with pytest.raises(WorkspaceError, match=f"{wrong}.*no such folder"):
            find_workspace(tmp_path / wrong)
    monkeypatch.setenv("MEMTALLY_WORKSPACE", str(tmp_path / "gone"))
    with pytest.raises(WorkspaceError, match="MEMTALLY_WORKSPACE"):
        find_workspace()
    monkeypatch.delenv("MEMTALLY_WORKSPACE")
    lost = tmp_path / "lost"
    lost.mkdir()
    monkeypatch.chdir(lost)
    lost.rmdir()
    with pytest.raises(WorkspaceError, match="removed"):
        find_workspace()


@pytest.mark.parametrize("committed", [False, True])
def test_a_linked_worktree_shares_the_main_worktrees_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """By argument or from within, at the top or in a folder, also where the configuration is committed."""
    main = repository(tmp_path / "main")
    (main / "sub").mkdir()
    if committed:
        (main / ".memtally").mkdir()
        (main / ".memtally" / "config.toml").write_text('workspace_id = "w"\n')
        git(main, "add", "-A")
        git(main, "commit", "-qm", "config")
    git(main, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "branch")
    linked = tmp_path / "linked"
    assert (linked / ".memtally").exists() is committed
    assert find_workspace(linked).root == main
    monkeypatch.chdir(linked)
    assert find_workspace().root == main
    (linked / "sub").mkdir()
    monkeypatch.chdir(linked / "sub")
    assert find_workspace().root == main
    assert find_workspace(".").root == main / "sub"


def test_submodules_and_bare_repositories_stay_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A submodule is a workspace of its own; a worktree of a bare repository has no main worktree."""
    inner, outer = repository(tmp_path / "inner"), repository(tmp_path / "outer")
    git(outer, "submodule", "add", "-q", str(inner), "module")
    monkeypatch.chdir(outer / "module")
    assert find_workspace() == Workspace(outer / "module", "git root")
    git(tmp_path, "clone", "-q", "--bare", str(inner), "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "-q", str(tmp_path / "of-bare"))
    monkeypatch.chdir(tmp_path / "of-bare")
    assert find_workspace() == Workspace(tmp_path / "of-bare", "git root")


# -- configuration ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("preset = ", "not valid TOML"),
        ('preset = "nonesuch"', "preset.*nonesuch.*generic"),
        ("presset = 1", "presset.*no such setting.*preset"),
        ("records = 1", r"records.*table.*\[records\]"),
        ('[records]\nDecision = ["a"]', "records.*'Decision'.*lower-case"),
        ('[records]\ndecision = "a"', "records.decision.*list"),
        ('[records]\ndecision = ["../x"]', "leads out of the workspace"),
        ('[records]\ndecision = ["/etc/*"]', "leads out of the workspace"),
        ("workspace_id = 3", "workspace_id"),
        ("seal_bytes = -1", "seal_bytes"),
        ("seal_bytes = true", "seal_bytes"),
        ('[aliases]\n"a" = "b/c"', "aliases.*'a'"),
        ('[aliases]\n"k/a" = "k/b"\n"k/b" = "k/a"', "leads back to itself"),
        ('[aliases]\n"k/a" = "k/a"', "leads back to itself"),
        ("[resident]\nkinds = 1", "resident.kinds"),
    ],
)
def test_malformed_configuration_is_one_line(tmp_path: Path, text: str, names: str) -> None:
    """The message names the file, the key, the value and what to do."""
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=names) as caught:
        load_config(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_invalid_utf8_in_a_configuration(tmp_path: Path) -> None:
    """Bytes that are no text are a malformed file, not a crash."""
    (tmp_path / "config.toml").write_bytes(b'preset = "\xff"')
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_config(tmp_path / "config.toml")


def test_settings_add_to_the_preset(tmp_path: Path) -> None:
    """A kind given replaces the preset's, the other kinds stay; an absent file is the empty one."""
    path = tmp_path / "config.toml"
    assert load_config(path) == Config()
    path.write_text(
        'preset = "yoi"\nsources = ["MemoryRead"]\n[records]\nworkflow = ["w/*.md"]\nnote = ["n/*.md"]\n'
    )
    config = load_config(path)
    assert config.records is not None
    assert config.records["workflow"] == ("w/*.md",)
    assert config.records["note"] == ("n/*.md",)
    assert "decision" in config.records
    assert config.sources == ("MemoryRead",)


def test_writing_never_replaces_and_force_keeps_the_id(tmp_path: Path) -> None:
    """The first writer's id holds; writing anew on purpose keeps it, and leaves no temporary file."""
    path = tmp_path / "config.toml"
    assert write_config(path, None)
    first = load_config(path).workspace_id
    assert not write_config(path, "generic")
    assert load_config(path).workspace_id == first
    assert write_config(path, "generic", replace=True)
    assert (load_config(path).workspace_id, load_config(path).preset) == (first, "generic")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("config")] == ["config.toml"]


# -- inventory ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "relative", "pattern", "user", "slug"),
    [
        ("decision", "decisions/adopt-otlp.md", "decisions/**/*.md", False, "adopt-otlp"),
        ("decision", "memory/decisions/2026/x.md", "memory/decisions/**/*.md", False, "2026/x"),
        ("rule", ".claude/rules/api/errors.md", ".claude/rules/**/*.md", False, "api/errors"),
        ("rule", ".claude/rules/code.md", ".claude/rules/**/*.md", True, "~/code"),
        ("skill", ".claude/skills/pdf/SKILL.md", ".claude/skills/*/SKILL.md", False, "pdf"),
        ("skill", ".claude/commands/deploy.md", ".claude/commands/**/*.md", False, "deploy"),
        ("memory", ".serena/memories/topic-a.md", ".serena/memories/**/*.md", False, "topic-a"),
        ("memory", "memory/MEMORY.md", "memory/*.md", False, "MEMORY"),
        ("instructions", "CLAUDE.md", "**/CLAUDE.md", False, "CLAUDE.md"),
        ("instructions", "pkg/CLAUDE.md", "**/CLAUDE.md", False, "pkg/CLAUDE.md"),
        ("instructions", ".claude/CLAUDE.md", ".claude/CLAUDE.md", True, "~/.claude/CLAUDE.md"),
    ],
)
def test_slugs_of_files(kind: str, relative: str, pattern: str, user: bool, slug: str) -> None:
    """Each kind's rule, as the design's table of words has it."""
    assert slug_of(kind, relative, pattern, user_level=user) == slug


def inventory(root: Path, preset: str) -> dict[str, int]:
    """Name and size of each record that a preset finds in a folder."""
    (root / ".memtally").mkdir(exist_ok=True)
    (root / ".memtally" / "config.toml").write_text(f'preset = "{preset}"\n')
    place = find_workspace(root)
    return {"/".join(key): record.file_bytes for key, record in scan(place, place.config()).records.items()}


def test_links_are_the_file_they_resolve_to(tmp_path: Path) -> None:
    """A link beside its file is no second record; one that leads out is none; cycles end."""
    root = tmp_path / "ws"
    (root / "decisions" / "sub").mkdir(parents=True)
    (root / "AGENTS.md").write_text("rules")
    (root / "CLAUDE.md").symlink_to("AGENTS.md")
    (root / "decisions" / "a.md").write_text("a")
    (root / "decisions" / "b.md").symlink_to("a.md")
    (root / "decisions" / "sub" / "up").symlink_to("..")
    (tmp_path / "secret.md").write_text("secret")
    (root / "decisions" / "out.md").symlink_to(tmp_path / "secret.md")
    (root / "decisions" / "dangling.md").symlink_to("nowhere.md")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.md").write_text("x")
    (root / "decisions" / "outdir").symlink_to(tmp_path / "elsewhere")
    assert inventory(root, "generic") == {"decision/a": 1, "instructions/AGENTS.md": 5}


def test_linked_folders_inside_the_workspace_are_followed(tmp_path: Path) -> None:
    """A skill whose folder is linked from elsewhere in the workspace goes by its link's name."""
    root = tmp_path / "ws"
    (root / "shared" / "pdf-tools").mkdir(parents=True)
    (root / "shared" / "pdf-tools" / "SKILL.md").write_text("skill")
    (root / ".claude" / "skills").mkdir(parents=True)
    (root / ".claude" / "skills" / "pdf").symlink_to("../../shared/pdf-tools")
    assert inventory(root, "claude-code") == {"skill/pdf": 5}


def test_skills_that_link_to_each_other_stay(tmp_path: Path) -> None:
    """A link from one skill's folder into another's hides neither."""
    root = tmp_path / "ws"
    for name in ("a", "b"):
        (root / "skills" / name).mkdir(parents=True)
        (root / "skills" / name / "SKILL.md").write_text(name)
    (root / "skills" / "a" / "link").symlink_to("../b")
    (root / "skills" / "b" / "back").symlink_to("../a")
    assert inventory(root, "generic") == {"skill/a": 1, "skill/b": 1}


def test_repositories_inside_are_workspaces_of_their_own(tmp_path: Path) -> None:
    """Another worktree or clone below the workspace brings no records into it."""
    root = tmp_path / "ws"
    repository(root / ".claude" / "worktrees" / "feat", **{"CLAUDE.md": "x"})
    (root / "CLAUDE.md").write_text("x")
    assert inventory(root, "claude-code") == {"instructions/CLAUDE.md": 1}


def test_a_workspace_too_large_to_look_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound the inventory says it is incomplete, and nothing is called missing."""
    from memtally import inventory as inventory_module
    from memtally.events import RecordSnapshot, UsageEvent, encode_event

    root = tmp_path / "ws"
    for number in range(6):
        (root / "decisions" / str(number)).mkdir(parents=True)
        (root / "decisions" / str(number) / "a.md").write_text("x")
    (root / ".memtally").mkdir()
    (root / ".memtally" / "config.toml").write_text('preset = "generic"\n')
    event = UsageEvent("i", 1, "use", "MemoryRead", (RecordSnapshot("decision", "gone"),))
    (root / ".memtally" / "usage.jsonl").write_bytes(encode_event(event))
    assert build_report(root)["decision", "gone"].status == "missing"
    assert build_report(root).coverage.inventory_state == "complete"
    monkeypatch.setattr(inventory_module, "MAX_FOLDERS", 4)
    assert build_report(root)["decision", "gone"].status == "unknown"
    assert build_report(root).coverage.inventory_state == "incomplete"


def test_kinds_that_live_elsewhere_too_are_not_called_missing(tmp_path: Path) -> None:
    """A plugin's skill and an auto-memory topic are unknown to the inventory; a rule that is gone is missing,
    as soon as there are rules at all, or the workspace says itself where they are.
    """
    from memtally.events import RecordSnapshot, UsageEvent, encode_event

    root = tmp_path / "ws"
    (root / ".memtally").mkdir(parents=True)
    (root / ".memtally" / "config.toml").write_text('preset = "claude-code"\n')
    names = [
        ("skill", "plugin:name"),
        ("memory", "MEMORY"),
        ("instructions", "docs/style.md"),
        ("rule", "gone"),
    ]
    lines = [
        encode_event(UsageEvent(str(n), 1, "use", "MemoryRead", (RecordSnapshot(*key),)))
        for n, key in enumerate(names)
    ]
    (root / ".memtally" / "usage.jsonl").write_bytes(b"".join(lines))
    made = build_report(root)
    assert {made[key].status for key in names} == {"unknown"}
    (root / ".claude" / "rules").mkdir(parents=True)
    (root / ".claude" / "rules" / "other.md").write_text("x")
    made = build_report(root)
    assert [made[key].status for key in names] == ["unknown", "unknown", "unknown", "missing"]
    with (root / ".memtally" / "config.toml").open("a") as config:
        config.write('[records]\nskill = ["s/*/SKILL.md"]\n')
    assert build_report(root)["skill", "plugin:name"].status == "missing"


def test_user_level_records_are_never_called_unread(tmp_path: Path) -> None:
    """Records under the home folder are in the inventory, marked, and in no list of the unread."""
    home = Path(os.environ["HOME"])
    (home / ".claude" / "rules").mkdir(parents=True)
    (home / ".claude" / "CLAUDE.md").write_text("mine")
    (home / ".claude" / "rules" / "code.md").write_text("rule")
    root = tmp_path / "ws"
    (root / ".claude" / "rules").mkdir(parents=True)
    (root / ".claude" / "rules" / "code.md").write_text("other")
    assert set(inventory(root, "claude-code")) == {
        "instructions/~/.claude/CLAUDE.md",
        "rule/code",
        "rule/~/code",
    }
    (home / ".claude" / "skills" / "pdf").mkdir(parents=True)
    (home / ".claude" / "skills" / "pdf" / "SKILL.md").write_text("skill")
    assert build_report(root)["skill", "pdf"].status == "present"
    assert [r.name for r in build_report(root).never_read] == ["rule/code"]


def test_decomposed_file_names_are_their_composed_slugs(tmp_path: Path) -> None:
    """A file named in NFD is the record that an NFC reference names."""
    root = tmp_path / "ws"
    (root / "knowledge").mkdir(parents=True)
    (root / "knowledge" / "cafe\u0301.md").write_text("x")
    (root / "knowledge" / "Foo.md").write_text("x")
    assert set(inventory(root, "generic")) == {"knowledge/caf\u00e9", "knowledge/Foo"}


def test_front_matter_says_what_is_always_on(tmp_path: Path) -> None:
    """``model_invokation`` true, false, absent; a rule with paths is not always on; instructions are."""
    root = tmp_path / "ws"
    for folder in (".claude/rules", "knowledge"):
        (root / folder).mkdir(parents=True)
    (root / "CLAUDE.md").write_text("x")
    (root / "knowledge" / "on.md").write_text("---\nmodel_invokation: true\n---\nx")
    (root / "knowledge" / "off.md").write_text("---\r\n  model_invokation: false\r\n---\r\nx")
    (root / "knowledge" / "none.md").write_text("model_invokation: true")
    (root / ".claude" / "rules" / "always.md").write_text("x")
    (root / ".claude" / "rules" / "python.md").write_text('---\npaths: ["**/*.py"]\n---\nx')
    (root / ".memtally").mkdir()
    (root / ".memtally" / "config.toml").write_text(
        'preset = "claude-code"\n[records]\nknowledge = ["knowledge/*.md"]\n'
    )
    assert {r.name: r.resident for r in build_report(root).records} == {
        "instructions/CLAUDE.md": True,
        "knowledge/none": None,
        "knowledge/off": False,
        "knowledge/on": True,
        "rule/always": True,
        "rule/python": False,
    }


def test_age_is_since_git_first_knew_the_file(tmp_path: Path) -> None:
    """The first commit counts, not the last, nor the file's own time; a new file has none; a shallow clone tells none."""
    from datetime import UTC, datetime

    root = repository(tmp_path / "repo")
    (root / "decisions").mkdir()
    for number, (name, date) in enumerate([("a", "2026-01-01"), ("a", "2026-03-01"), ("b", "2026-03-02")]):
        (root / "decisions" / f"{name}.md").write_text(f"{number}")
        git(root, "add", "-A")
        git(
            root,
            "commit",
            "-qm",
            "x",
            GIT_AUTHOR_DATE=f"{date}T12:00:00Z",
            GIT_COMMITTER_DATE=f"{date}T12:00:00Z",
        )
    (root / "decisions" / "new.md").write_text("x")
    (root / ".memtally").mkdir()
    (root / ".memtally" / "config.toml").write_text('preset = "generic"\n')
    now = datetime(2026, 3, 12, 12, tzinfo=UTC)
    ages = {r.slug: r.age_days for r in build_report(root, now=now).records}
    assert ages == {"a": 70, "b": 10, "new": None}  # 30 days left of January, 28, 12; 10
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{root}", "shallow")
    shutil.copytree(root / ".memtally", tmp_path / "shallow" / ".memtally")
    assert {r.age_days for r in build_report(tmp_path / "shallow", now=now).records} == {None}


def test_three_states_of_a_record_without_uses(tmp_path: Path) -> None:
    """New and never placed, old and placed, old and never placed: the report tells them apart."""
    from datetime import UTC, datetime

    from memtally.events import RecordSnapshot, UsageEvent, encode_event

    root = repository(tmp_path / "repo")
    (root / "knowledge").mkdir()
    for name in ("placed", "idle"):
        (root / "knowledge" / f"{name}.md").write_text("x")
    git(root, "add", "-A")
    stamp = "2026-01-01T00:00:00Z"
    git(root, "commit", "-qm", "x", GIT_AUTHOR_DATE=stamp, GIT_COMMITTER_DATE=stamp)
    (root / "knowledge" / "fresh.md").write_text("x")
    (root / ".memtally").mkdir()
    (root / ".memtally" / "config.toml").write_text('preset = "generic"\n')
    event = UsageEvent(
        "i", 1, "resident_exposure", "ResidentInjection", (RecordSnapshot("knowledge", "placed", 1, 1),)
    )
    (root / ".memtally" / "usage.jsonl").write_bytes(encode_event(event))
    made = build_report(root, now=datetime(2026, 1, 31, tzinfo=UTC))
    assert {r.slug: (r.resident_exposure_count, r.age_days) for r in made.never_read} == {
        "placed": (1, 30),
        "idle": (0, 30),
        "fresh": (0, None),
    }


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data is not beside this checkout")
@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ("buildaharness-memory", {"memory/MEMORY": 180, "memory/project_crewai_coaching": 6244}),
        ("cct-skill", {"skill/cut-release": 5707, "instructions/AGENTS.md": 4118}),
        (
            "entirecontext-serena",
            {
                "memory/project_overview": 321,
                "memory/style_and_conventions": 324,
                "memory/suggested_commands": 328,
                "memory/task_completion": 359,
                "instructions/AGENTS.md": 11334,
                "instructions/CLAUDE.md": 5054,
            },
        ),
    ],
)
def test_real_trees(tmp_path: Path, tree: str, expected: dict[str, int]) -> None:
    """Real memory trees give the hand-derived inventory."""
    root = tmp_path / "tree"
    copied_tree(SHARED / "trees" / tree / "tree", root)
    link = root / "CLAUDE.md"
    if link.is_file() and link.read_text("utf-8") == "AGENTS.md":  # a link that was stored as a text
        link.unlink()
        link.symlink_to("AGENTS.md")
    assert inventory(root, "claude-code") == expected


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data is not beside this checkout")
def test_a_real_tree_with_rules_skills_and_commands(tmp_path: Path) -> None:
    """Two instructions, three rules, two skills, four commands; agents are no records."""
    root = tmp_path / "tree"
    copied_tree(SHARED / "trees" / "confluence-md" / "tree", root)
    found = inventory(root, "claude-code")
    assert {name for name in found if name.startswith("instructions")} == {
        "instructions/CLAUDE.md",
        "instructions/AGENTS.md",
    }
    assert (found["instructions/CLAUDE.md"], found["instructions/AGENTS.md"]) == (3712, 3730)
    assert {name for name in found if name.startswith("rule")} == {
        "rule/confluence-xml",
        "rule/image-handling",
        "rule/testing",
    }
    assert {name for name in found if name.startswith("skill")} == {
        f"skill/{name}"
        for name in ("converter-test", "gfm-validation", "build", "check", "convert-sample", "test")
    }
    assert len(found) == 11


def test_a_folder_that_only_the_linked_worktree_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new folder on a branch belongs to the main worktree's log all the same."""
    main = repository(tmp_path / "main")
    (main / ".memtally").mkdir()
    (main / ".memtally" / "config.toml").write_text('workspace_id = "w"\n')
    git(main, "add", "-A")
    git(main, "commit", "-qm", "config")
    git(main, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "branch")
    new = tmp_path / "linked" / "new" / "folder"
    new.mkdir(parents=True)
    monkeypatch.chdir(new)
    assert find_workspace().root == main
    assert find_workspace(".").root == main / "new" / "folder"
    find_workspace(".").ensure()
    assert (main / "new" / "folder" / ".memtally").is_dir()


def test_worktrees_of_a_submodule_and_of_a_bare_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A submodule's linked worktree leads to the submodule; a bare ``.git`` beside worktrees leads nowhere."""
    inner, outer = repository(tmp_path / "inner"), repository(tmp_path / "outer")
    git(outer, "submodule", "add", "-q", str(inner), "module")
    git(outer / "module", "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "branch")
    assert find_workspace(tmp_path / "linked").root == outer / "module"
    (tmp_path / "proj").mkdir()
    git(tmp_path, "clone", "-q", "--bare", str(inner), "proj/.git")
    git(tmp_path / "proj", "worktree", "add", "-q", str(tmp_path / "proj" / "tree"))
    assert find_workspace(tmp_path / "proj" / "tree").root == tmp_path / "proj" / "tree"
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / ".git").write_bytes(b"gitdir: \0\n")
    assert find_workspace(broken).root == broken


def test_a_link_to_itself_is_passed_over(tmp_path: Path) -> None:
    """One looping link among the records does not take the report with it."""
    root = tmp_path / "ws"
    (root / "decisions").mkdir(parents=True)
    (root / "decisions" / "a.md").write_text("x")
    (root / "decisions" / "loop").symlink_to("loop")
    (root / "decisions" / "loop.md").symlink_to("loop.md")
    assert inventory(root, "generic") == {"decision/a": 1}


def test_git_variables_of_the_caller_do_not_lead_astray(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside a git hook ``GIT_DIR`` names another repository; ages are this workspace's."""
    root, other = repository(tmp_path / "root"), repository(tmp_path / "other")
    (root / "decisions").mkdir()
    (root / "decisions" / "a.md").write_text("x")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "x")
    (root / ".memtally").mkdir()
    (root / ".memtally" / "config.toml").write_text('preset = "generic"\n')
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert build_report(root)["decision", "a"].age_days == 0
