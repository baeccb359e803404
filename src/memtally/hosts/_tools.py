"""Which tools of a framework read which records: the mapping that a host's user writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memtally.errors import InvalidValueError
from memtally.events import check_kind
from memtally.recording import as_records
from memtally.records import MemoryRecord

__all__ = ["Tool", "ToolMap", "check_tools", "records_of_tool"]

Tool = tuple[str, str] | Callable[[Mapping[str, Any], Any], object]
"""``(kind, argument)``: the tool reads the record of that kind that this argument names. Or a function of
the tool's arguments and result that returns a ``MemoryRecord``, several, or ``None`` for "no read".
"""

ToolMap = Mapping[str, Tool]
"""Tools by the name that the framework knows them by. A tool that is not in it reads no record."""


def check_tools(tools: ToolMap) -> dict[str, Tool]:
    """The mapping, or ``InvalidValueError`` for what can be none."""
    if not isinstance(tools, Mapping):
        raise InvalidValueError(
            "tools", type(tools).__name__, "no mapping of tools", 'pass {"read_note": ("memory", "name")}'
        )
    for name, tool in tools.items():
        if not isinstance(name, str) or not name:
            raise InvalidValueError("tools", name, "a tool's name is text", "pass the framework's name of it")
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
