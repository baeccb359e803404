"""The last lines of a log's files, without reading the rest."""

from __future__ import annotations

import os

from memtally._files import open_regular

__all__ = ["last_lines"]

_BLOCK = 65_536
_MOST_BYTES = 32 * 1_048_576


def last_lines(path: str, number: int) -> list[bytes]:
    """The last non-blank lines of a file, at most so many and of at most 32 MB. Raises ``OSError``."""
    if number == 0:
        return []
    with open(open_regular(path), "rb") as stream:
        position = stream.seek(0, os.SEEK_END)
        blocks: list[bytes] = []
        found = 0
        while position > 0 and found <= number and len(blocks) * _BLOCK < _MOST_BYTES:
            size = min(_BLOCK, position)
            position -= size
            stream.seek(position)
            blocks.append(stream.read(size))
            found += blocks[-1].count(b"\n")
    lines = [line for line in b"".join(reversed(blocks)).split(b"\n") if line.strip()]
    return lines[-number:]
