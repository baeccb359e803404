"""Many canonical lines at a time: their ids, times, sessions and tails, without decoding each.

A canonical line begins with ``{"id":"`` and a lower-case UUID, a time with six digits and ``Z``, and a
session; what follows from ``,"event":`` on, its tail, recurs byte for byte for as long as nothing changes, so
that each distinct tail needs decoding once. All of it is exact: what is taken for a canonical line gives the
event that ``decode_line`` would give, and every other line is left to that.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from operator import le, lt
from typing import Any

__all__ = ["FIRST_TAIL_AT", "ID_AT", "TIME_AT", "Columns", "columns", "session_of", "usual_tail_at"]

EVENT = b',"event":'
_HEAD = 102
"""Bytes of a line up to and with ``"session_id":``."""
FIRST_TAIL_AT = _HEAD + 38
"""Where tails are thought to begin before any was seen: behind a UUID in quotes."""
_ID_END = 43
ID_AT = slice(7, _ID_END)
"""Where the id stands in an ``ids`` column's entry."""
TIME_AT = slice(17, 44)
"""Where the time stands in a ``times`` column's entry."""

_IDS = b'{"id":"00000000-0000-0000-0000-000000000000'
_TIMES = b'","occurred_at":"0000-00-00T00:00:00.000000Z","session_id":'
_HEX_TO_0 = bytes.maketrans(b"123456789abcdef", b"0" * 15)
_DIGITS_TO_0 = bytes.maketrans(b"123456789", b"0" * 9)
_IDS_AS_0 = _IDS.translate(_HEX_TO_0)

_LINE = re.compile(
    rb'\{"id":"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}","occurred_at":"'
    rb'\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6}Z","session_id":'
)
_SESSION = re.compile(
    rb'(?:null|"([ !#-\[\]-\x7e]+)")'
    rb'(?:,"trace_id":"[0-9a-f]*")?(?:,"span_id":"[0-9a-f]*")?(?:,"input_tokens":(?:0|[1-9]\d{0,17}))?'
)


@dataclass(slots=True)
class Columns:
    """Canonical lines taken apart, column by column, and all ``other`` lines as they are.

    ``ids`` and ``times`` hold a little more than that (see ``ID_AT``, ``TIME_AT``), always the same, so that
    they compare like what they name. ``middles``: session, trace, input tokens. ``meanings``: for who reads
    them to fill in. ``ascending``: whether the ids and the times go up, no id twice.
    """

    ids: list[bytes]
    times: list[bytes]
    middles: list[bytes]
    tails: list[bytes]
    meanings: list[Any]
    other: list[bytes]
    ascending: bool

    def order(self) -> None:
        """Put the lines in the order of (time, id)."""
        if not self.ascending:
            keys = list(zip(self.times, self.ids, strict=True))
            self.keep(sorted(range(len(keys)), key=keys.__getitem__))

    def keep(self, indexes: Iterable[int]) -> None:
        """Go on with these lines only, in this order."""
        kept = list(indexes)
        for name in ("ids", "times", "middles", "tails", "meanings"):
            column = getattr(self, name)
            setattr(self, name, [column[index] for index in kept])

    def line(self, index: int) -> bytes:
        """One line, whole."""
        return self.ids[index] + self.times[index] + self.middles[index] + self.tails[index]

    def cut(self, index: int) -> None:
        """See to it that a line's tail begins where tails begin, if it has any."""
        if not self.tails[index].startswith(EVENT):
            rest = self.middles[index] + self.tails[index]
            place = max(rest.find(EVENT), 0)
            self.middles[index], self.tails[index] = rest[:place], rest[place:]

    def put_aside(self, indexes: set[int]) -> None:
        """Move these lines to the others."""
        if indexes:
            for index in sorted(indexes):
                self.other.append(self.line(index))
            self.keep(index for index in range(len(self.ids)) if index not in indexes)


def columns(data: bytes, tail_at: int) -> Columns:
    """The lines of some whole lines' bytes. ``tail_at``: where most tails are thought to begin.

    Where a tail really begins, ``cut`` sees to; one that is known already begins right.
    """
    lines = io.BytesIO(data).readlines()
    other: list[bytes] = []
    while True:
        ids = [line[:_ID_END] for line in lines]
        times = [line[_ID_END:_HEAD] for line in lines]
        ascending = all(map(le, times, times[1:]))
        if _are_ids(b"".join(ids), len(lines)) and _are_times(times, ascending):
            break
        other += [line for line in lines if not _is_canonical(line)]
        lines = [line for line in lines if _is_canonical(line)]
    return Columns(
        ids,
        times,
        [line[_HEAD:tail_at] for line in lines],
        [line[tail_at:] for line in lines],
        [],
        other,
        ascending and all(map(lt, ids, ids[1:])),
    )


def usual_tail_at(found: Columns) -> int:
    """Where the tails of these lines begin, most of them."""
    lengths = Counter(map(len, found.middles)).most_common(1)
    return _HEAD + lengths[0][0] if lengths else _HEAD


def _is_canonical(line: bytes) -> bool:
    return _LINE.match(line) is not None and _is_date(line[60:70])


def _are_ids(joined: bytes, number: int) -> bool:
    # the d of "id" is a hexadecimal digit too, and must be that one
    return joined[3 :: len(_IDS)] == b"d" * number and joined.translate(_HEX_TO_0) == _IDS_AS_0 * number


def _are_times(times: list[bytes], ascending: bool) -> bool:
    joined = b"".join(times)
    if joined.translate(_DIGITS_TO_0) != _TIMES * len(times):
        return False
    for place in (31, 34):  # tens of minutes and of seconds
        if joined[place :: len(_TIMES)].translate(None, b"012345"):
            return False
    if ascending and times and times[0][17:27] == times[-1][17:27]:
        hours = {times[0][17:30], times[-1][17:30]}  # all the others lie between these two of one day
    else:
        hours = {time[17:30] for time in times}
    return all(hour[11:] <= b"23" and _is_date(hour[:10]) for hour in hours)


def _is_date(text: bytes) -> bool:
    try:
        date(int(text[:4]), int(text[5:7]), int(text[8:10]))
    except ValueError:
        return False
    return True


def session_of(middle: bytes) -> tuple[bool, str | None]:
    """Whether that is a canonical middle, and the session it names."""
    match = _SESSION.fullmatch(middle)
    if match is None:
        return False, None
    return True, match[1].decode() if match[1] is not None else None
