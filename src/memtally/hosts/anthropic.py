"""Anthropic's memory tool: what Claude views of its memory files.

::

    tool = memtally.hosts.anthropic.instrument(BetaLocalFilesystemMemoryTool())

A ``view`` of a file is a use of the record that lies below ``/memories`` (``/memories/notes/a.md`` is
``memory/notes/a``). A ``view`` of a directory is a listing, and no use; nor is any other command, a
``ToolError`` or a file without content. For backends of one's own (``BetaAbstractMemoryTool``) this goes by
the texts that the tool's documentation prescribes; a directory that is shown otherwise is not to be told
from a file, so pass ``records=`` there.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from memtally import faults
from memtally._calls import Key, ReadCall
from memtally.errors import InvalidValueError
from memtally.events import check_kind
from memtally.hosts._seam import Seam, check_function, instrument_method, key_of
from memtally.records import MemoryRecord

try:
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool
except ImportError as error:
    raise ImportError(
        "memtally.hosts.anthropic needs the anthropic package: pip install 'memtally[anthropic]'"
    ) from error

__all__ = ["instrument", "seam_of"]

Tool = TypeVar("Tool", bound="BetaAbstractMemoryTool | BetaAsyncAbstractMemoryTool")

_ROOT = "/memories"
_FILE = "Here's the content of "
_DIRECTORY = "Here're the files and directories "
_NUMBERED = re.compile(r" *([0-9]+)\t")


def instrument(
    tool: Tool, *, kind: str = "memory", records: Callable[[ReadCall], object] | None = None
) -> Tool:
    """Record the views of this tool, and return it.

    ``kind``: the kind of its records. ``records``: for other schemes, a function of the ``ReadCall`` of a
    ``view`` (``arguments["command"]`` with ``path`` and ``view_range``, ``result``) that returns a
    ``MemoryRecord``, several, or ``None`` for "no read". A tool that is instrumented already stays as it is.
    Raises ``InvalidValueError`` for what is no memory tool, no kind or no function.
    """
    if not isinstance(tool, (BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool)):
        raise InvalidValueError(
            "tool", type(tool).__name__, "no memory tool", "pass BetaLocalFilesystemMemoryTool(), say"
        )
    instrument_method(tool, "execute", seam_of(tool, kind, records))
    return tool


def seam_of(tool: object, kind: str = "memory", records: Callable[[ReadCall], object] | None = None) -> Seam:
    """How the ``execute`` of a tool is recorded."""
    check_kind(kind)
    check_function("records", records)

    def read(call: ReadCall) -> object:
        command = call.arguments["command"]
        if getattr(command, "command", None) != "view":
            return None
        return records(call) if records is not None else _viewed(tool, kind, command, call.result)

    def names(arguments: Mapping[str, Any]) -> frozenset[Key]:
        command = arguments.get("command")
        if records is not None or getattr(command, "command", None) != "view":
            return frozenset()
        return key_of(kind, _slug(tool, getattr(command, "path", None)))

    return Seam(f"{type(tool).__name__}.execute", ("command",), read, names)


def _viewed(tool: object, kind: str, command: Any, result: object) -> MemoryRecord | None:
    path, shown = command.path, _text(result)
    slug = _slug(tool, path)
    if slug is None or not _is_a_file(path, shown):
        return None
    if not shown.startswith(f"{_FILE}{path}"):
        return MemoryRecord(kind, slug)  # shown in the backend's own way: what is the file's is not known
    partial = _is_partial(getattr(command, "view_range", None))
    lines = _unnumbered(shown, None if partial else 1)
    if lines in ([], [""]):
        return None  # an empty file, or a range beyond its end
    if partial:
        return MemoryRecord(kind, slug, _file(tool, path), partial=True)
    return MemoryRecord(kind, slug, None if lines is None else "\n".join(lines))


def _is_a_file(path: str, shown: str) -> bool:
    if not shown or shown.startswith((_DIRECTORY, f"The path {path} does not exist")):
        return False
    if shown.startswith(_FILE):
        return True
    if path.endswith("/") or posixpath.normpath(path) == _ROOT:
        return False
    if posixpath.splitext(path)[1]:
        return True
    faults.note(
        "unknown_view",
        "a memory tool of your own showed something of which it is not known whether it is a file or a "
        "directory; it is not counted; pass records= to memtally.hosts.anthropic.instrument()",
    )
    return False


def _text(result: object) -> str:
    """The text of a tool's result: as such, or in content blocks that can be looked at again."""
    if isinstance(result, str):
        return result
    if not isinstance(result, (list, tuple)):
        return ""
    return "".join(
        block["text"] for block in result if isinstance(block, Mapping) and isinstance(block.get("text"), str)
    )


def _unnumbered(shown: str, first: int | None) -> list[str] | None:
    """The lines that were numbered, beginning with the ``first``; ``None`` where the text is not so made."""
    _, newline, numbered = shown.partition("\n")
    if not newline:
        return None
    lines: list[str] = []
    for line in numbered.split("\n") if numbered else ():
        number = _NUMBERED.match(line)
        if number is None:
            return None
        first = int(number[1]) if first is None else first
        if int(number[1]) != first + len(lines):
            return None
        lines.append(line[number.end() :])
    return lines


def _is_partial(view_range: object) -> bool:
    """Whether a view asked for less than the whole file. A range that is no pair is not looked at."""
    if not isinstance(view_range, Iterable) or len(lines := list(view_range)) != 2:
        return False
    return not (lines[0] <= 1 and lines[1] == -1)


def _root(tool: object) -> Path | None:
    """The folder of a tool that keeps its records in files."""
    root = getattr(tool, "memory_root", None)
    return Path(os.fspath(root)) if isinstance(root, os.PathLike) else None


def _below(path: str) -> str:
    # the tool takes "/memories/a", "/memories//a" and "/memoriesa" for one; so it is one record
    return path.removeprefix(_ROOT).lstrip("/")


def _file(tool: object, path: str) -> Path | None:
    root = _root(tool)
    return None if root is None else (root / _below(path)).resolve()


def _slug(tool: object, path: object) -> str | None:
    """The record of a path: where it lies below ``/memories``, links followed, without ``.md``."""
    if not isinstance(path, str):
        return None
    file = _file(tool, path)
    if file is not None:
        root = _root(tool)
        assert root is not None
        if not file.is_relative_to(root.resolve()):
            return None  # the tool refuses it
        slug = file.relative_to(root.resolve()).as_posix()
    else:
        slug = posixpath.normpath(_below(path))
    return None if slug in ("", ".") or slug.startswith("../") else slug.removesuffix(".md")
