"""FastMCP servers with a real client in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import Middleware, MiddlewareContext
from fastmcp.utilities.types import Image

import memtally
from memtally import MemoryRecord, RecordUsage
from memtally.hosts.fastmcp import MemtallyMiddleware
from memtally.testing import Captured

NOTES = {"plan": "the plan", "empty": ""}


def server(middleware: MemtallyMiddleware) -> FastMCP:
    """A server of notes."""
    mcp: FastMCP = FastMCP("notes")

    @mcp.tool
    def read_note(name: str) -> str:
        if name not in NOTES:
            raise ToolError("no such note")
        return NOTES[name]

    @mcp.tool
    def search_notes(query: str) -> list[str]:
        return [text for text in NOTES.values() if query in text]

    @mcp.resource("notes://all/{name}")
    def note(name: str) -> str:
        return NOTES[name]

    mcp.add_middleware(middleware)
    return mcp


async def test_mapped_tools_and_resources_are_uses(captured: Captured) -> None:
    """A mapped tool and a mapped resource count, each by its record's name; a search does not."""
    mcp = server(
        MemtallyMiddleware({"read_note": ("memory", "name")}, {"notes://all/{name}": ("knowledge", "name")})
    )
    async with Client(mcp) as client:
        assert (await client.call_tool("read_note", {"name": "plan"})).data == "the plan"
        assert (await client.call_tool("search_notes", {"query": "plan"})).data == ["the plan"]
        assert (await client.read_resource("notes://all/plan"))[0].text == "the plan"
    found = [(event.source, event.records[0].key, event.records[0].file_bytes) for event in captured.events]
    assert found == [("MemoryRead", ("memory", "plan"), 8), ("MemoryRead", ("knowledge", "plan"), 8)]


async def test_errors_and_empty_answers_are_no_uses(captured: Captured) -> None:
    """What the client gets as an error, and what is empty, counts for nothing."""
    async with Client(server(MemtallyMiddleware({"read_note": ("memory", "name")}))) as client:
        with pytest.raises(ToolError, match="no such note"):
            await client.call_tool("read_note", {"name": "gone"})
        with pytest.raises(ToolError):
            await client.call_tool("read_note", {})
        await client.call_tool("read_note", {"name": "empty"})
    assert captured.events == []


async def test_a_decorated_reader_beneath_is_the_same_read(captured: Captured) -> None:
    """A tool whose function calls a decorated reader counts one read."""
    mcp: FastMCP = FastMCP("notes")

    @memtally.instrument_read("MemoryRead")
    def memory_read(kind: str, slug: str) -> str:
        return "text"

    @mcp.tool
    def read_note(name: str) -> str:
        return memory_read("memory", name) + memory_read("decision", "other")

    mcp.add_middleware(MemtallyMiddleware({"read_note": ("memory", "name")}))
    async with Client(mcp) as client:
        await client.call_tool("read_note", {"name": "plan"})
    assert sorted(event.records[0].key for event in captured.events) == [
        ("decision", "other"),
        ("memory", "plan"),
    ]


async def test_a_function_says_which_records(captured: Captured) -> None:
    """A mapping may be a function of arguments and result, which may say that it was no read."""

    def records(arguments: object, result: object) -> object:
        name = arguments["name"]  # type: ignore[index]
        return [MemoryRecord("decision", name), MemoryRecord("knowledge", name)] if name == "plan" else None

    async with Client(server(MemtallyMiddleware({"read_note": records}))) as client:
        await client.call_tool("read_note", {"name": "plan"})
    [event] = captured.events
    assert [record.key for record in event.records] == [("decision", "plan"), ("knowledge", "plan")]


async def test_a_session_is_the_servers_to_name(captured: Captured) -> None:
    """No session is made up; one that a middleware further out has named is kept, call by call."""

    class Sessions(Middleware):
        async def on_call_tool(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
            with memtally.session(context.message.arguments.pop("conversation", None)):
                return await call_next(context)

    mcp: FastMCP = FastMCP("notes")

    @mcp.tool
    async def read_note(name: str) -> str:
        await asyncio.sleep(0.01)
        return "text"

    mcp.add_middleware(Sessions())
    mcp.add_middleware(MemtallyMiddleware({"read_note": ("memory", "name")}))
    async with Client(mcp) as client:
        given = [{"name": "a"}, {"name": "b", "conversation": "c1"}, {"name": "c", "conversation": "c2"}]
        await asyncio.gather(*[client.call_tool("read_note", each) for each in given])
    found = {event.records[0].slug: event.session_id for event in captured.events}
    assert found == {"a": None, "b": "c1", "c": "c2"}


@pytest.mark.parametrize(
    ("tools", "resources"),
    [
        ({"read_note": "memory"}, None),
        ({"read_note": ("Memory Kind", "name")}, None),
        ({"": ("memory", "name")}, None),
        ({}, {"notes://x": "memory"}),
        ({}, {"notes://{name}": ("memory", "slug")}),
        ({}, ["notes://x"]),
    ],
)
def test_a_wrong_mapping_is_refused(tools: object, resources: object) -> None:
    """A mapping that can be none is an error at once."""
    with pytest.raises(memtally.InvalidValueError):
        MemtallyMiddleware(tools, resources)  # type: ignore[arg-type]


async def test_from_the_client_to_the_report(figures: Callable[[], dict[str, RecordUsage]]) -> None:
    """Calls end up in the workspace's report."""
    async with Client(server(MemtallyMiddleware({"read_note": ("memory", "name")}))) as client:
        for _ in range(3):
            await client.call_tool("read_note", {"name": "plan"})
    assert figures()["memory/plan"].use_count == 3


async def test_what_a_tool_returns_besides_text(captured: Captured) -> None:
    """Values and images are content of unknown size, for what FastMCP writes of them is not the record; empty ones are none."""
    mcp: FastMCP = FastMCP("notes")

    @mcp.tool
    def parts(name: str) -> list[str]:
        return [] if name == "empty" else ["one", "two"]

    @mcp.tool
    def whole(name: str) -> dict[str, str]:
        return {} if name == "empty" else {"text": "x"}

    @mcp.tool
    def nothing(name: str) -> str | None:
        return None

    @mcp.tool
    def picture(name: str) -> Image:
        return Image(data=b"\x89PNG", format="png")

    tools = dict.fromkeys(("parts", "whole", "nothing", "picture"), ("memory", "name"))
    mcp.add_middleware(MemtallyMiddleware(tools))
    async with Client(mcp) as client:
        for tool in tools:
            for name in (f"{tool}-a", "empty"):
                await client.call_tool(tool, {"name": name})
    found = [(event.records[0].slug, event.records[0].file_bytes) for event in captured.events]
    assert found == [("parts-a", None), ("whole-a", None), ("picture-a", None), ("empty", None)]


async def test_an_exact_address_is_its_own_record(captured: Captured) -> None:
    """A resource with a fixed address is the record that the mapping names."""
    mcp: FastMCP = FastMCP("notes")

    @mcp.resource("notes://policy")
    def policy() -> str:
        return "be kind"

    mcp.add_middleware(MemtallyMiddleware(resources={"notes://policy": ("rule", "policy")}))
    async with Client(mcp) as client:
        await client.read_resource("notes://policy")
    assert [(e.records[0].key, e.records[0].file_bytes) for e in captured.events] == [(("rule", "policy"), 7)]
