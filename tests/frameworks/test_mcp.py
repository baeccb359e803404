"""``memtally mcp`` as a real process on stdio, asked by the official client."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from memtally import find_references, parse_invocation

MEMTALLY = Path(sys.executable).with_name("memtally")
LINES = [
    ("2026-05-01", "use", "MemoryRead", "decision", "adopt-otlp"),
    ("2026-05-02", "use", "MemoryRead", "decision", "adopt-otlp"),
    ("2026-05-02", "use", "KnowledgeRef", "knowledge", "policy"),
    ("2026-05-03", "resident_exposure", "ResidentInjection", "knowledge", "policy"),
    ("2026-05-04", "use", "WorkflowInvoke", "workflow", "#policy"),
    ("2026-05-04", "use", "WorkflowInvoke", "workflow", "/deploy now"),
    ("2026-05-05", "use", "SkillInvoke", "skill", "<command-name>/deploy</command-name>"),
]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with a log, one line of it damaged."""
    folder = tmp_path / ".memtally"
    folder.mkdir()
    made = [
        json.dumps(
            {
                "id": f"019e1729-5daf-7580-b765-{number:012d}",
                "occurred_at": f"{day}T10:00:00Z",
                "session_id": "s1",
                "event": event,
                "source": source,
                "records": [{"kind": kind, "slug": slug, "file_bytes": 40, "file_tokens_estimate": 10}],
            }
        )
        for number, (day, event, source, kind, slug) in enumerate(LINES)
    ]
    (folder / "usage.jsonl").write_text("\n".join([*made, '{"id":"torn']) + "\n")
    return tmp_path


async def asked(workspace: Path, *calls: tuple[str, dict[str, Any]]) -> list[tuple[bool, str]]:
    """Whether each call was an error, and its text, by one server of its own."""
    server = StdioServerParameters(command=str(MEMTALLY), args=["mcp", "--workspace", str(workspace)])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        made = []
        for name, arguments in calls:
            result = await session.call_tool(name, arguments)
            made.append((bool(result.is_error), "".join(block.text for block in result.content)))
        return made


def told(workspace: Path, *arguments: str) -> str:
    """What the command line says."""
    done = subprocess.run(
        [str(MEMTALLY), *arguments, "--workspace", str(workspace)], capture_output=True, text=True, check=True
    )
    return done.stdout


def plain(text: str) -> dict[str, Any]:
    """JSON without the moment it was made at."""
    value = json.loads(text)
    value.pop("generated_at")
    return value  # type: ignore[no-any-return]


async def test_the_figures_are_those_of_the_command_line(workspace: Path) -> None:
    """Report, review and history are the same as the commands', record for record."""
    log = (workspace / ".memtally" / "usage.jsonl").read_bytes()
    [report, review, show] = await asked(
        workspace,
        ("report", {"format": "json"}),
        ("review", {"format": "json"}),
        ("show", {"record": "decision/adopt-otlp", "format": "json"}),
    )
    assert not any(error for error, _ in (report, review, show))
    assert plain(report[1]) == plain(told(workspace, "report", "--json"))
    assert plain(review[1]) == plain(told(workspace, "review", "--json"))
    assert plain(show[1]) == plain(told(workspace, "show", "decision/adopt-otlp", "--json"))
    uses = {f"{r['kind']}/{r['slug']}": r["use_count"] for r in plain(report[1])["records"]}
    assert (uses["decision/adopt-otlp"], uses["knowledge/policy"]) == (2, 1)
    assert plain(report[1])["coverage"]["damaged_lines"] == 1
    assert (workspace / ".memtally" / "usage.jsonl").read_bytes() == log  # asking is no reading


async def test_filters_limit_what_is_told(workspace: Path) -> None:
    """Kinds, sources, period and limit do what they do on the command line."""
    [by_kind, by_source, by_time, by_limit] = await asked(
        workspace,
        ("report", {"kinds": ["decision"], "format": "json"}),
        ("report", {"sources": ["KnowledgeRef"], "format": "json"}),
        ("report", {"since": "2026-05-02", "until": "2026-05-03", "format": "json"}),
        ("report", {"limit": 1, "sort": "uses", "format": "json"}),
    )
    assert [r["slug"] for r in plain(by_kind[1])["records"]] == ["adopt-otlp"]
    assert [r["slug"] for r in plain(by_source[1])["records"] if r["use_count"]] == ["policy"]
    assert sum(r["use_count"] for r in plain(by_time[1])["records"]) == 2
    assert [r["slug"] for r in plain(by_limit[1])["records"]] == ["adopt-otlp"]


async def test_what_is_wrong_is_an_error_in_one_line(workspace: Path) -> None:
    """A wrong time, record, order or argument is told by the tool, and the server goes on."""
    answers = await asked(
        workspace,
        ("report", {"since": "yesterday"}),
        ("report", {"sort": "best"}),
        ("show", {"record": "nonesuch"}),
        ("show", {"record": "decision/nonesuch"}),
        ("report", {"format": "html"}),
        ("report", {}),
    )
    assert [error for error, _ in answers] == [True, True, True, True, True, False]
    for text, part in zip(
        [text for _, text in answers[:4]], ["--since", "no such order", "KIND/SLUG", "neither"], strict=True
    ):
        assert part in text
        assert "Traceback" not in text
        assert "\n" not in text


async def test_its_output_is_no_reference_and_no_command(workspace: Path) -> None:
    """What it says, met again in a prompt, names no record as #slug or /command does."""
    calls: list[tuple[str, dict[str, Any]]] = [
        (name, {**arguments, "format": form})
        for form in ("markdown", "json")
        for name, arguments in (
            ("report", {"all": True}),
            ("review", {}),
            ("show", {"record": "workflow/#policy"}),
            ("show", {"record": "workflow//deploy now"}),
        )
    ]
    known = ["policy", "adopt-otlp", "deploy", "deploy now", "#policy"]
    for error, text in await asked(workspace, *calls):
        assert not error, text
        assert find_references(text, known) == ()
        assert parse_invocation(text, known) is None


async def test_the_tools_say_that_they_only_read(workspace: Path) -> None:
    """Each tool is marked read-only, and the server says how its figures are to be read."""
    server = StdioServerParameters(command=str(MEMTALLY), args=["mcp", "--workspace", str(workspace)])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        begun = await session.initialize()
        assert begun.server_info.name == "memtally"
        assert "evidence, not judgment" in (begun.instructions or "")
        tools = (await session.list_tools()).tools
        assert [tool.name for tool in tools] == ["report", "review", "show"]
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        assert all(tool.description for tool in tools)


async def test_two_clients_and_many_questions(workspace: Path) -> None:
    """Two servers on one workspace answer fifty questions each alike."""
    question = ("report", {"format": "json", "kinds": ["decision"]})
    both = await asyncio.gather(*[asked(workspace, *[question] * 50) for _ in range(2)])
    assert {json.dumps(plain(text)) for answers in both for _, text in answers} == {
        json.dumps(plain(both[0][0][1]))
    }


def test_it_ends_with_its_input(workspace: Path) -> None:
    """The server ends when its client is gone, and says nothing that is not protocol."""
    done = subprocess.run(
        [str(MEMTALLY), "mcp", "--workspace", str(workspace)], input=b"", capture_output=True, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_wrong_workspace_is_told_at_once(tmp_path: Path) -> None:
    """A workspace that is not there is one line and exit 2, before any protocol."""
    done = subprocess.run(
        [str(MEMTALLY), "mcp", "--workspace", str(tmp_path / "gone")],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 2
    assert "no such folder" in done.stderr
    assert done.stdout == ""


async def test_an_empty_workspace_says_so(tmp_path: Path) -> None:
    """A workspace without a log answers that there is none yet."""
    [(error, text)] = await asked(tmp_path, ("report", {"format": "json"}))
    assert not error
    assert plain(text)["coverage"]["log_state"] == "no_log"
