"""Anthropic's memory tools, by their own dispatcher."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from anthropic.tools import BetaAsyncLocalFilesystemMemoryTool, BetaLocalFilesystemMemoryTool, ToolError

import memtally
from memtally import RecordUsage
from memtally.hosts.anthropic import instrument
from memtally.testing import Captured


@pytest.fixture
def tool(tmp_path: Path) -> BetaLocalFilesystemMemoryTool:
    """A memory tool with two notes."""
    made = instrument(BetaLocalFilesystemMemoryTool(base_path=str(tmp_path / "store")))
    made.call(
        {"command": "create", "path": "/memories/notes/adopt-otlp.md", "file_text": "four\nline\nnote\n"}
    )
    made.call({"command": "create", "path": "/memories/plain.txt", "file_text": "x"})
    return made


def test_the_view_of_a_file_is_a_use(tool: BetaLocalFilesystemMemoryTool, captured: Captured) -> None:
    """A file that is viewed counts once, by its path without .md, measured without the lines' numbers."""
    shown = tool.call({"command": "view", "path": "/memories/notes/adopt-otlp.md"})
    assert "four" in str(shown)
    [event] = captured.events
    assert (event.event, event.source) == ("use", "MemoryRead")
    [record] = event.records
    assert record.key == ("memory", "notes/adopt-otlp")
    assert record.file_bytes == 15  # "four\nline\nnote\n"
    assert not record.partial


def test_the_view_of_some_lines_is_one_partial_use(
    tool: BetaLocalFilesystemMemoryTool, captured: Captured
) -> None:
    """A view with a range is partial, and describes the whole file all the same."""
    tool.call({"command": "view", "path": "/memories/notes/adopt-otlp.md", "view_range": [1, 2]})
    [record] = captured.events[0].records
    assert (record.partial, record.file_bytes) == (True, 15)


@pytest.mark.parametrize("path", ["/memories", "/memories/", "/memories/notes"])
def test_the_view_of_a_folder_is_a_listing(
    tool: BetaLocalFilesystemMemoryTool, captured: Captured, path: str
) -> None:
    """Folders are no records, with and without a slash."""
    tool.call({"command": "view", "path": path})
    assert captured.events == []


def test_what_writes_or_fails_is_no_use(tool: BetaLocalFilesystemMemoryTool, captured: Captured) -> None:
    """Writing, moving and removing read nothing, nor does a view of what is not there."""
    tool.call({"command": "str_replace", "path": "/memories/plain.txt", "old_str": "x", "new_str": "y"})
    tool.call({"command": "insert", "path": "/memories/plain.txt", "insert_line": 0, "insert_text": "z\n"})
    tool.call({"command": "rename", "old_path": "/memories/plain.txt", "new_path": "/memories/p.txt"})
    tool.call({"command": "delete", "path": "/memories/p.txt"})
    with pytest.raises(ToolError):
        tool.call({"command": "view", "path": "/memories/gone.md"})
    assert captured.events == []


def test_twice_instrumented_counts_once(tool: BetaLocalFilesystemMemoryTool, captured: Captured) -> None:
    """Instrumenting an instance again changes nothing."""
    assert instrument(tool) is tool
    tool.call({"command": "view", "path": "/memories/plain.txt"})
    assert [event.records[0].key for event in captured.events] == [("memory", "plain.txt")]


def test_an_async_tool_stays_async(tmp_path: Path, captured: Captured) -> None:
    """The asynchronous tool is awaited as before, many at once, and each view counts."""
    made = instrument(BetaAsyncLocalFilesystemMemoryTool(base_path=str(tmp_path)), kind="knowledge")

    async def run() -> None:
        await made.call({"command": "create", "path": "/memories/a.md", "file_text": "a"})
        await asyncio.gather(*[made.call({"command": "view", "path": "/memories/a.md"}) for _ in range(5)])

    asyncio.run(run())
    assert [event.records[0].key for event in captured.events] == [("knowledge", "a")] * 5


def test_a_decorated_reader_beneath_is_the_same_read(tmp_path: Path, captured: Captured) -> None:
    """A backend of one's own whose reader is decorated counts one read, by the tool's route."""

    @memtally.instrument_read("MemoryRead")
    def read(kind: str, slug: str) -> str:
        return f"text of {slug}"

    class Backend(BetaLocalFilesystemMemoryTool):
        def view(self, command: object) -> str:
            return read("memory", "plan")

    made = instrument(Backend(base_path=str(tmp_path)))
    made.call({"command": "create", "path": "/memories/plan.md", "file_text": "x"})
    assert made.call({"command": "view", "path": "/memories/plan.md"}) == "text of plan"
    assert len(captured.events) == 1


def test_a_tool_of_unknown_storage_has_unknown_sizes(captured: Captured) -> None:
    """What a view returns is not the file, so that a tool without files leaves the sizes out."""
    from anthropic.tools import BetaAbstractMemoryTool

    class Remote(BetaAbstractMemoryTool):
        def view(self, command: object) -> str:
            path = command.path  # type: ignore[attr-defined]
            return "Here're the files and directories up to 2 levels" if path == "/memories/d" else "1\ttext"

        create = str_replace = insert = delete = rename = lambda self, command: "done"

    made = instrument(Remote())
    made.call({"command": "view", "path": "/memories/d"})
    made.call({"command": "view", "path": "/memories/note.md"})
    [record] = [event.records[0] for event in captured.events]
    assert (record.key, record.file_bytes, record.file_tokens_estimate) == (("memory", "note"), None, None)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/memories/notes", "a.md\nb.md"),  # a listing in the backend's own way
        ("/memories/a.md", "The path /memories/a.md does not exist. Please provide a valid path."),
        (
            "/memories/n",
            [
                {
                    "type": "text",
                    "text": "Here're the files and directories up to 2 levels deep in /memories/n",
                }
            ],
        ),
        ("/memories/a.md", ""),
        ("/memories/a.md", "Here's the content of /memories/a.md with line numbers:\n     1\t"),
    ],
)
def test_what_a_backend_shows_that_is_no_file(captured: Captured, path: str, shown: object) -> None:
    """Listings, errors that are returned as texts, and empty files are no uses, in whatever form."""
    from anthropic.tools import BetaAbstractMemoryTool

    class Own(BetaAbstractMemoryTool):
        def view(self, command: object) -> object:
            return shown

        create = str_replace = insert = delete = rename = lambda self, command: "done"

    instrument(Own()).call({"command": "view", "path": path})
    assert captured.events == []


def test_one_file_is_one_record(tool: BetaLocalFilesystemMemoryTool, captured: Captured) -> None:
    """By whatever path a file is viewed, through links too, it is the same record; all of it is no part."""
    notes = tool.memory_root / "notes"
    (tool.memory_root / "link.md").symlink_to(notes / "adopt-otlp.md")
    for path in ("notes/adopt-otlp.md", "x/../notes/adopt-otlp.md", "./notes/adopt-otlp.md", "link.md"):
        tool.call({"command": "view", "path": f"/memories/{path}"})
    tool.call({"command": "view", "path": "/memories/notes/adopt-otlp.md", "view_range": [1, -1]})
    assert [event.records[0].slug for event in captured.events] == ["notes/adopt-otlp"] * 5
    assert {(event.records[0].file_bytes, event.records[0].partial) for event in captured.events} == {
        (15, False)
    }


def test_what_is_empty_is_no_use(tool: BetaLocalFilesystemMemoryTool, captured: Captured) -> None:
    """An empty file, and lines beyond a file's end, hold nothing to be read."""
    (tool.memory_root / "empty.md").touch()
    tool.call({"command": "view", "path": "/memories/empty.md"})
    tool.call({"command": "view", "path": "/memories/notes/adopt-otlp.md", "view_range": [90, 99]})
    assert captured.events == []


def test_a_wrong_tool_is_refused() -> None:
    """A class, or a thing without execute, is an error at once."""
    with pytest.raises(memtally.InvalidValueError, match="no memory tool"):
        instrument(BetaLocalFilesystemMemoryTool)
    with pytest.raises(memtally.InvalidValueError, match="no memory tool"):
        instrument(object())


def test_from_the_tool_to_the_report(tmp_path: Path, figures: Callable[[], dict[str, RecordUsage]]) -> None:
    """Views end up in the workspace's report, with the session that they were in."""
    made = instrument(BetaLocalFilesystemMemoryTool(base_path=str(tmp_path / "m")))
    made.call({"command": "create", "path": "/memories/a.md", "file_text": "abc"})
    with memtally.session("s1"):
        made.call({"command": "view", "path": "/memories/a.md"})
        made.call({"command": "view", "path": "/memories/a.md"})
    found = figures()["memory/a"]
    assert (found.use_count, found.source_breakdown, found.file_bytes) == (2, {"MemoryRead": 2}, 3)
