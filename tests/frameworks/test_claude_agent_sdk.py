"""The Claude Agent SDK: its real client, and the real Claude Code that it runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, query
from claude_agent_sdk import tool as sdk_tool
from scripted_claude import Turn, call, scripted, text
from test_claude_code import Box

import memtally
from memtally import build_report
from memtally.hosts import claude_agent_sdk
from memtally.testing import Captured


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Box:
    """A box of one's own, as this process's home."""
    made = Box(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    for name in ("CLAUDE_CONFIG_DIR", "CLAUDE_PROJECT_DIR", "MEMTALLY_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(made.workspace)
    return made


@sdk_tool("read_note", "Read a note", {"name": str})
async def read_note(arguments: dict[str, str]) -> dict[str, object]:
    """A tool of the application's own."""
    return {"content": [{"type": "text", "text": "a note"}]}


@sdk_tool("lost_note", "Read a note", {"name": str})
async def lost_note(arguments: dict[str, str]) -> dict[str, object]:
    """A tool that answers with an error."""
    return {"content": [{"type": "text", "text": "no such note"}], "is_error": True}


_BOX = object()


def ask(box: Box, prompt: str, *turns: Turn, workspace: object = _BOX) -> None:
    """One query with memtally's hooks for a workspace (that of the box), and an MCP server in this process."""

    async def go() -> None:
        with scripted(*turns) as api:
            options = ClaudeAgentOptions(
                cwd=box.workspace,
                env={**api, "HOME": str(box.home)},
                permission_mode="bypassPermissions",
                hooks=claude_agent_sdk.hooks(box.workspace if workspace is _BOX else workspace),  # type: ignore[arg-type]
                setting_sources=["user", "project"],
                mcp_servers={"notes": create_sdk_mcp_server("notes", tools=[read_note, lost_note])},
            )
            async for _ in query(prompt=prompt, options=options):
                pass

    asyncio.run(asyncio.wait_for(go(), 100))


def test_reads_skills_and_mapped_tools_are_uses(box: Box, captured: Captured) -> None:
    """What Claude reads in a query counts once, with the host's session; what is no record does not."""
    (box.workspace / ".memtally").mkdir()
    (box.workspace / ".memtally" / "config.toml").write_text(
        'preset = "claude-code"\n[tools]\n"mcp__notes__read_note" = { kind = "memory", argument = "name" }\n'
    )
    ask(
        box,
        "read",
        [call("Read", file_path=str(box.memory / "topic-a.md"))],
        [call("Skill", skill="pdf")],
        [call("mcp__notes__read_note", name="topic-b")],
        [call("Read", file_path=str(box.workspace / "src/a.py"))],
        text("done"),
    )
    found = [(event.source, event.records[0].key, event.records[0].file_bytes) for event in captured.uses]
    assert found == [
        ("MemoryRead", ("memory", "topic-a"), 8),
        ("SkillInvoke", ("skill", "pdf"), 51),
        ("MemoryRead", ("memory", "topic-b"), 6),
    ]
    assert len({event.session_id for event in captured.uses}) == 1
    assert {event.host for event in captured.uses} == {"claude-code"}


def test_hooks_of_the_sdk_and_of_the_settings_count_once(box: Box) -> None:
    """A read that both report has one id, and so counts once."""
    box.memtally("install", "claude-code", "--project")
    memtally.configure(workspace=box.workspace, tokenizer="script-estimate")
    try:
        ask(box, "read", [call("Read", file_path=str(box.memory / "topic-a.md"))], text("done"))
        box.events(8)
    finally:
        memtally.shutdown()
    report = build_report(workspace=box.workspace)
    assert report["memory", "topic-a"].use_count == 1


def test_a_wrong_workspace_is_refused(tmp_path: Path) -> None:
    """A workspace that is not there is an error at once."""
    with pytest.raises(memtally.WorkspaceError, match="no such folder"):
        claude_agent_sdk.hooks(tmp_path / "gone")


@pytest.mark.parametrize("named", [True, False])
def test_every_tool_that_the_workspace_maps_is_heard(
    box: Box, captured: Captured, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """Shell reads and mapped tools count where the workspace wants them, also one that only Claude's folder names."""
    (box.workspace / ".memtally").mkdir()
    (box.workspace / ".memtally" / "config.toml").write_text(
        'preset = "claude-code"\nshell_reads = true\n'
        '[tools]\n"mcp__notes__read_note" = { kind = "memory", argument = "name" }\n'
    )
    monkeypatch.chdir(box.home)
    ask(
        box,
        "read",
        [call("Bash", command="cat CLAUDE.md", description="show")],
        [call("mcp__notes__read_note", name="topic-b")],
        text("done"),
        workspace=box.workspace if named else None,
    )
    found = [(event.source, event.records[0].key) for event in captured.uses]
    assert found == [("ShellRead", ("instructions", "CLAUDE.md")), ("MemoryRead", ("memory", "topic-b"))]


def test_what_fails_is_no_use(box: Box, captured: Captured) -> None:
    """A file that is not there, a skill that is not, and a mapped tool that answers with an error count for nothing."""
    (box.workspace / ".memtally").mkdir()
    (box.workspace / ".memtally" / "config.toml").write_text(
        'preset = "claude-code"\n[tools]\n"mcp__notes__lost_note" = { kind = "memory", argument = "name" }\n'
    )
    ask(
        box,
        "read",
        [call("Read", file_path=str(box.memory / "gone.md"))],
        [call("Skill", skill="nope")],
        [call("mcp__notes__lost_note", name="topic-b")],
        text("done"),
    )
    assert captured.uses == []


def test_a_typed_command_counts_once(box: Box, captured: Captured) -> None:
    """A command that the application sends is one use, by a user; one of the host's own is none."""
    ask(box, "/deploy staging", text("deployed"))
    ask(box, "/compact", text("nothing to do"))
    found = [(event.source, event.records[0].key, event.actor) for event in captured.uses]
    assert found == [("WorkflowInvoke", ("skill", "deploy"), "user")]


def test_a_subagent_reads_as_one(box: Box, captured: Captured) -> None:
    """What a subagent reads has the session of its parent, and itself as the actor."""
    topic = str(box.memory / "topic-a.md")
    ask(
        box,
        "agent",
        [
            call(
                "Agent", description="d", prompt="p", subagent_type="general-purpose", run_in_background=False
            )
        ],
        [call("Read", file_path=topic)],
        text("sub done"),
        [call("Read", file_path=topic)],
        text("done"),
    )
    found = [(event.records[0].key, event.actor) for event in captured.uses]
    assert found == [(("memory", "topic-a"), "subagent"), (("memory", "topic-a"), "agent")]
    assert len({event.session_id for event in captured.uses}) == 1
