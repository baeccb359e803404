"""Which tools of a framework read which records: the mapping that a host's user writes, and its seams."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from memtally._calls import Key, ReadCall
from memtally.errors import InvalidValueError
from memtally.events import check_kind
from memtally.hosts._seam import Seam, key_of
from memtally.recording import as_records
from memtally.records import MemoryRecord

__all__ = ["Answer", "Tool", "ToolMap", "check_tools", "records_of_tool", "tool_seams"]

Tool = tuple[str, str] | Callable[[Mapping[str, Any], Any], object]
"""``(kind, argument)``: the tool reads the record of that kind that this argument names. Or a function of
the tool's arguments and result that returns a ``MemoryRecord``, several, or ``None`` for "no read".
"""

ToolMap = Mapping[str, Tool]
"""Tools by the name that the framework knows them by. A tool that is not in it reads no record."""

Answer = Callable[[Any], tuple[bool, str | bytes | None]]
"""Of a tool's result: whether it gave content, and that content, where it is known to be the record's."""


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
                "tools", name, "a search is no use", "leave it out; record_use() says what was used"
            )
        if callable(tool):
            continue
        if not (isinstance(tool, tuple) and len(tool) == 2 and isinstance(tool[1], str) and tool[1]):
            raise InvalidValueError(
                f"tools[{name!r}]", tool, "no (kind, argument) and no function", 'pass ("memory", "name")'
            )
        check_kind(tool[0])
    return dict(tools)


def records_of_tool(
    tool: Tool, arguments: Mapping[str, Any], result: Any, content: str | bytes | None
) -> list[MemoryRecord]:
    """The records that a call has read.

    ``result`` is what a function of the mapping is given, ``content`` what is measured for a tuple.
    Empty where the argument that should name the record is missing or no text.
    """
    if callable(tool):
        return as_records(tool(arguments, result))
    kind, argument = tool
    slug = arguments.get(argument)
    return [MemoryRecord(kind, slug, content)] if isinstance(slug, str) and slug.strip() else []


def tool_seams(
    tools: ToolMap, answer: Answer, *, source: str = "MemoryRead", never: Collection[str] = ()
) -> dict[str, Seam]:
    """The seam of each mapped tool. Raises ``InvalidValueError`` for a wrong mapping."""
    return {name: _tool_seam(name, tool, answer, source) for name, tool in check_tools(tools, never).items()}


def _tool_seam(name: str, tool: Tool, answer: Answer, source: str) -> Seam:
    def records(call: ReadCall) -> list[MemoryRecord]:
        gave, content = answer(call.result)
        return records_of_tool(tool, call.arguments, call.result, content) if gave else []

    def names(arguments: Mapping[str, Any]) -> frozenset[Key]:
        return key_of(tool[0], arguments.get(tool[1])) if isinstance(tool, tuple) else frozenset()

    return Seam(name, (), records, names, source=source)
