"""Anthropic's memory tool: ``memtally.hosts.anthropic.instrument(memory_tool)``.

The view of a file is a use; the view of a folder is a listing, and all else writes. What a view returns has
line numbers and is not the file: a tool that keeps its files on disk is measured by them, of any other the
sizes are unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from memtally._calls import ReadCall
from memtally.decorators import at_seam
from memtally.errors import InvalidValueError
from memtally.events import check_kind, normal_slug
from memtally.records import MemoryRecord

__all__ = ["instrument", "instrumented_execute"]

T = TypeVar("T")

_ROOT = "/memories"
_LISTING = "Here're the files and directories"


def instrument(tool: T, *, kind: str = "memory") -> T:
    """Record the uses of a memory tool (an instance), sync or async; the tool itself.

    A record's slug is its path below ``/memories`` without ``.md``. Doing it twice is doing it once. Raises
    ``InvalidValueError`` for what is no memory tool.
    """
    check_kind(kind)
    execute = getattr(tool, "execute", None)
    if not callable(execute) or isinstance(tool, type):
        raise InvalidValueError(
            "tool",
            type(tool).__name__,
            "no memory tool",
            "pass an instance, such as BetaLocalFilesystemMemoryTool()",
        )
    if "execute" not in vars(tool) or not hasattr(execute, "__memtally__"):
        tool.execute = instrumented_execute(execute, kind)  # type: ignore[attr-defined]
    return tool


def instrumented_execute(execute: Callable[..., Any], kind: str = "memory") -> Any:
    """A tool's ``execute``, bound or not, that records."""

    def records(call: ReadCall) -> MemoryRecord | None:
        command = call.arguments.get("command")
        key = _viewed(command, kind)
        tool = call.arguments.get("self", getattr(execute, "__self__", None))
        path = None if key is None else _file(tool, command)
        if key is None or (path is None and _is_listing(tool, command, call.result)):
            return None
        return MemoryRecord(*key, path, partial=getattr(command, "view_range", None) is not None)

    wrapped = at_seam(execute, "MemoryRead", records, lambda named: _viewed(named.get("command"), kind))
    wrapped.__memtally__ = True
    return wrapped


def _viewed(command: object, kind: str) -> tuple[str, str] | None:
    """The record that a command asks to see; ``None`` for any other command."""
    path = getattr(command, "path", None)
    if getattr(command, "command", None) != "view" or not isinstance(path, str):
        return None
    slug = path.removeprefix(_ROOT).strip("/").removesuffix(".md")
    return (kind, normal_slug(slug)) if slug else None


def _file(tool: object, command: Any) -> Path | None:
    """The file behind a command, for a tool that says where it keeps them."""
    root = getattr(tool, "memory_root", None)
    if root is None:
        return None
    path = Path(str(root), command.path.removeprefix(_ROOT).strip("/"))
    return path if path.is_file() else None


def _is_listing(tool: object, command: Any, result: object) -> bool:
    if getattr(tool, "memory_root", None) is not None:
        return True  # it is no file of its folder
    return command.path.endswith("/") or (isinstance(result, str) and result.startswith(_LISTING))
