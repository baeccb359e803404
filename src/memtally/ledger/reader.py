"""Read usage logs: one pass, bounded memory, every whole event, every loss counted.

Lines end at ``\\n`` and nowhere else. Where a line is just being written when the log is opened, that is
waited for.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from memtally.errors import LogReadError
from memtally.events import UsageEvent
from memtally.ledger.decode import decode_line
from memtally.ledger.locking import lock, unlock

__all__ = [
    "MAX_LINE",
    "OpenLogs",
    "ReadCounts",
    "iter_lines",
    "open_logs",
    "open_segments",
    "read_events",
]

_BLOCK = 1_048_576
_ATTEMPTS = 100
_SETTLING_SECONDS = 0.5
MAX_LINE = 32 * 1_048_576
"""Bytes of one line that are looked at; a longer line is damaged, and its rest is passed over."""


@dataclass(slots=True)
class ReadCounts:
    """What reading met besides whole lines."""

    damaged_lines: int = 0
    recovered_events: int = 0


class OpenLogs:
    """Log files that were opened together, and are read as they were then, as often as wanted.

    A file may be sealed, renamed or go on growing meanwhile: every reading gives the same bytes. What
    cannot be read twice (a pipe) is copied to a temporary file first. Use it as a context manager.
    """

    def __init__(self, files: list[tuple[str, BinaryIO]], *, distinct: bool = False) -> None:
        self._files: list[tuple[str, BinaryIO, int]] = []
        seen: set[tuple[int, int]] = set()
        for path, stream in files:
            status = os.fstat(stream.fileno())
            if distinct and (status.st_dev, status.st_ino) in seen:
                stream.close()  # one file under two names: a process died in the middle of sealing it
                continue
            seen.add((status.st_dev, status.st_ino))
            stable, length = _stable(stream)
            self._files.append((path, stable, length))

    def __enter__(self) -> OpenLogs:
        return self

    def __exit__(self, *exception: object) -> None:
        for _, stream, _ in self._files:
            stream.close()

    def __len__(self) -> int:
        return len(self._files)

    @property
    def files(self) -> list[tuple[str, int]]:
        """The files and the number of bytes that are read of each."""
        return [(path, length) for path, _, length in self._files]

    def lines(self, number: int) -> Iterator[tuple[int, bytes]]:
        """The lines of one of the ``files``, each with its byte offset.

        Raises ``LogReadError`` naming the file where the disk fails.
        """
        path, stream, length = self._files[number]
        try:
            stream.seek(0)
            yield from iter_lines(stream, length)
        except OSError as error:
            raise _unreadable(path, error) from None

    def read(self, counts: ReadCounts) -> Iterator[UsageEvent]:
        """The events, file by file, line by line; adds what else it meets to ``counts``."""
        for number in range(len(self._files)):
            yield from read_events((line for _, line in self.lines(number)), counts)


def open_logs(paths: Iterable[str | os.PathLike[str]]) -> OpenLogs:
    """Open explicit files. Raises ``LogReadError`` naming the first that cannot be read."""
    return OpenLogs(_open_all([os.fspath(path) for path in paths]))


def open_segments(list_segments: Callable[[], list[str]]) -> OpenLogs:
    """Open the segments of a log that may be sealed at any moment, none twice and none left out."""
    for _ in range(_ATTEMPTS):
        listed = list_segments()
        try:
            files = _open_all(listed)
        except LogReadError as error:
            # sealed between the listing and the opening, unless it is still there
            if not os.path.lexists(error.path):
                continue
            raise
        if list_segments() == listed:
            return OpenLogs(files, distinct=True)
        for _, stream in files:
            stream.close()
    raise LogReadError(listed[-1], "sealed faster than it can be opened", "try again")


def _open_all(paths: list[str]) -> list[tuple[str, BinaryIO]]:
    files: list[tuple[str, BinaryIO]] = []
    try:
        for path in paths:
            # unbuffered: blocks are large already
            files.append((path, open(path, "rb", buffering=0, opener=_open_without_hanging)))  # noqa: SIM115
    except (OSError, ValueError) as error:
        for _, stream in files:
            stream.close()
        if isinstance(error, FileNotFoundError):
            raise LogReadError(path, "no such log", "check the path given") from None
        raise _unreadable(path, error) from None
    return files


def _unreadable(path: str, error: Exception) -> LogReadError:
    reason = getattr(error, "strerror", None) or str(error)
    return LogReadError(path, f"cannot be read ({reason})", "check the path and its mode")


def _stable(stream: BinaryIO) -> tuple[BinaryIO, int]:
    status = os.fstat(stream.fileno())
    if stat.S_ISREG(status.st_mode):
        return stream, _settled_size(stream, status.st_size)
    copy = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the others
    with stream:
        shutil.copyfileobj(stream, copy, _BLOCK)
    return copy, copy.tell()


def _settled_size(stream: BinaryIO, size: int) -> int:
    """The size of a file, not in the middle of somebody's line: a large one grows page by page."""
    if size == 0 or _last_byte(stream, size) == b"\n":
        return size
    try:
        if not lock(stream.fileno(), _SETTLING_SECONDS):
            return size
    except OSError:
        return size  # a file system without locks
    try:  # nobody is writing now: either that line is whole, or it was torn long ago
        return os.fstat(stream.fileno()).st_size
    finally:
        unlock(stream.fileno())


def _last_byte(stream: BinaryIO, size: int) -> bytes:
    try:
        stream.seek(size - 1)
        return stream.read(1)
    except OSError:
        return b""  # the reading itself will say so


def read_events(lines: Iterable[bytes], counts: ReadCounts) -> Iterator[UsageEvent]:
    """The events of some lines (each without its ``\\n``)."""
    for line in lines:
        events, damaged = decode_line(line)
        if damaged:
            counts.damaged_lines += 1
            counts.recovered_events += len(events)
        yield from events


def iter_lines(stream: BinaryIO, size: int | None = None) -> Iterator[tuple[int, bytes]]:
    """The lines of the first ``size`` bytes of a stream (all by default), split at ``\\n`` only.

    Each with its byte offset from where the reading began. An overlong line is cut at ``MAX_LINE``.
    """
    parts: list[bytes] = []
    offset = held = 0  # where the present line begins, and how much of it came in earlier blocks
    while block := stream.read(_BLOCK if size is None else min(_BLOCK, size)):
        if size is not None:
            size -= len(block)
        *lines, rest = block.split(b"\n")
        if lines:
            yield offset, b"".join([*parts, lines[0]])[:MAX_LINE]
            offset += held + len(lines[0]) + 1
            for line in lines[1:]:
                yield offset, line
                offset += len(line) + 1
            parts, held = [], 0
        if held < MAX_LINE:
            parts.append(rest)
        held += len(rest)
    if held:
        yield offset, b"".join(parts)[:MAX_LINE]


def _open_without_hanging(path: str, flags: int) -> int:
    # a FIFO in a log's place must not hang the reader: without a writer it reads as empty
    if not hasattr(os, "O_NONBLOCK"):  # pragma: no cover - Windows
        return os.open(path, flags)
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor
