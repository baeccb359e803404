"""The content of a record's file: read without hanging, bounded, and as the text a model would see."""

from __future__ import annotations

import os

from memtally._files import open_regular

__all__ = ["MOST_READ", "decode_text", "read_content"]

MOST_READ = 1_048_576
"""Bytes of a file that are read for its token estimate; the rest is taken to be like them."""


def read_content(path: str | os.PathLike[str]) -> tuple[int, bytes] | None:
    """Size of a file in bytes, and its first ``MOST_READ``; ``None`` where it cannot be read or is none."""
    try:
        with open(open_regular(path), "rb") as stream:
            data = stream.read(MOST_READ)
            return max(os.fstat(stream.fileno()).st_size, len(data)), data
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return None


def decode_text(data: bytes) -> str:
    """Bytes as the text a model would see, for counting tokens only."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    head = data[:4_096]
    for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        # without a mark, text of mostly Latin letters has a NUL in every other place
        if 5 * head[first::2].count(0) > len(head) and not head[1 - first :: 2].count(0):
            return data.decode(encoding, "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")
