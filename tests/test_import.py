"""Imports of past sessions: what their transcripts show, each once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import SHARED, Process
from memtally import RecordUsage, build_report
from memtally.hosts import hooking
from memtally.hosts.codex_rollouts import shell_commands

TRANSCRIPTS = SHARED / "transcripts"
real = pytest.mark.skipif(not TRANSCRIPTS.exists(), reason="the real transcripts are not here")

SESSION = "11111111-1111-4111-8111-111111111111"


def figures(workspace: Path, **options: Any) -> dict[str, RecordUsage]:
    """The report, by ``kind/slug``."""
    return {f"{r.kind}/{r.slug}": r for r in build_report(workspace=workspace, **options).records}


def uses(workspace: Path) -> dict[str, dict[str, int]]:
    """The sources of each record that was used."""
    return {name: dict(r.source_breakdown) for name, r in figures(workspace).items() if r.use_count}


def resident(workspace: Path, but: str = "") -> dict[str, int]:
    """How often each record was placed; ``but``: leave these out by the start of their names."""
    return {
        name: r.resident_exposure_count
        for name, r in figures(workspace).items()
        if r.resident_exposure_count and not (but and name.startswith(but))
    }


def imported(workspace: Path, host: str = "claude-code") -> list[dict[str, Any]]:
    """The lines of an import's segment."""
    segment = workspace / ".memtally" / f"usage-import-{host}.jsonl"
    return [json.loads(line) for line in segment.read_text().splitlines()]


class Transcript:
    """A transcript that is written line by line, in the form of Claude Code."""

    def __init__(self, folder: str, session: str = SESSION, version: str = "2.1.232") -> None:
        self.lines: list[str] = []
        self.common = {"cwd": folder, "sessionId": session, "version": version, "isSidechain": False}

    def add(self, kind: str, **fields: Any) -> str:
        """One line; its uuid."""
        number = len(self.lines)
        uuid = f"44444444-4444-4444-8444-{number:012d}"
        at = f"2026-08-20T02:{number // 60:02d}:{number % 60:02d}.000Z"
        self.lines.append(json.dumps({**self.common, "type": kind, "uuid": uuid, "timestamp": at, **fields}))
        return uuid

    def call(self, tool: str, given: dict[str, Any], own: str, result: Any = "text", **fields: Any) -> None:
        """A call of a tool and its answer."""
        self.add(
            "assistant", message={"content": [{"type": "tool_use", "id": own, "name": tool, "input": given}]}
        )
        answer = {
            "type": "tool_result",
            "tool_use_id": own,
            "content": result,
            **fields.pop("result_fields", {}),
        }
        self.add("user", message={"content": [answer]}, **fields)

    def typed(self, name: str, **fields: Any) -> None:
        """A command of a workspace's, as it is written when it is typed."""
        text = f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>"
        self.add("user", message={"role": "user", "content": text}, **fields)

    def placed(self, **attachment: Any) -> None:
        """An attachment."""
        self.add("attachment", attachment=attachment)

    def write(self, path: Path, lines: slice = slice(None)) -> Path:
        """The file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(line + "\n" for line in self.lines[lines]))
        return path


@pytest.fixture(autouse=True)
def _by_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMTALLY_TOKENIZER", "script-estimate")  # no vocabulary is loaded for each command


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """The user's folder of transcripts."""
    return tmp_path / "home" / ".claude" / "projects"


def toolu(number: int) -> str:
    """A tool call's id, as the host makes them."""
    return f"toolu_{number:024d}"


# -- the real ones -----------------------------------------------------------------------------------


@real
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cc-agentsessions-schema", {}),
        ("cc-contextcost-demo", {}),
        ("cc-entire-compact-old", {}),
        ("cc-entire-read-grep", {"instructions/CLAUDE.md": {"MemoryRead": 1}}),
        ("cc-entire-skill-bash", {"skill/test-repo": {"SkillInvoke": 1}}),
        (
            "cc-entire-slash-skill",
            {
                "skill/superpowers:write-plan": {"WorkflowInvoke": 1},
                "skill/superpowers:writing-plans": {"SkillInvoke": 1},
            },
        ),
        ("cc-entire-unknown-skill", {}),
        ("cc-happy-fixtures", {}),
        ("cc-linetypes", {}),
        ("cc-te-nested-small", {}),
        (
            "cc-te-reviewing",
            {
                "skill/compound-loop:retrospective": {"WorkflowInvoke": 1},
                "skill/compound-loop:reviewing": {"WorkflowInvoke": 1},
            },
        ),
    ],
)
def test_real_transcripts_of_claude_code(
    run: Process, workspace: Path, name: str, expected: dict[str, dict[str, int]]
) -> None:
    """Each gives the uses that were worked out by hand, and gives nothing more when it is imported again."""
    assert run("import", "claude-code", str(TRANSCRIPTS / name)).returncode == 0
    assert uses(workspace) == expected
    before = figures(workspace)
    again = run("import", "claude-code", str(TRANSCRIPTS / name)).stderr
    assert again.startswith("imported 0 uses and 0 exposures")
    assert figures(workspace) == before
    assert build_report(workspace=workspace).coverage.duplicate_events == 0


@real
def test_what_real_transcripts_show_to_be_resident(run: Process, workspace: Path) -> None:
    """Exposures are those that reached the model, with the sizes that the lines show."""
    run("import", "claude-code", str(TRANSCRIPTS / "cc-contextcost-demo"))
    assert resident(workspace) == {
        "instructions/CLAUDE.md": 2,
        "instructions/~/.claude/CLAUDE.md": 2,
        "memory/MEMORY": 2,
        "rule/python": 2,
        "rule/style": 2,
    }  # web.md has no "rendered"
    lines = imported(workspace)
    sizes = {r["slug"]: r.get("injected_bytes", r["file_bytes"]) for line in lines for r in line["records"]}
    assert sizes == {
        "CLAUDE.md": 2000,
        "~/.claude/CLAUDE.md": 1000,
        "MEMORY": 500,
        "python": 1000,
        "style": 500,
    }


@real
def test_parts_and_wholes_of_a_real_session(run: Process, tmp_path: Path) -> None:
    """A session that goes on in a second file counts alike in either order, and as the union."""
    first, second = (TRANSCRIPTS / "cc-te-reviewing" / f"f70db4c5-checkpoint{n}.jsonl" for n in (1, 2))
    found = []
    for number, files in enumerate([[first, second], [second, first], [second]]):
        folder = tmp_path / f"w{number}"
        folder.mkdir()
        for file in files:
            run("import", "claude-code", str(file), "--workspace", str(folder))
        found.append((uses(folder), resident(folder)))
    assert found[0] == found[1] == found[2]
    listed = {name: number for name, number in found[0][1].items() if name.startswith("skill/")}
    assert len(listed) == 145
    assert listed["skill/grilling"] == 1
    assert {name: n for name, n in found[0][1].items() if not name.startswith("skill/")} == {
        "rule/~/code-and-testing": 1
    }


@real
def test_a_real_rollout_of_codex(run: Process, workspace: Path) -> None:
    """The rollout gives its two shell reads, and what was placed at its start."""
    folder = str(TRANSCRIPTS / "cx-te-findbugs")
    assert run("import", "codex", folder).stderr.startswith(
        "imported 2 uses and 3 exposures from 1 file (119 lines)"
    )
    assert uses(workspace) == {
        "instructions/AGENTS.md": {"ShellRead": 1},
        "skill/find-bugs": {"ShellRead": 1},
    }
    placed = resident(workspace)
    assert {name: n for name, n in placed.items() if not name.startswith("skill/")} == {
        "instructions/AGENTS.md": 1,
        "memory/memory_summary": 1,
    }
    # 286 lines of skills, 19 of them under a name that another has too
    assert len([name for name in placed if name.startswith("skill/")]) == 267
    lines = imported(workspace, "codex")
    assert {line["session_id"] for line in lines} == {"01a01086-1721-79d1-aa3c-14a669a6db52"}
    assert {line.get("actor") for line in lines} == {"subagent"}
    partial = {
        r["slug"]: r.get("partial", False)
        for line in lines
        if line["event"] == "use"
        for r in line["records"]
    }
    assert partial == {"find-bugs": False, "AGENTS.md": True}
    assert run("import", "codex", folder).stderr.startswith("imported 0 uses and 0 exposures")


@pytest.mark.skipif(not (SHARED / "yoi").exists(), reason="the real log is not here")
def test_the_real_log_of_yoi(run: Process, tmp_path: Path) -> None:
    """Its own log gives its six uses, however often it is imported, and its inventory."""
    from conftest import copied_tree

    folder = tmp_path / "yoi"
    copied_tree(SHARED / "yoi" / "workspace", folder)
    assert run("import", "yoi", "--workspace", str(folder)).stderr.startswith("imported 6 uses")
    assert run("import", "yoi", "--workspace", str(folder)).stderr.startswith("imported 0 uses")
    assert uses(folder) == {
        "workflow/auto-maintain": {"WorkflowInvoke": 3},
        "workflow/worktree-workflow": {"WorkflowInvoke": 3},
    }
    assert figures(folder)["workflow/multi-agent-workflow"].status == "present"


# -- rules, by made transcripts -----------------------------------------------------------------------


def test_uses_of_every_kind(run: Process, workspace: Path, history: Path) -> None:
    """Reads, skills, commands and mentions count; failures, stubs, searches, bodies and built-ins do not."""
    made = Transcript(str(workspace))
    read = {"file_path": str(workspace / "CLAUDE.md")}
    whole = {"type": "text", "file": {"content": "abc\n", "numLines": 2, "startLine": 1, "totalLines": 2}}
    part = {"type": "text", "file": {"content": "abc", "numLines": 1, "startLine": 1, "totalLines": 2}}
    made.call("Read", read, toolu(1), toolUseResult=whole)
    made.call("Read", {**read, "limit": 1}, toolu(2), toolUseResult=part)
    made.call("Read", read, toolu(3), "File does not exist", result_fields={"is_error": True})
    made.call("Read", read, toolu(4), "File unchanged since last read. Look above.")
    made.call("Read", read, toolu(10), [{"type": "text", "text": "File unchanged since last read."}])
    made.call("Read", read, toolu(5), "<system>x", toolUseResult={"type": "file_unchanged"})
    made.call("Grep", {"pattern": "x", "path": str(workspace / "CLAUDE.md")}, toolu(6))
    made.call("Skill", {"skill": "pdf"}, toolu(7), toolUseResult={"success": True, "commandName": "pdf"})
    made.add(
        "user",
        isMeta=True,
        message={"content": [{"type": "text", "text": "Base directory for this skill: x"}]},
    )
    made.call("Skill", {"skill": "nope"}, toolu(8), "Unknown skill", result_fields={"is_error": True})
    made.typed("deploy", promptId="33333333-3333-4333-8333-333333333333")
    made.typed("clear")
    made.add(
        "user",
        message={"content": "<command-name>/model</command-name>\n<command-message>model</command-message>"},
    )
    made.add(
        "user",
        isMeta=True,
        message={"content": "<command-message>x</command-message><command-name>x</command-name>"},
    )
    made.add(
        "user",
        message={"content": "he wrote <command-message>x</command-message><command-name>/x</command-name>"},
    )
    made.placed(
        type="file",
        filename=str(workspace / "AGENTS.md"),
        content={"type": "text", "file": {"content": "ab", "numLines": 1, "totalLines": 1}},
    )
    made.placed(type="file", filename=str(workspace / "src/a.py"), content={})
    made.add(
        "assistant",
        message={"content": [{"type": "tool_use", "id": toolu(9), "name": "Read", "input": read}]},
    )
    made.write(history / "-ws" / "s.jsonl")
    assert run("import", "claude-code").stderr.startswith("imported 5 uses and 0 exposures from 1 file")
    assert uses(workspace) == {
        "instructions/AGENTS.md": {"FileMention": 1},
        "instructions/CLAUDE.md": {"MemoryRead": 2},
        "skill/deploy": {"WorkflowInvoke": 1},
        "skill/pdf": {"SkillInvoke": 1},
    }
    lines = imported(workspace)
    [first, second] = [line["records"][0] for line in lines if line["source"] == "MemoryRead"]
    assert (first["file_bytes"], first.get("partial")) == (4, None)
    assert (second["file_bytes"], second.get("partial")) == (None, True)  # today's file never stands in
    assert {line["source"]: line.get("actor", "agent") for line in lines} == {
        "MemoryRead": "agent",
        "SkillInvoke": "agent",
        "WorkflowInvoke": "user",
        "FileMention": "user",
    }


def test_what_was_placed(run: Process, workspace: Path, history: Path) -> None:
    """Each attachment is one placing of its records, with what it shows of them; recall is one of its own."""
    made = Transcript(str(workspace))
    memory = str(history / "-x/memory/topic-a.md")
    raw = {"content": "body\n", "rawContent": "---\nx\n---\nbody\n", "contentDiffersFromDisk": True}
    made.placed(type="nested_memory", path=str(workspace / ".claude/rules/a.md"), content=raw)
    made.placed(
        type="skill_listing",
        names=["pdf", "p:doc"],
        content="- pdf: Work\n  with PDFs\n- p:doc: Write: well\n",
    )
    made.placed(type="skill_listing", content="- old: form\n- two words: no name\n")
    made.placed(type="skill_listing", names=[], content="", skillCount=0)
    made.placed(
        type="invoked_skills",
        skills=[{"name": "pdf", "content": "0123456789"}, {"name": "[trimmed]", "content": ""}],
    )
    made.placed(type="relevant_memories", memories=[{"path": memory, "content": "abc"}])
    made.placed(type="todo", content="x")
    made.write(history / "-ws" / "s.jsonl")
    assert run("import", "claude-code").stderr.startswith("imported 0 uses and 5 exposures")
    lines = imported(workspace)
    found = [
        (line["source"], r["slug"], r["file_bytes"], r.get("injected_bytes"))
        for line in lines
        for r in line["records"]
    ]
    assert found == [
        ("ResidentInjection", "a", 15, 5),
        ("ResidentInjection", "pdf", None, len("- pdf: Work\n  with PDFs")),
        ("ResidentInjection", "p:doc", None, len("- p:doc: Write: well")),
        ("ResidentInjection", "old", None, len("- old: form\n- two words: no name")),
        ("ResidentInjection", "pdf", None, 10),
        ("AutoRecall", "topic-a", None, 3),
    ]


@pytest.mark.parametrize(
    ("version", "rendered", "counts"),
    [
        ("2.1.232", None, True),  # these versions never write it
        ("2.1.269", None, True),
        ("2.1.270", None, False),
        ("2.1.332", None, False),
        ("3.0.0", None, False),
        ("2.1.332", [{"content": "x"}], True),
        ("2.1.332", [], False),
        ("", None, True),
        ("dev", None, True),
        ("2.1.332-beta.1", None, False),
    ],
)
def test_what_was_not_rendered_did_not_reach_the_model(
    run: Process, workspace: Path, history: Path, version: str, rendered: Any, counts: bool
) -> None:
    """The absence of rendered says something only in versions that write it."""
    made = Transcript(str(workspace), version=version)
    more = {} if rendered is None else {"rendered": rendered}
    made.add("attachment", attachment={"type": "skill_listing", "content": "- a: b"}, **more)
    made.write(history / "-ws" / "s.jsonl")
    run("import", "claude-code")
    assert resident(workspace) == ({"skill/a": 1} if counts else {})


def test_copies_of_a_session_count_once(run: Process, workspace: Path, history: Path) -> None:
    """A resumed session repeats lines under a new session and time: the earlier one counts, in any order of files."""
    made = Transcript(str(workspace))
    made.call("Read", {"file_path": str(workspace / "CLAUDE.md")}, toolu(1))
    made.placed(type="skill_listing", content="- a: b")
    made.typed("deploy")
    original = made.write(history / "-ws" / "a.jsonl")
    copy = Transcript(str(workspace))
    copy.lines = [
        line.replace(SESSION, SESSION.replace("1", "2")).replace("T02:", "T05:") for line in made.lines
    ]
    copy.call("Read", {"file_path": str(workspace / "CLAUDE.md")}, toolu(2))
    copied = copy.write(history / "-ws" / "b.jsonl")
    os.utime(copied, (1, 1))
    os.utime(original, (2, 2))  # the copy is read first
    run("import", "claude-code")
    assert uses(workspace) == {
        "instructions/CLAUDE.md": {"MemoryRead": 2},
        "skill/deploy": {"WorkflowInvoke": 1},
    }
    assert resident(workspace) == {"skill/a": 1}
    coverage = build_report(workspace=workspace).coverage
    assert (coverage.duplicate_events, coverage.conflicting_events) == (0, 0)
    lines = imported(workspace)
    assert sorted(line["occurred_at"][11:13] for line in lines) == ["02", "02", "02", "02"]


def test_placeholders_are_no_identity(run: Process, workspace: Path, history: Path) -> None:
    """Lines whose ids were edited away are told apart by what they say, and short ids by their lines."""
    made = Transcript(str(workspace))
    for number in range(2):
        made.call(
            "Read",
            {"file_path": str(workspace / f"p{number}/CLAUDE.md")},
            "[trimmed for fixture]",
            uuid="[trimmed for fixture]",
            timestamp="[trimmed]",
        )
    made.call("Read", {"file_path": str(workspace / "CLAUDE.md")}, "call_1")
    made.call("Read", {"file_path": str(workspace / "CLAUDE.md")}, "call_1")
    made.write(history / "-ws" / "s.jsonl")
    run("import", "claude-code")
    assert sum(sum(sources.values()) for sources in uses(workspace).values()) == 4
    assert run("import", "claude-code").stderr.startswith("imported 0 uses")


def test_a_live_hook_goes_before_an_import(run: Process, workspace: Path, history: Path) -> None:
    """What a hook recorded is found again by its id; what has no common id is left to the hook's sessions."""
    read = {"file_path": str(workspace / "CLAUDE.md")}
    prompt = "33333333-3333-4333-8333-333333333333"
    (workspace / "CLAUDE.md").write_text("x")
    common = {"session_id": SESSION, "cwd": str(workspace)}
    for payload in (
        {
            "hook_event_name": "PostToolUse",
            "tool_name": "Read",
            "tool_input": read,
            "tool_response": {"type": "text"},
            "tool_use_id": toolu(1),
        },
        {
            "hook_event_name": "UserPromptExpansion",
            "expansion_type": "slash_command",
            "command_name": "deploy",
            "prompt_id": prompt,
        },
        {"hook_event_name": "InstructionsLoaded", "file_path": str(workspace / "CLAUDE.md")},
    ):
        assert hooking.record_payload("claude-code", json.dumps({**common, **payload}).encode()) is None
    live = (workspace / ".memtally/usage.jsonl").read_bytes()
    made = Transcript(str(workspace))
    made.placed(type="instructions", files=[{"path": str(workspace / "CLAUDE.md"), "content": "x"}])
    made.call("Read", read, toolu(1))
    made.call("Read", read, toolu(2))  # the hook had not been running yet
    made.call("Read", read, "call_1")  # no common id
    made.typed("deploy", promptId=prompt)
    made.typed("other")  # no common id
    made.write(history / "-ws" / "s.jsonl")
    other = Transcript(str(workspace), SESSION.replace("1", "2"))
    other.placed(type="instructions", files=[{"path": str(workspace / "CLAUDE.md"), "content": "x"}])
    other.lines = [line.replace("44444444", "55555555") for line in other.lines]
    other.write(history / "-ws" / "t.jsonl")
    said = run("import", "claude-code").stderr
    assert said.startswith("imported 1 use and 1 exposure from 2 files")
    assert "2 events in the log already" in said
    assert "3 events left out: a live hook has recorded these sessions" in said
    assert uses(workspace) == {
        "instructions/CLAUDE.md": {"MemoryRead": 2},
        "skill/deploy": {"WorkflowInvoke": 1},
    }
    assert resident(workspace) == {"instructions/CLAUDE.md": 2}
    assert (workspace / ".memtally/usage.jsonl").read_bytes() == live
    (workspace / ".memtally/usage-import-claude-code.jsonl").unlink()  # and is undone by that
    assert resident(workspace) == {"instructions/CLAUDE.md": 1}


def test_a_mention_that_shows_a_part(run: Process, workspace: Path, history: Path) -> None:
    """Of a mentioned file that is shown in part the size is unknown."""
    made = Transcript(str(workspace))
    shown = {"content": "ab", "numLines": 1, "startLine": 1, "totalLines": 9}
    made.placed(type="file", filename=str(workspace / "AGENTS.md"), content={"type": "text", "file": shown})
    made.write(history / "-ws" / "s.jsonl")
    run("import", "claude-code")
    [record] = imported(workspace)[0]["records"]
    assert (record["slug"], record["file_bytes"]) == ("AGENTS.md", None)


def test_a_session_that_goes_on(run: Process, workspace: Path, history: Path) -> None:
    """What a session adds after an import is found by the next, also what has no id in common with a hook."""
    made = Transcript(str(workspace))
    made.placed(type="skill_listing", content="- a: b")
    made.typed("deploy")
    made.write(history / "-ws" / "s.jsonl")
    run("import", "claude-code")
    made.placed(type="skill_listing", content="- a: b")
    made.typed("deploy")
    made.write(history / "-ws" / "s.jsonl")
    assert run("import", "claude-code").stderr.startswith("imported 1 use and 1 exposure")
    assert uses(workspace) == {"skill/deploy": {"WorkflowInvoke": 2}}
    assert resident(workspace) == {"skill/a": 2}


def test_only_sessions_of_this_workspace(
    run: Process, workspace: Path, history: Path, tmp_path: Path
) -> None:
    """Without paths other workspaces' sessions stay out; folders that are gone belong to what is above them."""
    other = tmp_path / "other"
    other.mkdir()
    (workspace / ".memtally").mkdir()
    for number, folder in enumerate([workspace, workspace / "gone/deep", other, Path("/nonexistent/x")]):
        made = Transcript(str(folder))
        made.call("Read", {"file_path": str(folder / "CLAUDE.md")}, toolu(number))
        made.write(history / f"-{number}" / "s.jsonl")
    said = run("import", "claude-code").stderr
    assert said.startswith("imported 2 uses and 0 exposures from 2 files")
    assert "2 files of other workspaces" in said
    assert set(uses(workspace)) == {"instructions/CLAUDE.md", "instructions/gone/deep/CLAUDE.md"}
    run("import", "claude-code", str(history))
    assert uses(workspace)["instructions/CLAUDE.md"] == {"MemoryRead": 3}  # each as its own folder calls it


def test_since_and_dry_run(run: Process, workspace: Path, history: Path) -> None:
    """--since leaves out what was before it, --dry-run writes nothing and says what would come."""
    made = Transcript(str(workspace))
    for number in range(90):
        made.call("Read", {"file_path": str(workspace / "CLAUDE.md")}, toolu(number))
    made.write(history / "-ws" / "s.jsonl")
    dry = run("import", "claude-code", "--dry-run", "--since", "2026-08-20T02:01:01Z")
    assert dry.stderr.startswith("would import 60 uses")
    assert "30 events before --since" in dry.stderr
    assert not (workspace / ".memtally").exists()
    run("import", "claude-code", "--since", "2026-08-20T02:02:00Z")
    assert uses(workspace) == {"instructions/CLAUDE.md": {"MemoryRead": 30}}
    assert run("import", "claude-code").stderr.startswith("imported 60 uses")
    old = history / "-ws" / "s.jsonl"
    os.utime(old, (1, 1))
    assert "from 0 files (0 lines)" in run("import", "claude-code", "--since", "7d").stderr


def test_subagents_and_odd_lines(run: Process, workspace: Path, history: Path) -> None:
    """A sidechain is a subagent's; what is no JSON or has another shape is counted and passed over."""
    made = Transcript(str(workspace))
    made.common["isSidechain"] = True
    made.call("Skill", {"skill": "pdf"}, toolu(1))
    made.lines += [
        "{not json",
        "[1, 2]",
        '"text"',
        "{}",
        "",
        "\x00\x00",
        '{"type": "user", "message": {"content": [7, null, {"type": []}]}}',
    ]
    made.lines.append('{"type": "attachment", "attachment": {"type": "instructions", "files": 7}}')
    made.lines.append(
        '{"type": "attachment", "attachment": {"type": "skill_listing", "names": {"a": 1}, "content": []}}'
    )
    made.lines.append("[" * 100_000 + '"tool_use"')
    made.call("Read", {"file_path": str(workspace / "CLAUDE.md\ud800")}, toolu(2))
    made.call("Skill", {"skill": "doc\ud800"}, toolu(3))
    made.write(history / "-ws" / "s" / "subagents" / "agent-a1.jsonl")
    done = run("import", "claude-code")
    assert done.returncode == 0
    assert "lines of an unknown form, passed over" in done.stderr
    lines = imported(workspace)
    assert [(line["records"][0]["slug"], line["actor"]) for line in lines] == [
        ("pdf", "subagent"),
        ("doc\\ud800", "subagent"),
    ]


def test_two_imports_at_once_and_one_that_was_cut(run: Process, workspace: Path, history: Path) -> None:
    """A second import beside one that goes on is refused; one that was cut off is completed by the next."""
    from memtally.hosts.importing import Backfill
    from memtally.workspace import find_workspace

    made = Transcript(str(workspace))
    for number in range(50):
        made.call("Read", {"file_path": str(workspace / "CLAUDE.md")}, toolu(number))
    made.write(history / "-ws" / "s.jsonl")
    with Backfill("claude-code", find_workspace(workspace))._alone():
        refused = run("import", "claude-code")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "another import" in refused.stderr
    run("import", "claude-code")
    segment = workspace / ".memtally/usage-import-claude-code.jsonl"
    segment.write_bytes(segment.read_bytes()[:2_990])  # in the middle of a line
    run("import", "claude-code")
    assert uses(workspace) == {"instructions/CLAUDE.md": {"MemoryRead": 50}}
    assert build_report(workspace=workspace).coverage.damaged_lines == 1


def test_memory_stays_small_on_a_large_history(workspace: Path, history: Path) -> None:
    """An import of 60 MB with some thousand uses needs little more memory than one of a few lines."""
    pytest.importorskip("resource")

    def peak(lines: int) -> int:
        made = Transcript(str(workspace))
        for number in range(20):
            made.call("Read", {"file_path": str(workspace / "CLAUDE.md")}, toolu(number), "x" * 3_000)
        folder = history / f"-{lines}"
        folder.mkdir(parents=True)
        with (folder / "s.jsonl").open("w") as stream:
            for number in range(lines):
                for line in made.lines:
                    stream.write(
                        line.replace("toolu_0000", f"toolu_{number:04d}").replace("44444444", f"{number:08d}")
                        + "\n"
                    )
        code = (
            "import resource, memtally.cli as c\n"
            "try:\n    c.main(['import', 'claude-code'])\nexcept SystemExit: pass\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        environment = {**os.environ, "MEMTALLY_TOKENIZER": "script-estimate"}
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=workspace,
            capture_output=True,
            text=True,
            env=environment,
            check=True,
            timeout=100,
        )
        return int(done.stdout)

    small = peak(1)
    assert peak(800) < small + 24_000  # kilobytes; the log has 16,000 events of some 250 bytes by then
    assert uses(workspace) == {"instructions/CLAUDE.md": {"MemoryRead": 20 * 800}}


# -- commands of Codex -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "commands"),
    [
        (
            {"type": "function_call", "name": "exec_command", "arguments": '{"cmd": "cat a"}'},
            [("cat a", "/w")],
        ),
        (
            {
                "type": "function_call",
                "name": "shell",
                "arguments": '{"command": ["bash", "-lc", "cat a b"], "workdir": "/x"}',
            },
            [("bash -lc 'cat a b'", "/x")],
        ),
        ({"type": "function_call", "name": "update_plan", "arguments": '{"cmd": "cat a"}'}, []),
        ({"type": "function_call", "name": "exec_command", "arguments": "{"}, []),
        (
            {"type": "local_shell_call", "action": {"command": ["cat", "a"], "working_directory": "/y"}},
            [("cat a", "/y")],
        ),
        ({"type": "custom_tool_call", "name": "apply_patch", "input": 'exec_command({cmd: "cat a"})'}, []),
        (
            {
                "type": "custom_tool_call",
                "name": "exec",
                "input": 'const r = await Promise.all([\n tools.exec_command({\n cmd: "cat \'a\' && echo \\"x\\"",\n workdir: "/x" }),\n'
                " tools.exec_command({ cmd: 'sed -n \"1p\" b', max: 1 }),\n tools.exec_command({ cmd: `cat c\nhead d` }),\n"
                ' tools.exec_command({ cmd: `cat ${name}` }),\n tools.write_stdin({ chars: "cat e" }) ]);',
            },
            [("cat 'a' && echo \"x\"", "/x"), ('sed -n "1p" b', "/w"), ("cat c\nhead d", "/w")],
        ),
    ],
)
def test_the_commands_of_a_call(call: dict[str, Any], commands: list[tuple[str, str]]) -> None:
    """A call's commands are found in each of the forms that Codex has had, and none that is put together later."""
    assert shell_commands(call, "/w") == commands


def rollout(
    workspace: Path, *items: dict[str, Any], session: str = "01a01086-1721-79d1-aa3c-14a669a6db52"
) -> str:
    """A rollout of these items."""
    meta = {"id": session, "session_id": session, "cwd": str(workspace)}
    lines = [
        {"type": "session_meta", "payload": meta},
        *({"type": "response_item", "payload": item} for item in items),
    ]
    return "".join(
        json.dumps({"timestamp": f"2026-08-17T16:20:{n:02d}.000Z", **line}) + "\n"
        for n, line in enumerate(lines)
    )


def shell(number: int, command: str, output: Any) -> list[dict[str, Any]]:
    """A shell call and its output."""
    own = f"call_{number:024d}"
    return [
        {
            "type": "function_call",
            "name": "exec_command",
            "call_id": own,
            "arguments": json.dumps({"cmd": command}),
        },
        {"type": "function_call_output", "call_id": own, "output": output},
    ]


def test_rollouts(run: Process, workspace: Path, tmp_path: Path) -> None:
    """Reads by commands that succeeded count once a call; failed, missing and searched ones do not."""
    path = tmp_path / "home/.codex/sessions/2026/08/17/rollout-1.jsonl"
    path.parent.mkdir(parents=True)
    items = [
        *shell(1, "cat AGENTS.md; head AGENTS.md", "Process exited with code 0\nOutput:\ntext"),
        *shell(2, "cat AGENTS.md", "Process exited with code 1\nOutput:\nno"),
        *shell(3, "cat AGENTS.md", "cat: AGENTS.md: No such file or directory"),
        *shell(4, "grep x AGENTS.md", "x"),
        *shell(5, "cat AGENTS.md", ""),
        *shell(6, "cat ~/.agents/skills/pdf/SKILL.md", '{"output":"text","metadata":{"exit_code":0}}'),
        {
            "type": "message",
            "role": "user",
            "content": [
                {
                    "type": "input_text",
                    "text": f"# AGENTS.md instructions for {workspace}\n\n<INSTRUCTIONS>\nabc\n</INSTRUCTIONS>",
                }
            ],
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "# AGENTS.md instructions for /x\n"}],
        },
    ]
    path.write_text(rollout(workspace, *items))
    assert run("import", "codex").stderr.startswith("imported 2 uses and 1 exposure")
    assert uses(workspace) == {"instructions/AGENTS.md": {"ShellRead": 1}, "skill/pdf": {"ShellRead": 1}}
    assert resident(workspace) == {"instructions/AGENTS.md": 1}
    payload = {
        "hook_event_name": "PostToolUse",
        "session_id": "s2",
        "cwd": str(workspace),
        "tool_name": "Bash",
        "tool_use_id": "x" * 20,
    }
    data = {**payload, "tool_input": {"command": "cat AGENTS.md"}, "tool_response": "x"}
    assert hooking.record_payload("codex", json.dumps(data).encode()) is None
    path.write_text(rollout(workspace, *shell(7, "cat AGENTS.md", "x"), session="s2"))
    assert "1 event left out: a live hook" in run("import", "codex").stderr
    assert uses(workspace)["instructions/AGENTS.md"] == {"ShellRead": 2}


def test_one_call_reads_a_record_once(run: Process, workspace: Path, tmp_path: Path) -> None:
    """A script that shows a file whole and in part has read it once, and whole, in either order."""
    path = tmp_path / "home/.codex/sessions/rollout-2.jsonl"
    path.parent.mkdir(parents=True)
    items: list[dict[str, Any]] = []
    for number, commands in enumerate(
        [("cat a/AGENTS.md", "head a/AGENTS.md"), ("head b/AGENTS.md", "cat b/AGENTS.md")]
    ):
        own = f"call_{number:024d}"
        script = "".join(f'tools.exec_command({{cmd: "{command}"}});' for command in commands)
        items += [
            {"type": "custom_tool_call", "name": "exec", "call_id": own, "input": script},
            {
                "type": "custom_tool_call_output",
                "call_id": own,
                "output": [{"type": "input_text", "text": "text"}],
            },
        ]
    path.write_text(rollout(workspace, *items))
    run("import", "codex")
    found = {
        r["slug"]: r.get("partial", False) for line in imported(workspace, "codex") for r in line["records"]
    }
    assert found == {"a/AGENTS.md": False, "b/AGENTS.md": False}
    assert len(imported(workspace, "codex")) == 2


def test_wrong_use_is_one_line(run: Process, workspace: Path, tmp_path: Path) -> None:
    """Unknown hosts, missing paths and wrong times are one line and exit 2; no history is none."""
    for arguments, part in (
        (("nonesuch",), "nonesuch"),
        (("claude-code", str(tmp_path / "gone")), "no such file"),
        (("claude-code", "--since", "yesterday"), "--since"),
        (("yoi", str(tmp_path / "gone")), "no such file"),
    ):
        done = run("import", *arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert part in done.stderr
    for host in ("claude-code", "codex", "yoi"):
        assert run("import", host).stderr.startswith("imported 0 uses and 0 exposures from 0 files")


def test_what_the_import_says_can_be_read_back(
    run: Process, workspace: Path, history: Path, lines: Callable[[], Any]
) -> None:
    """The live log is untouched by an import, and log verify finds nothing wrong with its segment."""
    made = Transcript(str(workspace))
    made.call("Read", {"file_path": str(workspace / "CLAUDE.md")}, toolu(1))
    made.write(history / "-ws" / "s.jsonl")
    run("import", "claude-code")
    assert lines() == []
    verified = run("log", "verify")
    assert verified.returncode == 0, verified.stdout
