"""Exact token counts on disk, by the hash of what was counted: what a process without a vocabulary looks up.

A hook process lives for some milliseconds and never loads a vocabulary. It looks its counts up here; what it
misses it estimates by formula, leaves the file's name in ``wanted`` and starts ``memtally tokens count`` in
the background, which counts what is wanted, once. So a record that changes is estimated by formula until
that is done, a second or two. Nothing here is evidence: all of it may be removed at any time.
"""

from __future__ import annotations

import os

from memtally._files import read_small

try:  # the C module behind hashlib, which takes longer to import than a hook may
    from _blake2 import blake2b
except ImportError:  # pragma: no cover - other Python implementations
    from hashlib import blake2b

__all__ = ["Counts", "add_counts", "content_key", "counts_path", "take_wanted", "want", "wanted_path"]

_MOST_BYTES = 4 * 1_048_576
_LINE = 45
"""Bytes of a line: 32 hexadecimal digits, a blank, ten digits, a blank, and the newline. A line that was torn
or welded has another length, or no newline where one must be, and is no count."""


def counts_path(directory: str, tokenizer: str) -> str:
    """The file of a tokenizer's counts in a workspace's ``.memtally``."""
    return os.path.join(directory, "cache", f"tokens-{tokenizer}")


def wanted_path(directory: str) -> str:
    """The file of the names of files whose counts were missed."""
    return os.path.join(directory, "cache", "tokens-wanted")


def content_key(data: bytes) -> str:
    """What stands for a content: 32 hexadecimal digits."""
    return blake2b(data, digest_size=16).hexdigest()


class Counts:
    """The counts of one tokenizer, as they were when they were first asked for."""

    def __init__(self, directory: str, tokenizer: str) -> None:
        self._path = counts_path(directory, tokenizer)
        self._data: bytes | None = None

    def get(self, key: str) -> int | None:
        """The count of a content, if it is known."""
        if self._data is None:
            try:
                self._data = b"\n" + read_small(self._path, _MOST_BYTES)
            except OSError:
                self._data = b""
        at = self._data.find(f"\n{key} ".encode()) + 1
        line = self._data[at : at + _LINE]
        if not at or len(line) != _LINE or line[-2:] != b" \n" or not line[33:43].isdigit():
            return None
        return int(line[33:43])


def add_counts(directory: str, tokenizer: str, counts: dict[str, int]) -> None:
    """Add counts by content key. A file that has become too large is begun anew. Raises ``OSError``."""
    path = counts_path(directory, tokenizer)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    lines = b"".join(f"{key} {count:010d} \n".encode() for key, count in counts.items())
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size + len(lines) > _MOST_BYTES:
            os.ftruncate(descriptor, 0)
        elif size % _LINE:
            lines = b"\n" + lines  # what was torn stays a line of its own
        os.write(descriptor, lines)
    finally:
        os.close(descriptor)


def want(directory: str, paths: list[str]) -> None:
    """Leave the names of files to be counted. Raises ``OSError``."""
    path = wanted_path(directory)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        if os.fstat(descriptor).st_size < _MOST_BYTES // 4:
            os.write(descriptor, b"".join(os.fsencode(path) + b"\0" for path in paths))
    finally:
        os.close(descriptor)


def take_wanted(directory: str) -> list[str]:
    """The names that were left, each once; they are wanted no longer."""
    path = wanted_path(directory)
    taken = f"{path}.{os.getpid()}"
    try:
        os.rename(path, taken)  # what is left from now on goes into a new file
        try:
            data = read_small(taken, _MOST_BYTES)
        finally:
            os.unlink(taken)
    except OSError:
        return []
    return list(dict.fromkeys(os.fsdecode(name) for name in data.split(b"\0") if name))
