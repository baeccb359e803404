"""Read usage logs: one pass, bounded memory, every whole event, every loss counted.

Lines end at ``\\n`` and nowhere else. Readers take no lock: a line that is just being written is
whole on the next reading.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from memtally.errors import LogReadError
from memtally.events import UsageEvent
from memtally.ledger.decode import decode_line

__all__ = ["MAX_LINE", "ReadCounts", "iter_lines", "read_events", "read_logs"]

_BLOCK = 1_048_576
MAX_LINE = 32 * 1_048_576
"""Bytes of one line that are looked at; a longer line is damaged, and its rest is passed over."""


@dataclass(slots=True)
class ReadCounts:
    """What reading met besides whole lines."""

    damaged_lines: int = 0
    recovered_events: int = 0


def read_logs(paths: Iterable[str | os.PathLike[str]], counts: ReadCounts) -> Iterator[UsageEvent]:
    """The events of some log files, file by file, in the order of their lines.

    Adds what it met to ``counts``. Raises ``LogReadError`` naming the first file that cannot be read.
    """
    for path in paths:
        try:
            # unbuffered: blocks are large already
            with open(path, "rb", buffering=0, opener=_open_without_hanging) as stream:
                yield from read_events(iter_lines(stream), counts)
        except FileNotFoundError:
            raise LogReadError(os.fspath(path), "no such log", "check the path given") from None
        except OSError as error:
            reason = error.strerror or str(error)
            raise LogReadError(
                os.fspath(path), f"cannot be read ({reason})", "check the path and its mode"
            ) from None


def read_events(lines: Iterable[bytes], counts: ReadCounts) -> Iterator[UsageEvent]:
    """The events of some lines (each without its ``\\n``)."""
    for line in lines:
        events, damaged = decode_line(line)
        if damaged:
            counts.damaged_lines += 1
            counts.recovered_events += len(events)
        yield from events


def iter_lines(stream: BinaryIO) -> Iterator[bytes]:
    """The lines of a binary stream, split at ``\\n`` only; an overlong one is cut at ``MAX_LINE``."""
    parts: list[bytes] = []
    held = 0
    while block := stream.read(_BLOCK):
        lines = block.split(b"\n")
        if len(lines) == 1:
            if held < MAX_LINE:
                parts.append(block)
            held += len(block)
            continue
        first = b"".join([*parts, lines[0]]) if parts else lines[0]
        yield first[:MAX_LINE]
        yield from lines[1:-1]
        parts, held = ([lines[-1]], len(lines[-1])) if lines[-1] else ([], 0)
    if parts:
        yield b"".join(parts)[:MAX_LINE]


def _open_without_hanging(path: str, flags: int) -> int:
    # a FIFO in a log's place must not hang the reader: without a writer it reads as empty
    if not hasattr(os, "O_NONBLOCK"):  # pragma: no cover - Windows
        return os.open(path, flags)
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor
