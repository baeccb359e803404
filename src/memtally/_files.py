"""Small files that somebody else may have put there: read without hanging, bounded, regular ones only."""

from __future__ import annotations

import errno
import os
import stat

__all__ = ["open_regular", "read_small"]


def open_regular(path: str | os.PathLike[str]) -> int:
    """A descriptor to read a regular file. Raises ``OSError`` for anything else: a pipe would hang."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file")
    return descriptor


def read_small(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a regular file, ``most`` at the most. Raises ``OSError``, also where it is larger."""
    with open(open_regular(path), "rb") as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"over {most} bytes")
    return data
