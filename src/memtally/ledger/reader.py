"""Read usage logs: one pass, bounded memory, every whole event, every loss counted.

Lines end at ``\\n`` and nowhere else. Where a line is just being written when the log is opened, that is
waited for.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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
_PIECE = 2 * 1_048_576
"""Bytes of whole lines that are counted together: more are slower, for they leave the processor's cache."""
_FIRST_LOOK = 65_536
_ATTEMPTS = 100
_SETTLING_SECONDS = 0.5
_KEPT_OPEN = 100
"""Of so many files the descriptors are kept; a process may have some thousand in all."""
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

    def __init__(self, files: list[_File], *, distinct: bool = False) -> None:
        self._files: list[_File] = []
        seen: set[tuple[int, int]] = set()
        for file in files:
            if distinct and file.identity in seen:
                file.close()  # one file under two names: a process died in the middle of sealing it
                continue
            seen.add(file.identity)
            self._files.append(file)

    def __enter__(self) -> OpenLogs:
        return self

    def __exit__(self, *exception: object) -> None:
        for file in self._files:
            file.close()

    def __len__(self) -> int:
        return len(self._files)

    @property
    def files(self) -> list[tuple[str, int]]:
        """The files and the number of bytes that are read of each."""
        return [(file.path, file.size) for file in self._files]

    @property
    def identities(self) -> list[tuple[int, int]]:
        """The device and number of each of the ``files``."""
        return [file.identity for file in self._files]

    def bytes_of(self, number: int, places: Iterable[tuple[int, int]]) -> list[bytes]:
        """Some stretches of one of the ``files``, each given by offset and size."""
        return self._files[number].bytes_of(places)

    def lines(self, number: int) -> Iterator[tuple[int, bytes]]:
        """The lines of one of the ``files``, each with its byte offset.

        Raises ``LogReadError`` naming the file where the disk fails.
        """
        return self._files[number].lines()

    def pieces(self, number: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """The whole lines that begin in a range of bytes of one of the ``files``, many at a time.

        Each piece with its byte offset. Ranges side by side give each line once. Processes forked off
        may read at the same time.
        """
        return self._files[number].pieces(start, end)

    def read(self, counts: ReadCounts) -> Iterator[UsageEvent]:
        """The events, file by file, line by line; adds what else it meets to ``counts``."""
        for file in self._files:
            yield from read_events((line for _, line in file.lines()), counts)


class _File:
    """One file: its size when it was opened, and its descriptor, unless it is one of very many."""

    def __init__(self, path: str) -> None:
        self.path = path
        # unbuffered: blocks are large already
        stream = open(path, "rb", buffering=0, opener=_open_without_hanging)  # noqa: SIM115
        status = os.fstat(stream.fileno())
        self.identity = (status.st_dev, status.st_ino)
        self._changed = status.st_ctime_ns  # a file's number alone may be given to another file
        self._stream: BinaryIO | None = stream
        if stat.S_ISREG(status.st_mode):
            self.size = _settled_size(stream, status.st_size)
            self._again = True
        else:
            import shutil  # noqa: PLC0415 - for pipes only
            import tempfile  # noqa: PLC0415

            copy = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the others
            with stream:
                shutil.copyfileobj(stream, copy, _BLOCK)
            copy.flush()  # it is read by its descriptor, past what the stream still holds
            self._stream, self.size, self._again = copy, copy.tell(), False

    def lines(self) -> Iterator[tuple[int, bytes]]:
        with self._opened() as stream:
            stream.seek(0)
            yield from iter_lines(stream, self.size)

    def pieces(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        with self._opened() as stream:
            yield from _pieces(lambda offset, size: _read_at(stream, offset, size), start, end, self.size)

    def bytes_of(self, places: Iterable[tuple[int, int]]) -> list[bytes]:
        with self._opened() as stream:
            return [_read_at(stream, offset, size) for offset, size in places]

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        """The file to read from; what goes wrong meanwhile names it."""
        try:
            if self._stream is not None:
                yield self._stream
                return
            with open(self.path, "rb", buffering=0, opener=_open_without_hanging) as stream:
                status = os.fstat(stream.fileno())
                if (status.st_dev, status.st_ino, status.st_ctime_ns) != (*self.identity, self._changed):
                    raise LogReadError(self.path, "changed while it was read", "try again")
                yield stream
        except OSError as error:
            raise _unreadable(self.path, error) from None

    def rest(self) -> None:
        """Give the descriptor back until the file is read; a sealed segment keeps its name."""
        if self._again:
            self.close()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


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
        for file in files:
            file.close()
    raise LogReadError(listed[-1], "sealed faster than it can be opened", "try again")


def _open_all(paths: list[str]) -> list[_File]:
    files: list[_File] = []
    try:
        for path in paths:
            files.append(_File(path))
            if len(files) > _KEPT_OPEN:  # the live log comes last, and stays open
                files[-1 - _KEPT_OPEN].rest()
    except (OSError, ValueError) as error:
        for file in files:
            file.close()
        if isinstance(error, FileNotFoundError):
            raise LogReadError(path, "no such log", "check the path given") from None
        raise _unreadable(path, error) from None
    return files


def _unreadable(path: str, error: Exception) -> LogReadError:
    reason = getattr(error, "strerror", None) or str(error)
    return LogReadError(path, f"cannot be read ({reason})", "check the path and its mode")


def _settled_size(stream: BinaryIO, size: int) -> int:
    """The size of a file, not in the middle of somebody's line: a large one grows page by page."""
    if size == 0 or _last_byte(stream, size) == b"\n":
        return size
    try:
        if not lock(stream.fileno(), time.monotonic() + _SETTLING_SECONDS):
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


def _pieces(
    read: Callable[[int, int], bytes], start: int, end: int, size: int
) -> Iterator[tuple[int, bytes]]:
    """Whole lines that begin between two places, from ``read(offset, size)``; see ``iter_lines``."""
    at = start if start == 0 else _behind_newline(read, start - 1, end, size)
    while at < end:
        data = read(at, min(_PIECE, size - at))
        if not data:
            return  # cut off meanwhile
        # the last line of ours is the one that holds the byte before the end
        last = data.find(b"\n", end - at - 1) if len(data) >= end - at else -1
        cut = (last if last >= 0 else data.rfind(b"\n", 0, max(end - at - 1, 0))) + 1
        if cut == 0:
            data, following = _long_line(read, at, data, size)
        else:
            data, following = data[:cut], at + cut
        yield at, data
        at = following


def _behind_newline(read: Callable[[int, int], bytes], at: int, end: int, size: int) -> int:
    while at < end:
        data = read(at, min(_FIRST_LOOK, size - at))
        place = data.find(b"\n")
        if place >= 0 or not data:
            return at + place + 1 if data else end
        at += len(data)
    return end


def _long_line(read: Callable[[int, int], bytes], at: int, data: bytes, size: int) -> tuple[bytes, int]:
    """One line that is longer than a block, cut at ``MAX_LINE``, and where the next one begins."""
    parts, held = [data], len(data)
    while held < size - at:
        more = read(at + held, min(_BLOCK, size - at - held))
        place = more.find(b"\n")
        if held < MAX_LINE:
            parts.append(more[: place + 1] if place >= 0 else more)
        held += place + 1 if place >= 0 else len(more)
        if place >= 0 or not more:
            break
    return b"".join(parts)[:MAX_LINE], at + held


def _read_at(stream: BinaryIO, offset: int, size: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(stream.fileno(), size, offset)
    stream.seek(offset)
    return stream.read(size)


def _open_without_hanging(path: str, flags: int) -> int:
    # a FIFO in a log's place must not hang the reader: without a writer it reads as empty
    if not hasattr(os, "O_NONBLOCK"):  # pragma: no cover - Windows
        return os.open(path, flags)
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor
