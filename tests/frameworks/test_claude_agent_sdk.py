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


def ask(box: Box, prompt: str, *turns: Turn) -> None:
    """One query with memtally's hooks, and an MCP server in this process."""

    async def go() -> None:
        with scripted(*turns) as api:
            options = ClaudeAgentOptions(
                cwd=box.workspace,
                env={**api, "HOME": str(box.home)},
                permission_mode="bypassPermissions",
                hooks=claude_agent_sdk.hooks(box.workspace),  # type: ignore[arg-type]
                setting_sources=["user", "project"],
                mcp_servers={"notes": create_sdk_mcp_server("notes", tools=[read_note])},
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
