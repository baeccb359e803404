"""Count pieces of logs into a tally, many lines at a time.

A tail (see ``ledger.bulk``) is decoded when it is first met and counted from then on; the times and the
latest id of its events are kept beside it, and go into the tally in the end. Lines that have no canonical
form are decoded one by one. Whether an event was met before is not asked here: ``add`` tells the ids that it
met, and ``report.repeats`` compares them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from memtally.ledger.bulk import (
    FIRST_TAIL_AT,
    TIME_AT,
    Columns,
    id_entry,
    session_of,
    time_entry,
)
from memtally.ledger.decode import SizedTail, decode_tails, shape_of
from memtally.ledger.reader import ReadCounts, read_events
from memtally.report.calendar import Calendar
from memtally.report.fresh import FreshTails
from memtally.report.shapes import Shape, count_shapes
from memtally.report.tally import Tally, stamp_of

__all__ = ["Counted", "PieceCounter"]

_MOST_SHAPES = 16_384
"""Tails kept at a time; a log whose tails all differ must not fill the memory with them."""
_MOST_MIDDLES = 4_096
_FEW = 64
_PAUSE = 64
"""Pieces for which no tail is looked up after one in which most of them were new."""


class Counted(NamedTuple):
    """The ids of the events that a piece held, and the times between which its dated events lie.

    ``ids``: those of canonical lines (see ``ID_AT``); in order, no two alike, where ``ascending``; all
    of version 7 where ``timed``. ``odd``: whether there were lines of another form.
    """

    ids: list[bytes]
    ascending: bool
    timed: bool
    others: list[str]
    odd: bool
    first: str
    last: str


class PieceCounter:
    """Counts into one tally; ``finish`` when all is added. ``left_out``: ids of events not to be counted."""

    def __init__(self, tally: Tally, left_out: frozenset[str] = frozenset()) -> None:
        self.tally = tally
        self.counts = ReadCounts()
        self._left_out = left_out
        self._left_out_ids = set(map(id_entry, left_out))
        self._shapes: dict[bytes, Shape] = {}
        self._middles: dict[bytes, str | None] = {}
        self._met: set[bytes] = set()
        self._tail_at = FIRST_TAIL_AT
        self._fresh = FreshTails(tally)
        self._pause = 0
        since, until = tally.bounds
        self._since, self._until, self._horizon = (
            time_entry(bound) for bound in (since, until, tally.horizon + "~")
        )

    def add(self, piece: bytes) -> Counted:
        """Count whole lines; what they held."""
        found = Columns(piece, self._tail_at)
        self._look_up(found)
        ids, ascending, timed = found.ids, found.ascending, found.timed
        found.order()
        times = [found.times[0][TIME_AT].decode(), found.times[-1][TIME_AT].decode()] if ids else []
        self._narrow(found)
        self._count(found)
        others = []
        for event in read_events((line.rstrip(b"\n") for line in found.other), self.counts):
            others.append(event.id)
            if event.occurred_at is not None:
                times.append(stamp_of(event.occurred_at))
            if event.id not in self._left_out:
                self.tally.add(event)
        return Counted(
            ids,
            ascending,
            timed,
            others,
            bool(found.other),
            min(times, default=""),
            max(times, default=""),
        )

    def finish(self) -> None:
        """Put all that was counted into the tally."""
        self._forget(keep=set())
        self._fresh.finish()

    def _forget(self, keep: set[bytes]) -> None:
        for tail in self._shapes.keys() - keep:
            self._shapes.pop(tail).put_into(self.tally)

    def _look_up(self, found: Columns) -> None:
        """Find out what tails and middles mean; lines where one of them is strange go to the others."""
        strange: set[int] = set()
        self._fresh.looked_up = False
        if self._pause:
            self._pause -= 1
            self._fresh.look_up(found)
        else:
            found.meanings = list(map(self._shapes.get, found.tails))
        if None in found.meanings:
            strange = self._learn(found)
        self._met = set(found.middles)
        new = self._met.difference(self._middles)
        if new:
            strange |= self._learn_middles(found, new)
        if strange:
            found.put_aside(strange)
            self._met = set(found.middles)

    def _learn(self, found: Columns) -> set[int]:
        """Decode the tails that are not known yet; the lines in which there is none."""
        unknown = self._cut_unknown(found)
        new = set(map(found.tail, unknown)).difference(self._shapes)
        if 2 * len(new) > len(found.lines) > _FEW and not (
            self._pause or self.tally.aliases or self.tally.calendar
        ):
            self._pause = _PAUSE
            self._fresh.look_up(found)
            unknown = self._cut_unknown(found)
            new = set(map(found.tail, unknown)).difference(self._shapes)
        if len(self._shapes) + len(new) > _MOST_SHAPES:
            self._forget(keep=set(found.tails))
        listed = list(new)
        for tail, decoded in zip(listed, decode_tails(listed), strict=True):
            if decoded is not None:
                self._shapes[tail] = Shape(shape_of(decoded))
        for index in unknown:
            found.meanings[index] = self._shapes.get(found.tail(index))
        return {index for index in unknown if found.meanings[index] is None}

    def _cut_unknown(self, found: Columns) -> list[int]:
        unknown = [index for index, meaning in enumerate(found.meanings) if meaning is None]
        found.cut(unknown)
        if 2 * len(unknown) > len(found.lines):
            self._tail_at = found.usual_tail_at
        return unknown

    def _learn_middles(self, found: Columns, new: set[bytes]) -> set[int]:
        if len(self._middles) > _MOST_MIDDLES:
            self._middles.clear()
            new = self._met
        strange = set()
        for middle in new:
            canonical, session = session_of(middle)
            if canonical:
                self._middles[middle] = session
            else:
                strange.add(middle)
        return {i for i, middle in enumerate(found.middles) if middle in strange} if strange else set()

    def _narrow(self, found: Columns) -> None:
        """Leave out what is not to be counted, and give what lies in the future to the tally one by one."""
        number = len(found.ids)
        if self._left_out_ids and not self._left_out_ids.isdisjoint(found.ids):
            found.keep(i for i, event_id in enumerate(found.ids) if event_id not in self._left_out_ids)
        if not self.tally.period.unlimited:
            first, end = bisect_left(found.times, self._since), bisect_left(found.times, self._until)
            found.keep(range(first, end))
        if found.times and found.times[-1] > self._horizon:
            future = bisect_left(found.times, self._horizon)
            lines = (line.rstrip(b"\n") for line in found.lines[future:])
            for event in read_events(lines, ReadCounts()):
                self.tally.add(event)
            found.keep(range(future))
        if len(found.ids) < number:
            self._met = set(found.middles)

    def _count(self, found: Columns) -> None:
        apart: set[int] = set()  # lines that do not count for sessions
        if self._fresh.looked_up:
            sized: list[int] = []
            shaped: list[int] = []
            for index, meaning in enumerate(found.meanings):
                (sized if type(meaning) is SizedTail else shaped).append(index)
            apart = self._fresh.add(found, sized) | (count_shapes(found, shaped) if shaped else set())
        elif self.tally.calendar is not None:
            for lines in _days_of(found.times, self.tally.calendar):
                apart |= count_shapes(found, lines)
                for shape in {found.meanings[line] for line in lines}:
                    shape.put_into(self.tally)
        elif found.ids:
            apart = count_shapes(found)
        met = self._met
        if apart:
            met = {middle for index, middle in enumerate(found.middles) if index not in apart}
        self.tally.sessions.update(filter(None, map(self._middles.__getitem__, met)))


def _days_of(times: list[bytes], calendar: Calendar) -> Iterator[list[int]]:
    """The lines of each day among some in the order of their times; a day may come in several parts."""
    start = 0
    while start < len(times):
        day = calendar.day(times[start][TIME_AT].decode())
        end = calendar.end(day)
        stop = bisect_left(times, time_entry(end), start) if end else start + 1
        yield list(range(start, stop))
        start = stop
