"""Event ids in sixteen bytes each: a UUID as it is, any other text by a hash of that length.

Packed UUIDs compare like their texts, so version 7 ids stand in the order of their making.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

try:  # without OpenSSL, which hashlib loads first
    from _blake2 import blake2b
except ImportError:  # pragma: no cover - other Python implementations
    from hashlib import blake2b
from itertools import pairwise
from mmap import mmap

__all__ = [
    "SIZE",
    "Run",
    "holds",
    "holds_between",
    "inserted",
    "is_timed",
    "merged",
    "pack_id",
    "pack_uuids",
    "repeated",
    "text_of",
    "unpacked",
]

Run = bytes | mmap
"""Packed ids one behind the other, in order."""


SIZE = 16
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SAMPLED = 1_024
_MOST_AT_ONCE = 131_072
_BLOCK = 1_048_576


def pack_id(text: str) -> bytes:
    """An event's id, packed."""
    if _UUID.fullmatch(text):
        return bytes.fromhex(text.replace("-", ""))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=SIZE).digest()


def pack_uuids(texts: Iterable[bytes]) -> bytes:
    """Many UUIDs in their canonical form, packed one behind the other."""
    return bytes.fromhex(b"".join(texts).translate(None, b"-").decode())


def text_of(packed: bytes) -> str:
    """The UUID that was packed."""
    digits = packed.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def is_timed(packed: bytes) -> bool:
    """Whether this may be a version 7 UUID. A hash may look like one: it is then only asked for in vain."""
    return packed[6] >> 4 == 7


def unpacked(run: bytes) -> list[bytes]:
    """The packed ids of a run, one by one."""
    return [run[at : at + SIZE] for at in range(0, len(run), SIZE)]


def repeated(runs: Sequence[Run]) -> Iterator[list[bytes]]:
    """The ids that are more than once in all of these sorted runs together, in order, some at a time."""
    for some in _merged(runs):
        if len(set(some)) < len(some):
            yield sorted({one for one, following in pairwise(some) if one == following})


def merged(runs: Sequence[Run]) -> Iterator[bytes]:
    """Sorted runs as one, each id once, piece by piece."""
    for some in _merged(runs):
        yield b"".join(dict.fromkeys(some))


def inserted(run: Run, others: Sequence[Run]) -> Iterator[bytes]:
    """Sorted runs as one, each id once: a long ``run``, which holds each id once, and others with little."""
    written = 0
    for some in _merged(others):
        for one in dict.fromkeys(some):
            place = _place(run, one)
            if run[place : place + SIZE] != one:
                yield from _blocks(run, written, place)
                yield one
                written = place
    yield from _blocks(run, written, len(run))


def _blocks(run: Run, start: int, end: int) -> Iterator[bytes]:
    for at in range(start, end, _BLOCK):
        yield run[at : min(at + _BLOCK, end)]


def _merged(runs: Sequence[Run]) -> Iterator[list[bytes]]:
    """The ids of sorted runs, sorted together, some at a time; equal ones stand side by side."""
    samples = sorted(run[at : at + SIZE] for run in runs for at in range(0, len(run), SIZE * _SAMPLED))
    bounds = samples[:: max(1, _MOST_AT_ONCE // _SAMPLED)][1:]
    places = [0] * len(runs)
    for bound in [*bounds, b""]:  # the last one: all the rest
        some: list[bytes] = []
        for number, run in enumerate(runs):
            end = _place(run, bound) if bound else len(run)
            if end > places[number]:
                some += unpacked(run[places[number] : end])
                places[number] = end
        some.sort()
        yield some


def holds(run: Run, packed: bytes) -> bool:
    """Whether a sorted run holds an id."""
    at = _place(run, packed)
    return run[at : at + SIZE] == packed


def holds_between(run: Run, low: bytes, high: bytes) -> bool:
    """Whether a sorted run holds an id from ``low`` to ``high``."""
    at = _place(run, low)
    return at < len(run) and run[at : at + SIZE] <= high


def _place(run: Run, packed: bytes) -> int:
    """The offset of the first id in a sorted run that is not less."""
    low, high = 0, len(run) // SIZE
    while low < high:
        middle = (low + high) // 2
        if run[middle * SIZE : middle * SIZE + SIZE] < packed:
            low = middle + 1
        else:
            high = middle
    return low * SIZE
