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
from collections.abc import Iterable, Iterator
from datetime import date
from operator import itemgetter, le, lt
from typing import Any

__all__ = ["FIRST_TAIL_AT", "ID_AT", "TIME_AT", "Columns", "id_entry", "is_timed", "session_of", "time_entry"]

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

_VERSION_AT = 21
_take_id = itemgetter(slice(_ID_END))
_take_time = itemgetter(slice(_ID_END, _HEAD))

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


class Columns:
    """Canonical lines taken apart, column by column, and all ``other`` lines as they are.

    ``ids`` and ``times`` hold a little more than that (see ``ID_AT``, ``TIME_AT``), always the same, so that
    they compare like what they name. ``ascending``: whether both go up, no id twice; ``timed``: whether all
    ids are of version 7. ``meanings``: for who reads the tails to fill in. Middles (session, trace, input
    tokens) and tails are cut out when they are asked for, most of them at the same place in every line.
    """

    def __init__(self, data: bytes, tail_at: int) -> None:
        """``data``: whole lines. ``tail_at``: where most tails are thought to begin; ``cut`` finds others."""
        lines = io.BytesIO(data).readlines()
        self.other: list[bytes] = []
        while True:
            ids, times = list(map(_take_id, lines)), list(map(_take_time, lines))
            joined = b"".join(ids)
            times_ascend = all(map(le, times, times[1:]))
            if _are_ids(joined, len(lines)) and _are_times(times, times_ascend):
                break
            self.other += [line for line in lines if not _is_canonical(line)]
            lines = [line for line in lines if _is_canonical(line)]
        self.lines, self.ids, self.times = lines, ids, times
        self.ascending = times_ascend and all(map(lt, ids, ids[1:]))
        self.timed = not joined[_VERSION_AT :: len(_IDS)].strip(b"7")
        self.meanings: list[Any] = []
        self._tail_at = tail_at
        self._places: list[int] | None = None

    @property
    def tails(self) -> Iterator[bytes]:
        """The tails, line by line."""
        if self._places is None:
            return map(itemgetter(slice(self._tail_at, None)), self.lines)
        return (line[place:] for line, place in zip(self.lines, self._places, strict=True))

    @property
    def middles(self) -> Iterator[bytes]:
        """The middles, line by line."""
        if self._places is None:
            return map(itemgetter(slice(_HEAD, self._tail_at)), self.lines)
        return (line[_HEAD:place] for line, place in zip(self.lines, self._places, strict=True))

    def tails_up_to(self, ends: list[int]) -> list[bytes]:
        """The beginnings of the tails, up to a place in each line."""
        if self._places is None:
            at = self._tail_at
            return [line[at:end] for line, end in zip(self.lines, ends, strict=True)]
        return [line[at:end] for line, at, end in zip(self.lines, self._places, ends, strict=True)]

    def tail(self, index: int) -> bytes:
        """One line's tail."""
        return self.lines[index][self._tail_at if self._places is None else self._places[index] :]

    def cut(self, indexes: Iterable[int]) -> None:
        """See to it that these lines' tails begin where they do; a line without one has an empty tail."""
        places = self._places or [self._tail_at] * len(self.lines)
        for index in indexes:
            line = self.lines[index]
            if not line.startswith(EVENT, places[index]):
                place = line.find(EVENT, _HEAD)
                places[index] = place if place > 0 else len(line)
                self._places = places

    @property
    def usual_tail_at(self) -> int:
        """Where most of the tails begin."""
        if self._places is None:
            return self._tail_at
        return Counter(self._places).most_common(1)[0][0]

    def order(self) -> None:
        """Put the lines in the order of (time, id)."""
        if not self.ascending:
            keys = list(zip(self.times, self.ids, strict=True))
            self.keep(sorted(range(len(keys)), key=keys.__getitem__))

    def keep(self, indexes: Iterable[int]) -> None:
        """Go on with these lines only, in this order."""
        kept = list(indexes)
        for name in ("lines", "ids", "times", "meanings", "_places"):
            column = getattr(self, name)
            if column is not None:
                setattr(self, name, [column[index] for index in kept])

    def put_aside(self, indexes: set[int]) -> None:
        """Move these lines to the others."""
        self.other += [self.lines[index] for index in sorted(indexes)]
        self.keep(index for index in range(len(self.ids)) if index not in indexes)


def id_entry(event_id: str) -> bytes:
    """What an ``ids`` column holds for an id."""
    return _IDS[: ID_AT.start] + event_id.encode()


def time_entry(stamp: str) -> bytes:
    """What a ``times`` column holds for a time, up to its end."""
    return _TIMES[: TIME_AT.start] + stamp.encode()


def is_timed(entry: bytes) -> bool:
    """Whether an ``ids`` column's entry holds a version 7 UUID."""
    return entry[_VERSION_AT] == ord("7")


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
