"""Hooks in hosts' settings: put in, taken out, and never a byte of anybody else's."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Process as Run
from memtally.errors import MemtallyError
from memtally.hosts import installing
from memtally.hosts._json_edit import Document, JsonError
from memtally.hosts.installing import hook_command, installed_in, plan_install, plan_uninstall

EVENTS = [
    "PostToolUse",
    "UserPromptExpansion",
    "InstructionsLoaded",
    "SessionStart",
    "SubagentStart",
    "SubagentStop",
]
OURS = {"type": "command", "command": hook_command("claude-code"), "async": True}

SETTINGS = [
    "{}",
    "{}\n",
    "{ }",
    '{"model": "opus"}',
    '{\n  "model": "opus"\n}\n',
    '{\n\t"model": "opus",\n\t"env": {\n\t\t"A": "b"\n\t}\n}\n',
    '{\n    "a": [1, 2,\n      3]  ,\n "odd":{"x":1}\n   }',
    '{\r\n  "model": "opus"\r\n}\r\n',
    '\ufeff{\n  "model": "opus"\n}\n',
    '{\n  // mine\n  "model": "opus", // and this\n  /* "hooks": {} */\n}\n',
    '{"hooks": {}}',
    '{\n  "hooks": {\n  }\n}',
    '{"hooks": {"PostToolUse": []}, "z": 1}',
    '{"hooks": {"PostToolUse": [{"matcher": "Edit", "hooks": [{"type": "command", "command": "lint"}]}]}}',
    (
        '{\n  "hooks": {\n    "PostToolUse": [\n      {\n        "matcher": "Edit",\n        "hooks": [\n'
        '          { "type": "command", "command": "lint" }, // keep\n        ],\n      },\n    ],\n  },\n}\n'
    ),
    '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say memtally hook claude-code done"}]}]}}',
    '{"a": "\\u00e9\\n\\"{[", "b": -1.5e3, "c": [true, false, null, []], "d": {"e": {}}}',
    '{"a": 1, "a": 2}',
]


def value(text: str) -> Any:
    """What a settings file says."""
    return Document(text).root.value


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """A settings file's place."""
    return tmp_path / "settings.json"


@pytest.mark.parametrize("before", SETTINGS)
def test_what_was_there_stays_and_comes_back(settings: Path, before: str) -> None:
    """Installed, all else is as it was; a second time nothing changes; uninstalled, the bytes are the old ones."""
    settings.write_bytes(before.encode())
    change = plan_install("claude-code", str(settings), [])
    assert change.carry_out() == f"{settings}.before-memtally"
    after = settings.read_bytes().decode()
    old, new = value(before), value(after)
    assert {key: item for key, item in new.items() if key != "hooks"} == {
        key: item for key, item in old.items() if key != "hooks"
    }
    for event in EVENTS:
        others = old.get("hooks", {}).get(event, [])
        assert new["hooks"][event][: len(others)] == others
        [group] = new["hooks"][event][len(others) :]
        assert group["hooks"] == [OURS]
    assert new["hooks"]["PostToolUse"][-1]["matcher"] == "Read|Skill"
    assert installed_in("claude-code", str(settings)) == dict.fromkeys(EVENTS, OURS["command"])
    # every character of the old text is there, in its order
    rest = iter(after)
    assert all(
        character in rest for character in before.rstrip().rstrip("}").rstrip() if not character.isspace()
    )
    assert not plan_install("claude-code", str(settings), []).needed
    plan_uninstall("claude-code", str(settings), []).carry_out()
    assert settings.read_bytes() == before.encode()


@pytest.mark.parametrize("before", SETTINGS)
def test_without_the_backup_it_says_the_same(settings: Path, before: str) -> None:
    """Taken out by itself, what is left says what it said; only what was empty without our hooks may be gone."""
    settings.write_bytes(before.encode())
    plan_install("claude-code", str(settings), []).carry_out()
    Path(f"{settings}.before-memtally").unlink()
    plan_uninstall("claude-code", str(settings), []).carry_out()
    old = value(before)
    if not {key: item for key, item in old.items() if key != "hooks"} and not any(
        old.get("hooks", {}).values()
    ):
        assert not settings.exists()
        return
    left = value(settings.read_bytes().decode())
    emptied = {event: groups for event, groups in old.get("hooks", {}).items() if groups}
    wanted = {**old, "hooks": emptied} if emptied else {key: i for key, i in old.items() if key != "hooks"}
    assert left == wanted


def test_a_file_that_is_not_there_is_made_and_goes_again(settings: Path) -> None:
    """Where there was no file, one is made for its owner alone, and removed with the hooks."""
    path = settings.parent / "new" / "settings.json"
    assert plan_install("claude-code", str(path), []).carry_out() is None
    assert set(json.loads(path.read_text())) == {"hooks"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    plan_uninstall("claude-code", str(path), []).carry_out()
    assert not path.exists()
    assert not plan_uninstall("claude-code", str(path), []).needed


def test_what_others_add_later_stays(settings: Path) -> None:
    """Hooks and settings that came after ours are still there when ours are gone."""
    settings.write_text('{"model": "opus"}')
    plan_install("claude-code", str(settings), []).carry_out()
    text = settings.read_text()
    text = text.replace(
        '"PostToolUse": [',
        '"PostToolUse": [{"matcher": "Edit", "hooks": [{"type": "command", "command": "l"}]}, ',
    )
    settings.write_text(text.replace('{"model"', '{"later": [1], "model"'))
    plan_uninstall("claude-code", str(settings), []).carry_out()
    assert json.loads(settings.read_text()) == {
        "later": [1],
        "model": "opus",
        "hooks": {"PostToolUse": [{"matcher": "Edit", "hooks": [{"type": "command", "command": "l"}]}]},
    }


def test_a_group_that_we_share_keeps_the_others(settings: Path) -> None:
    """Of a group that somebody has put our command into, only our command goes."""
    ours = json.dumps(OURS)
    settings.write_text(
        '{"hooks": {"PostToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "a"}, '
        + ours
        + ', {"type": "command", "command": "b"}]}]}}'
    )
    plan_uninstall("claude-code", str(settings), []).carry_out()
    assert json.loads(settings.read_text())["hooks"]["PostToolUse"] == [
        {"matcher": "*", "hooks": [{"type": "command", "command": "a"}, {"type": "command", "command": "b"}]}
    ]


def test_an_old_path_and_old_tools_are_renewed(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook of another installation gets this one's path, and new tools get into the matcher; none is doubled."""
    monkeypatch.setattr(installing, "hook_command", lambda host: f"/old/bin/memtally hook {host}")
    plan_install("claude-code", str(settings), []).carry_out()
    monkeypatch.undo()
    assert "renewed PostToolUse" in plan_install("claude-code", str(settings), []).said
    plan_install("claude-code", str(settings), []).carry_out()
    plan_install("claude-code", str(settings), ["mcp__n__read.note", "mcp__a__get"]).carry_out()
    hooks = json.loads(settings.read_text())["hooks"]
    assert [len(hooks[event]) for event in EVENTS] == [1] * 6
    assert hooks["PostToolUse"][0]["hooks"][0]["command"] == hook_command("claude-code")
    assert hooks["PostToolUse"][0]["matcher"] == "Read|Skill|mcp__a__get|mcp__n__read\\.note"


def test_the_backup_is_of_the_file_without_us(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a renewal, too, uninstalling gives the very bytes back that were there before the first time."""
    before = b'{ "model":"opus" , "x":[1,\n2] }'
    settings.write_bytes(before)
    monkeypatch.setattr(installing, "hook_command", lambda host: f"/old/bin/memtally hook {host}")
    plan_install("claude-code", str(settings), []).carry_out()
    monkeypatch.undo()
    assert plan_install("claude-code", str(settings), []).carry_out() is None
    assert Path(f"{settings}.before-memtally").read_bytes() == before
    plan_uninstall("claude-code", str(settings), []).carry_out()
    assert settings.read_bytes() == before


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (b"{", "line 1, column 2"),
        (b'{"a": 1,,}', "a key in quotes"),
        (b'{"a" 1}', "a colon"),
        (b'{"a": 1 "b": 2}', "a comma"),
        (b"[]", "no object"),
        (b"null", "no object"),
        (b'{"a": tru}', "no value"),
        (b'{"a": 1} x', "follows its end"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"hooks": []}', "hooks is no object"),
        (b'{"hooks": {"PostToolUse": {}}}', "no list"),
        (b'{"a": ' + b"[" * 300 + b"]" * 300 + b"}", "nested too deep"),
    ],
)
def test_what_is_not_understood_is_not_touched(settings: Path, before: bytes, said: str) -> None:
    """A file that is broken or of another shape is left as it is, with what is wrong and where."""
    settings.write_bytes(before)
    with pytest.raises(MemtallyError, match=said):
        plan_install("claude-code", str(settings), [])
    assert settings.read_bytes() == before
    assert [name for name in os.listdir(settings.parent) if name != "home"] == ["settings.json"]


def test_a_read_only_file_is_not_touched(settings: Path) -> None:
    """A file that its owner has made read-only stays as it is, also for root."""
    settings.write_text("{}")
    settings.chmod(0o444)
    with pytest.raises(MemtallyError, match="read-only"):
        plan_install("claude-code", str(settings), [])
    assert settings.read_text() == "{}"


def test_a_link_stays_a_link_and_a_mode_a_mode(settings: Path) -> None:
    """The file behind a symbolic link is changed, and keeps its mode."""
    real = settings.parent / "dotfiles" / "claude.json"
    real.parent.mkdir()
    real.write_text('{"model": "opus"}')
    real.chmod(0o640)
    settings.symlink_to(real)
    plan_install("claude-code", str(settings), []).carry_out()
    assert settings.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert "hooks" in json.loads(real.read_text())


def test_what_changes_meanwhile_is_not_lost(settings: Path) -> None:
    """A file that somebody writes between the look and the change is not overwritten."""
    settings.write_text("{}")
    change = plan_install("claude-code", str(settings), [])
    settings.write_text('{"new": 1}')
    with pytest.raises(MemtallyError, match="changed meanwhile"):
        change.carry_out()
    assert settings.read_text() == '{"new": 1}'


def test_the_other_hosts(settings: Path) -> None:
    """Codex gets its hook for shell commands, Gemini CLI its hook after tools; neither is run in the background."""
    plan_install("codex", str(settings), []).carry_out()
    assert json.loads(settings.read_text()) == {
        "hooks": {
            "PostToolUse": [
                {"matcher": "Bash", "hooks": [{"type": "command", "command": hook_command("codex")}]}
            ]
        }
    }
    plan_install("gemini-cli", str(settings), []).carry_out()
    hooks = json.loads(settings.read_text())["hooks"]
    assert hooks["AfterTool"][0]["matcher"] == "read_file|activate_skill"
    plan_uninstall("gemini-cli", str(settings), []).carry_out()
    assert list(installed_in("codex", str(settings))) == ["PostToolUse"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)
hook_entries = st.fixed_dictionaries({"type": st.just("command"), "command": st.text(max_size=8)})
hook_groups = st.fixed_dictionaries(
    {"matcher": st.text(max_size=4), "hooks": st.lists(hook_entries, min_size=1, max_size=2)}
)
hook_tables = st.dictionaries(
    st.sampled_from([*EVENTS, "Stop", "PreToolUse"]),
    st.lists(hook_groups, min_size=1, max_size=2),
    max_size=3,
)


@given(
    st.dictionaries(st.text(max_size=6).filter(lambda key: key != "hooks"), json_values, max_size=4),
    st.none() | hook_tables,
    st.sampled_from([None, 1, 2, 4, "\t"]),
    st.booleans(),
)
def test_any_settings_survive(
    tmp_path_factory: pytest.TempPathFactory, rest: dict[str, Any], hooks: Any, indent: Any, crlf: bool
) -> None:
    """Whatever the settings say and however they are laid out, ours go in and out, and the rest says the same."""
    settings = tmp_path_factory.mktemp("s") / "settings.json"
    given_value = rest if hooks is None else {**rest, "hooks": hooks}
    text = json.dumps(given_value, indent=indent)
    settings.write_bytes((text.replace("\n", "\r\n") if crlf else text).encode())
    before = settings.read_bytes()
    plan_install("claude-code", str(settings), []).carry_out()
    installed = json.loads(settings.read_text())
    assert {key: item for key, item in installed.items() if key != "hooks"} == rest
    assert not plan_install("claude-code", str(settings), []).needed
    backup = Path(f"{settings}.before-memtally")
    kept = backup.read_bytes()
    assert kept == before
    backup.unlink()
    plan_uninstall("claude-code", str(settings), []).carry_out()
    left = json.loads(settings.read_text()) if settings.exists() else {}
    assert left == (given_value if hooks else rest)


@given(st.text(alphabet='{}[]",:/*\\ \n\t1-a', max_size=60))
def test_the_reader_agrees_with_json(text: str) -> None:
    """What the standard library reads, the editor reads alike; it may take comments and last commas besides."""
    try:
        wanted = json.loads(text)
    except ValueError:
        try:
            Document(text)
        except JsonError:
            pass
        return
    assert Document(text).root.value == wanted


def test_from_the_command_line(run: Run, tmp_path: Path, workspace: Path) -> None:
    """install, its dry run and uninstall say what they do, to people; the file is the user's, or the workspace's."""
    user = tmp_path / "home" / ".claude" / "settings.json"
    dry = run("install", "claude-code", "--dry-run")
    assert dry.returncode == 0
    assert '+            "command": "' in dry.stdout
    assert "nothing was written" in dry.stderr
    assert not user.exists()
    done = run("install", "claude-code")
    assert f"{user}: added PostToolUse" in done.stderr
    assert "installed already" in run("install", "claude-code").stderr
    assert "claude-code         installed (user), has recorded nothing here" in run("status").stdout
    assert not (workspace / ".memtally").exists()
    (workspace / ".memtally").mkdir()
    (workspace / ".memtally/config.toml").write_text(
        'preset = "claude-code"\nshell_reads = true\n[tools]\na = { kind = "memory", argument = "b" }\n'
    )
    assert "renewed PostToolUse" in run("install", "claude-code").stderr
    assert '"matcher": "Read|Skill|Bash|a"' in user.read_text()
    (workspace / ".memtally/config.toml").unlink()
    local = run("install", "claude-code", "--local")
    assert (workspace / ".claude" / "settings.local.json").exists()
    assert "preset claude-code" in local.stderr
    assert "path of this machine" in run("install", "claude-code", "--project").stderr
    user.write_text(
        user.read_text().replace(hook_command("claude-code"), "/old/bin/memtally hook claude-code")
    )
    second = run("install", "claude-code", "--project")
    assert (second.returncode, second.stderr.count("\n")) == (2, 1)
    assert "would count twice" in second.stderr
    said = run("status").stdout
    assert "runs hooks of two installations" in said
    assert "/old/bin/memtally is gone: nothing is recorded" in said
    assert "renewed PostToolUse" in run("install", "claude-code").stderr
    assert "two installations" not in run("status").stdout
    assert "removed" in run("uninstall", "claude-code").stderr
    assert "not installed" in run("uninstall", "claude-code").stderr
    refused = run("install", "codex", "--local")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--local" in refused.stderr
    assert run("install", "nonesuch").returncode == 2
