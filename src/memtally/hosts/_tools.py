"""Which tools of a framework read which records: the mapping that a host's user writes, and its seam."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from memtally._calls import Instrumented, ReadCall
from memtally.decorators import at_seam
from memtally.errors import InvalidValueError
from memtally.events import USE, check_kind, normal_slug
from memtally.recording import as_records
from memtally.records import MemoryRecord

__all__ = ["Answer", "Tool", "ToolMap", "ToolSeams", "check_tools", "tool_settings"]

Tool = tuple[str, str] | Callable[[Mapping[str, Any], Any], object]
"""``(kind, argument)``: the tool reads the record of that kind that this argument names. Or a function of
the tool's arguments and result that returns a ``MemoryRecord``, several, or ``None`` for "no read".
"""

ToolMap = Mapping[str, Tool]
"""Tools by the name that the framework knows them by. A tool that is not in it reads no record."""

Answer = Callable[[Any], str | bytes | None]
"""The content that a tool's result holds; ``None`` where the tool has failed, or gave none."""

_PROCEED = "proceed"


def check_tools(tools: ToolMap, never: Collection[str] = ()) -> dict[str, Tool]:
    """The mapping, or ``InvalidValueError`` for what can be none. ``never``: tools that search."""
    if not isinstance(tools, Mapping):
        raise InvalidValueError(
            "tools", type(tools).__name__, "no mapping of tools", 'pass {"read_note": ("memory", "name")}'
        )
    for name, tool in tools.items():
        if not isinstance(name, str) or not name:
            raise InvalidValueError("tools", name, "a tool's name is text", "pass the framework's name of it")
        if name in never:
            raise InvalidValueError(
                "tools",
                name,
                "a search is no use",
                "leave it out; record_use() says what was used",
            )
        if callable(tool):
            continue
        if not (isinstance(tool, tuple) and len(tool) == 2 and isinstance(tool[1], str) and tool[1]):
            raise InvalidValueError(
                f"tools[{name!r}]", tool, "no (kind, argument) and no function", 'pass ("memory", "name")'
            )
        check_kind(tool[0])
    return dict(tools)


def tool_settings(
    tools: ToolMap, answer: Answer, *, source: str = "MemoryRead", never: Collection[str] = ()
) -> dict[str, Instrumented]:
    """For each mapped tool what a call is to ``OpenCall``, for a seam that begins and ends it itself."""
    return {
        name: Instrumented(_call, USE, source, _records_of(tool, answer), None, None, _expected_of(tool))
        for name, tool in check_tools(tools, never).items()
    }


def _call(**arguments: Any) -> None:
    """What a tool looks like to the calls around it."""


class ToolSeams:
    """The mapped tools of a framework, each with the one place where its calls go through.

    ``answer`` gives the content of a tool's result.
    """

    def __init__(self, tools: ToolMap, answer: Answer) -> None:
        self._seams = {
            name: at_seam(_proceed, "MemoryRead", _records_of(tool, answer), _expected_of(tool))
            for name, tool in check_tools(tools).items()
        }

    def __contains__(self, name: object) -> bool:
        return name in self._seams

    async def call(
        self, name: str, arguments: Mapping[str, Any], proceed: Callable[[], Awaitable[Any]]
    ) -> Any:
        """What ``proceed`` gives, as a read of the record that the tool's arguments name."""
        return await self._seams[name](proceed, **arguments)


async def _proceed(proceed: Callable[[], Awaitable[Any]], /, **arguments: Any) -> Any:
    return await proceed()


def _own(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name != _PROCEED or not callable(value)}


def _records_of(tool: Tool, answer: Answer) -> Callable[[ReadCall], list[MemoryRecord]]:
    def records(call: ReadCall) -> list[MemoryRecord]:
        content = answer(call.result)
        if not content:
            return []
        arguments = _own(call.arguments)
        if not isinstance(tool, tuple):
            return as_records(tool(arguments, call.result))
        slug = arguments.get(tool[1])
        return [MemoryRecord(tool[0], slug, content)] if isinstance(slug, str) and slug.strip() else []

    return records


def _expected_of(tool: Tool) -> Callable[[Mapping[str, Any]], tuple[str, str] | None] | None:
    if not isinstance(tool, tuple):
        return None  # its function says afterwards
    kind, argument = tool

    def expected(arguments: Mapping[str, Any]) -> tuple[str, str] | None:
        slug = arguments.get(argument)
        return (kind, normal_slug(slug)) if isinstance(slug, str) else None

    return expected
