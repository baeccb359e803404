"""Hook processes: what a payload amounts to, and that nothing of it ever reaches the host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import SHARED
from memtally import build_report, faults
from memtally.hosts import hooking
from memtally.hosts._skills import MEMORY_BYTES

SESSION = "11111111-1111-4111-8111-111111111111"
CONFIG = 'preset = "claude-code"\n[tools]\n"mcp__notes__read_note" = { kind = "memory", argument = "name" }\n'

Seen = tuple[str, str, str, str]


@pytest.fixture
def ws(workspace: Path) -> Path:
    """A workspace that maps a tool, and a home with automatic memory."""
    (workspace / ".memtally").mkdir()
    (workspace / ".memtally" / "config.toml").write_text(CONFIG)
    return workspace


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The user's home folder."""
    return tmp_path / "home"


def write(path: Path, text: str) -> Path:
    """A file, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def payload(ws: Path, event: str, **fields: Any) -> dict[str, Any]:
    """A payload of Claude Code."""
    common = {"session_id": SESSION, "cwd": str(ws), "hook_event_name": event}
    return {**common, "transcript_path": str(ws.parent / "home/.claude/projects/-ws/s.jsonl"), **fields}


def read_of(ws: Path, path: Path, number: int = 1, **fields: Any) -> dict[str, Any]:
    """The payload of a successful read of a file."""
    response = {"type": "text", "file": {"filePath": str(path), "numLines": 1, "totalLines": 1}}
    made = {"tool_name": "Read", "tool_input": {"file_path": str(path)}, "tool_response": response}
    return payload(ws, "PostToolUse", **{**made, "tool_use_id": f"toolu_{number:024d}", **fields})


def record(value: object, host: str = "claude-code") -> None:
    """What a hook process does, in this one."""
    assert hooking.record_payload(host, json.dumps(value).encode()) is None


def seen(lines: Callable[[], list[dict[str, Any]]]) -> list[Seen]:
    """Event, source, record and actor of each line, a record each."""
    return [
        (line["event"], line["source"], f"{r['kind']}/{r['slug']}", line.get("actor", "agent"))
        for line in lines()
        for r in line["records"]
    ]


def hook(
    ws: Path, data: bytes, host: str = "claude-code", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """A hook as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "memtally", "hook", host],
        input=data,
        cwd=ws.parent,
        capture_output=True,
        timeout=60,
        env={**os.environ, "PYTHONWARNINGS": "error", **environment},
    )


# -- what counts -------------------------------------------------------------------------------------


@pytest.mark.skipif(not (SHARED / "hooks" / "shapes.jsonl").exists(), reason="the real shapes are not here")
def test_the_shapes_of_real_payloads(ws: Path, home: Path, lines: Callable[[], list[dict[str, Any]]]) -> None:
    """Each of the recorded shapes yields what was worked out for it by hand, and nothing more."""
    exposure, resident = "resident_exposure", "ResidentInjection"
    write(home / ".claude/projects/-ws/memory/MEMORY.md", "- [a](topic-a.md)\n")
    start = [(exposure, resident, "memory/MEMORY", "agent")]
    expected: dict[int, list[Seen]] = {
        1: start,
        2: [(exposure, resident, "instructions/CLAUDE.md", "agent")],
        3: [(exposure, resident, "instructions/~/.claude/CLAUDE.md", "agent")],
        4: [(exposure, resident, "instructions/docs/style.md", "agent")],
        5: [(exposure, resident, "rule/python", "agent")],
        6: [(exposure, resident, "instructions/pkg/CLAUDE.md", "agent")],
        7: [("use", "WorkflowInvoke", "skill/deploy", "user")],
        9: [("use", "WorkflowInvoke", "skill/toolbox:help", "user")],
        11: [("use", "MemoryRead", "memory/topic-a", "agent")],
        12: [("use", "MemoryRead", "instructions/CLAUDE.md", "agent")],
        15: [("use", "SkillInvoke", "skill/pdf", "agent")],
        16: [("use", "SkillInvoke", "skill/pdf", "subagent")],
        18: [("use", "MemoryRead", "memory/topic-b", "agent")],
        21: [(exposure, resident, "instructions/CLAUDE.md", "agent")],
        22: start,
        23: start,
    }
    shapes = (
        (SHARED / "hooks" / "shapes.jsonl")
        .read_text()
        .replace("{WORKSPACE}", str(ws))
        .replace("{HOME}", str(home))
    )
    before = 0
    for number, shape in enumerate(shapes.splitlines(), 1):
        assert hooking.record_payload("claude-code", shape.encode()) is None, number
        found = seen(lines)
        assert found[before:] == expected.get(number, []), number
        before = len(found)
    partial = [line for line in lines() if line["records"][0].get("partial")]
    assert [line["records"][0]["slug"] for line in partial] == ["CLAUDE.md"]
    assert len({line["session_id"] for line in lines()}) == 2


def test_reads_of_records_and_of_nothing_else(
    ws: Path, home: Path, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    """A read counts where the file is a record by the configuration, whoever's folder it is in."""
    files = {
        ws / "CLAUDE.md": "instructions/CLAUDE.md",
        ws / "pkg/CLAUDE.local.md": "instructions/pkg/CLAUDE.local.md",
        ws / ".claude/rules/api/errors.md": "rule/api/errors",
        ws / ".claude/skills/pdf/SKILL.md": "skill/pdf",
        ws / ".claude/skills/doc/skill.md": "skill/doc",
        ws / ".claude/commands/git/commit.md": "skill/git:commit",
        ws / ".claude/agent-memory/reviewer/MEMORY.md": "memory/reviewer/MEMORY",
        home / ".claude/CLAUDE.md": "instructions/~/.claude/CLAUDE.md",
        home / ".claude/rules/code.md": "rule/~/code",
        home / ".claude/projects/-x/memory/topic-a.md": "memory/topic-a",
        home / ".claude/agent-memory/reviewer/MEMORY.md": "memory/~/reviewer/MEMORY",
        home / ".claude/plugins/cache/p/1.0/skills/plan/SKILL.md": "skill/plan",
        ws / ".claude/skills/pdf/reference.md": None,
        ws / "README.md": None,
        ws / "src/CLAUDE.py": None,
        home / ".claude/projects/-x/session.jsonl": None,
        home / "notes.md": None,
    }
    for number, path in enumerate(files):
        record(read_of(ws, write(path, "text\n"), number))
    assert [name for _, _, name, _ in seen(lines)] == [name for name in files.values() if name]
    assert {line["records"][0]["file_bytes"] for line in lines()} == {5}


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_response": {"type": "file_unchanged", "file": {}}},
        {"tool_response": "File unchanged since last read. The content from the earlier Read still applies."},
        {"tool_response": {"is_error": True, "content": "no"}},
        {"tool_response": None},
        {"tool_name": "Grep"},
        {"tool_name": "Edit"},
        {"tool_name": "Bash", "tool_input": {"command": "cat CLAUDE.md"}},
        {"tool_input": {}},
        {"tool_input": {"file_path": "CLAUDE.md"}},
        {"tool_input": {"file_path": "C:\\ws\\CLAUDE.md"}},
        {"hook_event_name": "PostToolUseFailure"},
        {"hook_event_name": "PreToolUse"},
        {"hook_event_name": "PostCompact"},
        {"tool_name": "Skill", "tool_input": {"skill": "pdf"}, "tool_response": {"success": False}},
        {"tool_name": "Skill", "tool_input": {"skill": "  "}},
        {
            "tool_name": "mcp__notes__read_note",
            "tool_input": {"name": "a"},
            "tool_response": [{"type": "text", "text": ""}],
        },
        {
            "tool_name": "mcp__notes__read_note",
            "tool_input": {},
            "tool_response": [{"type": "text", "text": "x"}],
        },
        {"tool_name": "mcp__notes__search", "tool_input": {"name": "a"}},
    ],
)
def test_what_is_no_read(ws: Path, lines: Callable[[], list[dict[str, Any]]], fields: dict[str, Any]) -> None:
    """Stubs, errors, searches, writes and tools that nobody has mapped count for nothing."""
    record(read_of(ws, write(ws / "CLAUDE.md", "x"), **fields))
    assert lines() == []


def test_one_read_counts_once_however_often_it_is_reported(
    ws: Path, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    """A hook that is registered twice, or a prompt that two hooks report, is one event in the log."""
    path = write(ws / "CLAUDE.md", "x")
    write(ws / ".claude/commands/deploy.md", "Deploy")
    record(read_of(ws, path))
    record(read_of(ws, path))
    prompt = "33333333-3333-4333-8333-333333333333"
    record(payload(ws, "UserPromptSubmit", prompt="/deploy staging", prompt_id=prompt))
    record(
        payload(
            ws, "UserPromptExpansion", expansion_type="slash_command", command_name="deploy", prompt_id=prompt
        )
    )
    assert [name for _, _, name, _ in seen(lines)] == ["instructions/CLAUDE.md", "skill/deploy"]
    record(read_of(ws, path, 2))  # another read
    assert build_report(workspace=ws)["instructions", "CLAUDE.md"].use_count == 2
    assert build_report(workspace=ws).coverage.duplicate_events == 0


def test_short_ids_make_no_two_calls_one(ws: Path, lines: Callable[[], list[dict[str, Any]]]) -> None:
    """An id such as call_1, which a small server gives in every session, is none: each read counts."""
    path = write(ws / "CLAUDE.md", "x")
    record(read_of(ws, path, tool_use_id="call_1"))
    record(read_of(ws, path, tool_use_id="call_1"))
    assert len({line["id"] for line in lines()}) == 2


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"command_name": "deploy"}, ["skill/deploy"]),
        ({"command_name": "nowhere"}, ["skill/nowhere"]),  # a plugin's, of which no file is found
        ({"command_name": "clear"}, []),
        ({"command_name": "model"}, []),
        ({"command_name": "review"}, ["skill/review"]),  # built in, but the workspace has its own
        ({"command_name": "x", "expansion_type": "mcp_prompt"}, []),
        ({"command_name": ""}, []),
        ({"command_name": None}, []),
        ({"hook_event_name": "UserPromptSubmit", "prompt": "/deploy now"}, ["skill/deploy"]),
        ({"hook_event_name": "UserPromptSubmit", "prompt": "/nowhere now"}, []),
        ({"hook_event_name": "UserPromptSubmit", "prompt": "see /deploy"}, []),
        ({"hook_event_name": "UserPromptSubmit", "prompt": "/usr/bin/env"}, []),
        ({"hook_event_name": "UserPromptSubmit", "prompt": "#policy and /"}, []),
        ({"hook_event_name": "UserPromptSubmit", "prompt": "/../../etc/passwd"}, []),
    ],
)
def test_typed_commands(
    ws: Path, lines: Callable[[], list[dict[str, Any]]], fields: dict[str, Any], names: list[str]
) -> None:
    """A command that was expanded counts, a built-in one does not, and a path is none."""
    write(ws / ".claude/commands/deploy.md", "Deploy")
    write(ws / ".claude/skills/review/SKILL.md", "Review")
    made = {"expansion_type": "slash_command", "prompt_id": "33333333-3333-4333-8333-333333333333"}
    record(payload(ws, "UserPromptExpansion", **{**made, **fields}))
    assert [(name, actor) for _, _, name, actor in seen(lines)] == [(name, "user") for name in names]


def test_a_session_starts_with_the_index_and_the_listing(
    ws: Path, home: Path, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    """MEMORY.md as far as it is placed, and each skill with its line of the listing, by hand."""
    write(home / ".claude/projects/-ws/memory/MEMORY.md", "line\n" * 300)
    write(
        ws / ".claude/skills/pdf/SKILL.md",
        "---\nname: pdf\ndescription: >\n  Work\n  with PDFs\n---\nlong body\n",
    )
    write(ws / ".claude/skills/hidden/SKILL.md", "---\ndescription: x\ndisable-model-invocation: true\n---\n")
    write(ws / ".claude/commands/git/commit.md", '---\ndescription: "Commit it"\n---\nbody\n')
    write(ws / ".claude/commands/plain.md", "no description\n")
    write(home / ".claude/skills/pdf/SKILL.md", "---\ndescription: of the user\n---\n")
    write(home / ".claude/skills/own/SKILL.md", "---\ndescription: mine\nwhen_to_use: always\n---\n")
    record(payload(ws, "SessionStart", source="startup"))
    [memory, listing] = lines()
    [index] = memory["records"]
    assert (index["file_bytes"], index["injected_bytes"]) == (
        1500,
        999,
    )  # 200 lines, of which 199 end in a newline
    placed = {r["slug"]: r["injected_bytes"] for r in listing["records"]}
    assert placed == {
        "pdf": len("- pdf: Work with PDFs"),
        "git:commit": len("- git:commit: Commit it"),
        "own": len("- own: mine - always"),
    }


@pytest.mark.parametrize("source", ["startup", "resume", "clear", "compact", "fork"])
def test_every_start_places_anew(
    ws: Path, home: Path, lines: Callable[[], list[dict[str, Any]]], source: str
) -> None:
    """Each kind of start is one placing of MEMORY.md; a long line of it is cut by bytes."""
    write(home / ".claude/projects/-ws/memory/MEMORY.md", "x" * 30_000)
    record(payload(ws, "SessionStart", source=source))
    assert [line["records"][0]["injected_bytes"] for line in lines()] == [MEMORY_BYTES]


def test_automatic_memory_that_is_off_or_elsewhere(
    ws: Path,
    home: Path,
    tmp_path: Path,
    lines: Callable[[], list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The user's settings switch it off or name its folder; a workspace's may only switch it off."""
    write(home / ".claude/projects/-ws/memory/MEMORY.md", "one\n")
    write(tmp_path / "elsewhere/MEMORY.md", "other\n")
    start = payload(ws, "SessionStart", source="startup")
    write(ws / ".claude/settings.json", json.dumps({"autoMemoryDirectory": str(tmp_path / "elsewhere")}))
    record(start)
    write(home / ".claude/settings.json", json.dumps({"autoMemoryDirectory": str(tmp_path / "elsewhere")}))
    record(start)
    write(ws / ".claude/settings.local.json", json.dumps({"autoMemoryEnabled": False}))
    record(start)
    (ws / ".claude/settings.local.json").unlink()
    monkeypatch.setenv("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1")
    record(start)
    assert [line["records"][0]["file_bytes"] for line in lines()] == [4, 6]


def test_a_listing_beyond_its_budget_is_unmeasured(
    ws: Path, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    """Where the host leaves descriptions out, which it does not say, the sizes are unknown and never guessed."""
    for number in range(9):
        write(ws / f".claude/skills/s{number}/SKILL.md", f"---\ndescription: {'d' * 1000}\n---\n")
    record(payload(ws, "SessionStart", source="startup"))
    found = build_report(workspace=ws)
    assert [r.resident_exposure_count for r in found.records] == [1] * 9
    assert {r.unmeasured_exposure_count for r in found.records} == {1}


def test_a_subagent_starts_with_what_its_definition_gives_it(
    ws: Path, home: Path, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    """Its own memory and its skills, whole; a name that leads elsewhere is none."""
    write(
        ws / ".claude/agents/reviewer.md", "---\nname: reviewer\nmemory: project\nskills: [pdf, gone]\n---\n"
    )
    write(ws / ".claude/agent-memory/reviewer/MEMORY.md", "- note\n")
    write(home / ".claude/skills/pdf/SKILL.md", "---\ndescription: x\n---\nbody\n")
    for name in ("reviewer", "nobody", "../agents/reviewer", ""):
        record(payload(ws, "SubagentStart", agent_id="a1", agent_type=name))
    assert seen(lines) == [
        ("resident_exposure", "ResidentInjection", "memory/reviewer/MEMORY", "subagent"),
        ("resident_exposure", "ResidentInjection", "skill/pdf", "subagent"),
    ]


def test_a_subagents_transcript_says_what_it_started_with(
    ws: Path, home: Path, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    """Instructions and listing that were rendered count once, however often the subagent stops; rules come otherwise."""

    def line(number: int, attachment: dict[str, Any], **more: Any) -> str:
        uuid = f"44444444-4444-4444-8444-{number:012d}"
        at = "2026-12-01T03:44:00.363Z"
        made = {
            "type": "attachment",
            "uuid": uuid,
            "timestamp": at,
            "version": "2.1.332",
            "attachment": attachment,
        }
        return json.dumps({**made, "rendered": [{"content": "x"}], **more})

    instructions = {
        "type": "instructions",
        "files": [{"type": "Project", "path": str(ws / "CLAUDE.md"), "content": "abc"}],
    }
    skills = {"type": "skill_listing", "names": ["pdf"], "content": "- pdf: Work"}
    nested = {"type": "nested_memory", "path": str(ws / ".claude/rules/a.md"), "content": {"content": "x"}}
    transcript = write(
        home / "t.jsonl",
        "\n".join(
            [
                line(1, instructions),
                "not json",
                line(2, skills),
                line(3, nested),
                line(4, instructions, rendered=None),
                line(5, instructions, uuid="[trimmed]"),
            ]
        ),
    )
    stop = payload(ws, "SubagentStop", agent_transcript_path=str(transcript))
    record(stop)
    record(stop)
    record(payload(ws, "SubagentStop", agent_transcript_path=str(home / "gone.jsonl")))
    assert seen(lines) == [
        ("resident_exposure", "ResidentInjection", "instructions/CLAUDE.md", "subagent"),
        ("resident_exposure", "ResidentInjection", "skill/pdf", "subagent"),
    ]
    assert {line["occurred_at"] for line in lines()} == {"2026-12-01T03:44:00.363000Z"}
    assert [line["records"][0]["injected_bytes"] for line in lines()] == [3, 11]


def test_shell_reads_are_counted_where_that_is_switched_on(
    ws: Path, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    """With shell_reads = true a cat of a record is a use by ShellRead; what failed of it is not."""
    (ws / ".memtally/config.toml").write_text(CONFIG.replace("[tools]", "shell_reads = true\n[tools]"))
    write(ws / "CLAUDE.md", "x")
    for number, (command, output) in enumerate(
        [
            ("cat CLAUDE.md", "x"),
            ("grep x CLAUDE.md", "x"),
            ("cat AGENTS.md", "cat: AGENTS.md: No such file or directory"),
            ("cd pkg && cat CLAUDE.md", "x"),
        ]
    ):
        response = {"stdout": output, "stderr": "", "interrupted": False}
        made = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_response": response}
        record(payload(ws, "PostToolUse", **made, tool_use_id=f"toolu_{number:024d}"))
    assert [(source, name) for _, source, name, _ in seen(lines)] == [
        ("ShellRead", "instructions/CLAUDE.md"),
        ("ShellRead", "instructions/pkg/CLAUDE.md"),
    ]


def test_codex_and_gemini(ws: Path, lines: Callable[[], list[dict[str, Any]]]) -> None:
    """Codex's shell reads and Gemini's reads and skills count; what failed, or is switched off, does not."""
    write(ws / "AGENTS.md", "x")
    bash = {
        "tool_name": "Bash",
        "tool_input": {"command": "cat AGENTS.md"},
        "tool_use_id": "call_" + "a" * 20,
    }
    record(payload(ws, "PostToolUse", **bash, tool_response="x"), "codex")
    record(
        payload(
            ws, "PostToolUse", **{**bash, "tool_use_id": "call_" + "b" * 20}, tool_response={"exit_code": 1}
        ),
        "codex",
    )
    read = {"tool_name": "read_file", "tool_response": {"llmContent": "x"}}
    record(payload(ws, "AfterTool", **read, tool_input={"file_path": str(ws / "AGENTS.md")}), "gemini-cli")
    record(payload(ws, "AfterTool", **read, tool_input={"absolute_path": str(ws / "x.py")}), "gemini-cli")
    record(
        payload(ws, "AfterTool", tool_name="activate_skill", tool_input={"name": "pdf"}, tool_response={}),
        "gemini-cli",
    )
    failed = {"tool_name": "read_file", "tool_response": {"error": {"message": "no"}}}
    record(payload(ws, "AfterTool", **failed, tool_input={"file_path": str(ws / "AGENTS.md")}), "gemini-cli")
    (ws / ".memtally/config.toml").write_text('preset = "claude-code"\nshell_reads = false\n')
    record(
        payload(ws, "PostToolUse", **{**bash, "tool_use_id": "call_" + "c" * 20}, tool_response="x"), "codex"
    )
    assert [(line["host"], line["source"], line["records"][0]["slug"]) for line in lines()] == [
        ("codex", "ShellRead", "AGENTS.md"),
        ("gemini-cli", "MemoryRead", "AGENTS.md"),
        ("gemini-cli", "SkillInvoke", "pdf"),
    ]


# -- where ------------------------------------------------------------------------------------------


def test_a_workspace_is_begun_where_a_host_first_reads(
    workspace: Path, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    """A project without .memtally/ gets one, with the host's preset, once there is something to record."""
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    inner = write(workspace / "pkg/src/a.py", "x").parent
    record({**read_of(workspace, inner / "a.py"), "cwd": str(inner)})
    assert not (workspace / ".memtally").exists()
    record({**read_of(workspace, write(workspace / "CLAUDE.md", "x")), "cwd": str(inner)})
    assert [name for _, _, name, _ in seen(lines)] == ["instructions/CLAUDE.md"]
    assert 'preset = "claude-code"' in (workspace / ".memtally/config.toml").read_text()
    assert build_report(workspace=workspace).coverage.inventory_state == "complete"


def test_the_home_folder_becomes_no_workspace_by_itself(
    home: Path, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    """A host that is started at home begins no workspace there, which would take the events of all below it."""
    loaded = payload(home, "InstructionsLoaded", file_path=str(write(home / ".claude/CLAUDE.md", "x")))
    for folder in (home, Path("/")):
        record({**loaded, "cwd": str(folder)})
        assert not (folder / ".memtally").exists()
    write(home / ".memtally/config.toml", 'preset = "claude-code"\n')  # who wants it says so
    record(loaded)
    assert (home / ".memtally/usage.jsonl").exists()


def test_names_are_in_their_normal_form(ws: Path, lines: Callable[[], list[dict[str, Any]]]) -> None:
    """A name in another form of Unicode is the same record; one that is a whole text is none."""
    for number, name in enumerate(["cafe\u0301", "caf\u00e9", "x" * 1001, "y" * 1000]):
        made = {"tool_name": "Skill", "tool_input": {"skill": name}, "tool_response": {"success": True}}
        record(payload(ws, "PostToolUse", **made, tool_use_id=f"toolu_{number:024d}"))
    assert [line["records"][0]["slug"] for line in lines()] == ["caf\u00e9", "caf\u00e9", "y" * 1000]


def test_the_project_of_the_session_goes_before_the_folder_it_is_in(
    ws: Path, tmp_path: Path, lines: Callable[[], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that has changed its folder still belongs to where it began."""
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(ws))
    record({**read_of(ws, write(ws / "CLAUDE.md", "x")), "cwd": str(other)})
    assert len(lines()) == 1
    assert not (other / ".memtally").exists()


def test_a_linked_worktree_reads_the_main_ones_records(
    ws: Path, tmp_path: Path, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    """The same file of a linked worktree is the same record, wherever the worktree lies; it is measured there."""
    git = ["git", "-C", str(ws), "-c", "user.name=a", "-c", "user.email=a@b"]
    write(ws / ".claude/rules/a.md", "main\n")
    subprocess.run(["git", "init", "-q", str(ws)], check=True)
    subprocess.run([*git, "add", ".claude"], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    for number, place in enumerate([tmp_path / "linked", ws / ".claude/worktrees/w"]):
        subprocess.run([*git, "worktree", "add", "-q", str(place), "-b", f"b{number}"], check=True)
        write(place / ".claude/rules/a.md", "changed here\n")
        record({**read_of(ws, place / ".claude/rules/a.md", number), "cwd": str(place)})
    assert [name for _, _, name, _ in seen(lines)] == ["rule/a", "rule/a"]
    assert {line["records"][0]["file_bytes"] for line in lines()} == {13}


def test_links_and_repositories_inside(
    ws: Path, tmp_path: Path, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    """A link is the file it leads to; one that leads out is not looked at; a repository inside is another workspace."""
    write(ws / "AGENTS.md", "four")
    (ws / "CLAUDE.md").symlink_to("AGENTS.md")
    write(tmp_path / "secret.md", "secret")
    (ws / ".claude/rules").mkdir(parents=True)
    (ws / ".claude/rules/out.md").symlink_to(tmp_path / "secret.md")
    (ws / "sub/.git").mkdir(parents=True)
    write(ws / "sub/CLAUDE.md", "x")
    for number, name in enumerate(["CLAUDE.md", ".claude/rules/out.md", "sub/CLAUDE.md"]):
        record(read_of(ws, ws / name, number))
    found = [(f"{r['kind']}/{r['slug']}", r["file_bytes"]) for line in lines() for r in line["records"]]
    assert found == [("instructions/AGENTS.md", 4), ("rule/out", None)]


def test_a_workspaces_own_globs_decide(ws: Path, lines: Callable[[], list[dict[str, Any]]]) -> None:
    """Where the workspace names its records itself, those are the ones."""
    (ws / ".memtally/config.toml").write_text('[records]\ndecision = ["decisions/**/*.md"]\n')
    record(read_of(ws, write(ws / "decisions/a/b.md", "x"), 1))
    record(read_of(ws, write(ws / "CLAUDE.md", "x"), 2))
    record(payload(ws, "InstructionsLoaded", file_path=str(ws / "CLAUDE.md"), memory_type="Project"))
    assert [name for _, _, name, _ in seen(lines)] == ["decision/a/b", "instructions/CLAUDE.md"]


# -- never a word to the host ------------------------------------------------------------------------

ODD = [
    b"",
    b"\n",
    b"not json",
    b"[]",
    b"null",
    b'"text"',
    b"{}",
    b"[" * 100_000,
    b'{"hook_event_name": 7, "cwd": []}',
    b'{"hook_event_name": "PostToolUse", "cwd": "/nonexistent/folder"}',
    b'{"hook_event_name": "InstructionsLoaded", "file_path": "C:\\\\Users\\\\u\\\\.claude\\\\rules\\\\p.md"}',
    b'{"cwd": "\xff"}',
    b'{"cwd": "/tmp\\u0000"}',
    b'{"a": ' + b"9" * 5000 + b"}",
]


@pytest.mark.parametrize("data", ODD)
def test_odd_payloads_exit_with_zero_and_say_nothing(ws: Path, data: bytes) -> None:
    """Whatever stands on stdin, the hook exits with 0, prints nothing to stdout and writes no event."""
    done = hook(ws, data)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"Traceback" not in done.stderr
    assert not (ws / ".memtally/usage.jsonl").exists()


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.sampled_from(["CLAUDE.md", "/", "deploy", "Read"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
KEYS = [
    *(
        "tool_name",
        "tool_input",
        "tool_response",
        "tool_use_id",
        "prompt",
        "prompt_id",
        "command_name",
        "file_path",
    ),
    *(
        "transcript_path",
        "agent_id",
        "agent_type",
        "agent_transcript_path",
        "session_id",
        "source",
        "expansion_type",
    ),
]


@given(
    st.sampled_from(
        [
            "PostToolUse",
            "UserPromptExpansion",
            "UserPromptSubmit",
            "InstructionsLoaded",
            "SessionStart",
            "SubagentStart",
            "SubagentStop",
            "AfterTool",
        ]
    ),
    st.sampled_from(["Read", "Skill", "Bash", "mcp__notes__read_note", "read_file", "activate_skill"]),
    st.dictionaries(st.sampled_from(KEYS), values, max_size=6),
    st.sampled_from(["claude-code", "codex", "gemini-cli"]),
)
def test_no_payload_raises(
    tmp_path_factory: pytest.TempPathFactory, event: str, tool: str, fields: dict[str, Any], host: str
) -> None:
    """Fields of any type in any event of any host are looked at without a fault."""
    ws = tmp_path_factory.mktemp("w")
    write(ws / ".memtally/config.toml", CONFIG.replace("[tools]", "shell_reads = true\n[tools]"))
    faults.reset()
    data = json.dumps({"hook_event_name": event, "cwd": str(ws), "tool_name": tool, **fields}).encode()
    hooking.record_payload(host, data)
    assert faults.counts() == {}


def test_where_nothing_can_be_written(ws: Path, tmp_path: Path) -> None:
    """A folder in the log's place, or a file in the folder's, costs the event and not the host."""
    (ws / ".memtally/usage.jsonl").mkdir()
    data = json.dumps(read_of(ws, write(ws / "CLAUDE.md", "x"))).encode()
    done = hook(ws, data)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"cannot be written" in done.stderr
    other = tmp_path / "other"
    write(other / ".memtally", "a file")
    done = hook(other, json.dumps(read_of(other, write(other / "CLAUDE.md", "x"))).encode())
    assert (done.returncode, done.stdout) == (0, b"")


def test_a_wrong_configuration_is_a_fault_that_status_shows(ws: Path) -> None:
    """A configuration that is no TOML costs the events, and says so where somebody looks."""
    (ws / ".memtally/config.toml").write_text("preset = [")
    done = hook(ws, json.dumps(read_of(ws, write(ws / "CLAUDE.md", "x"))).encode())
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"not valid TOML" in done.stderr
    assert "hook_failed" in (ws / ".memtally/health.jsonl").read_text()


def test_unknown_hosts_and_a_switch(ws: Path) -> None:
    """An unknown host and a disabled memtally are no errors to the host either."""
    data = json.dumps(read_of(ws, write(ws / "CLAUDE.md", "x"))).encode()
    done = hook(ws, data, host="nonesuch")
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"no such host" in done.stderr
    assert hook(ws, data, MEMTALLY_DISABLED="1").returncode == 0
    assert not (ws / ".memtally/usage.jsonl").exists()


def test_thirty_at_once(ws: Path, lines: Callable[[], list[dict[str, Any]]]) -> None:
    """Thirty hook processes at the same time lose nothing and double nothing."""
    path = write(ws / "CLAUDE.md", "x")
    payloads = [json.dumps(read_of(ws, path, number)).encode() for number in range(30)]
    with ThreadPoolExecutor(30) as pool:
        done = list(pool.map(lambda data: hook(ws, data), payloads))
    assert [(each.returncode, each.stdout) for each in done] == [(0, b"")] * 30
    assert len({line["id"] for line in lines()}) == len(lines()) == 30


@pytest.mark.parametrize("spaced", [False, True])
def test_ten_million_bytes(ws: Path, lines: Callable[[], list[dict[str, Any]]], spaced: bool) -> None:
    """A payload with a huge answer counts like any other, in either layout of JSON, and so does a huge tool's answer."""
    separators = None if spaced else (",", ":")
    content = 'a line of "text"\\ and so on\n' * 370_000
    path = write(ws / "CLAUDE.md", "small")
    file = {"filePath": str(path), "content": content, "numLines": 5, "startLine": 1, "totalLines": 9}
    for number, fields in enumerate(
        [
            {"tool_response": {"type": "text", "file": file}},
            {"tool_response": {"type": "text", "file": file}, "tool_input": {"file_path": str(ws / "x.py")}},
            {
                "tool_name": "mcp__notes__read_note",
                "tool_input": {"name": "n"},
                "tool_response": [{"type": "text", "text": "x" * 10_000_000}],
            },
            {"tool_response": {"type": "file_unchanged", "file": {"pad": content}}},
        ]
    ):
        data = json.dumps(read_of(ws, path, number, **fields), separators=separators).encode()
        assert hooking.record_payload("claude-code", data) is None
    found = [
        (r["slug"], r["file_bytes"], r.get("partial", False)) for line in lines() for r in line["records"]
    ]
    assert found == [("CLAUDE.md", 5, True), ("n", 10_000_000, False)]


def test_a_hook_loads_next_to_nothing(ws: Path) -> None:
    """Neither OpenTelemetry nor a decoder, a command line or a tokenizer is loaded by a hook that records."""
    data = json.dumps(read_of(ws, write(ws / "CLAUDE.md", "x"))).encode()
    hook(ws, data)  # the configuration is cached from now on
    code = "import sys, memtally.cli as c\ntry:\n    c.main(['hook', 'claude-code'])\nexcept SystemExit: pass\nprint(*sorted(sys.modules))"
    again = json.dumps(read_of(ws, ws / "CLAUDE.md", 2)).encode()
    done = subprocess.run(
        [sys.executable, "-c", code], input=again, capture_output=True, check=True, timeout=60
    )
    loaded = {name.split(".")[0] for name in done.stdout.decode().split()}
    heavy = {"opentelemetry", "msgspec", "click", "rich", "tiktoken", "toktok", "tomllib", "dataclasses"}
    heavy |= {
        "datetime",
        "pathlib",
        "uuid",
        "typing",
        "subprocess",
        "logging",
        "hashlib",
        "asyncio",
        "inspect",
    }
    assert loaded & heavy == set()
    assert (ws / ".memtally/usage.jsonl").read_bytes().count(b"\n") == 2


# -- exact counts in a process without a vocabulary ----------------------------------------------------


def test_what_a_hook_estimates_is_counted_exactly_the_next_time(
    ws: Path, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    """The first event of a content is by the formula; another process counts it, and from then on the count is exact."""
    from memtally.tokens import TokenEstimator

    text = "Decide in writing, and say why.\n" * 40
    exact = TokenEstimator("o200k_base")
    exact.load()
    path = write(ws / "CLAUDE.md", text)
    hook(ws, json.dumps(read_of(ws, path, 1)).encode())
    counts = ws / ".memtally/cache/tokens-o200k_base"
    for _ in range(200):
        if counts.exists() and counts.stat().st_size:
            break
        time.sleep(0.1)
    hook(ws, json.dumps(read_of(ws, path, 2)).encode())
    path.write_text(text + "More.\n")
    hook(ws, json.dumps(read_of(ws, path, 3)).encode())
    found = [(line["tokenizer"], line["records"][0]["file_tokens_estimate"]) for line in lines()]
    assert [tokenizer for tokenizer, _ in found] == ["script-estimate", "o200k_base", "script-estimate"]
    assert found[1][1] == exact.count_exactly(text)


def test_without_a_vocabulary_it_is_not_tried_again_and_again(
    ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no vocabulary, that is noted, and hooks start no further process for a day."""
    from memtally import tokens
    from memtally.hosts import _background
    from memtally.hosts.counting import count_wanted

    monkeypatch.setattr(tokens, "load_counter", lambda name: (_ for _ in ()).throw(LookupError(name)))
    assert count_wanted(str(ws / ".memtally"), [str(write(ws / "CLAUDE.md", "x"))]) == (0, "no vocabulary")
    started: list[object] = []
    monkeypatch.setattr(os, "posix_spawn", lambda *arguments, **more: started.append(arguments))
    _background.count_in_background(str(ws / ".memtally"), [str(ws / "CLAUDE.md")])
    assert started == []
    marker = ws / ".memtally/cache" / _background.MARKER
    os.utime(marker, (time.time() - 90_000, time.time() - 90_000))
    _background.count_in_background(str(ws / ".memtally"), [str(ws / "CLAUDE.md")])
    assert len(started) == 1


def test_a_very_large_file_stays_an_estimate(ws: Path, lines: Callable[[], list[dict[str, Any]]]) -> None:
    """Of a file that is looked at in part no count is kept, so that no estimate passes for one."""
    from memtally.hosts.counting import count_wanted

    path = write(ws / "CLAUDE.md", "some words\n" * 120_000)
    assert count_wanted(str(ws / ".memtally"), [str(path)]) == (0, "o200k_base")
    record(read_of(ws, path))
    [line] = lines()
    assert (line["tokenizer"], line["records"][0]["file_bytes"]) == ("script-estimate", 1_320_000)
    assert not (ws / ".memtally/cache/tokens-wanted").exists()


def test_counting_by_hand(ws: Path, run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """tokens count counts the inventory once, and has nothing to do the second time."""
    write(ws / "CLAUDE.md", "one")
    write(ws / ".claude/skills/pdf/SKILL.md", "---\ndescription: x\n---\nbody\n")
    assert (
        "3 new contents counted (o200k_base)" in run("tokens", "count").stderr
    )  # two files and a line of the listing
    assert "0 new contents counted" in run("tokens", "count").stderr
