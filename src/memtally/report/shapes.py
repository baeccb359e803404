"""What recurs in a log, line after line, counted without looking at each line."""

from __future__ import annotations

from collections import Counter

from memtally.events import RecordSnapshot, UsageEvent
from memtally.ledger.bulk import ID_AT, TIME_AT, Columns
from memtally.ledger.decode import decode_sized_tails
from memtally.report.tally import Tally, counts_session

__all__ = ["Shape", "count_shapes"]


class Shape:
    """Events that share their tail, or all of it but sizes of which only the latest matter.

    ``last`` and ``last_id`` are the latest event's columns' entries, ``tail`` is its tail where its sizes are
    asked for; ``first`` is the earliest one's.
    """

    __slots__ = ("counts_session", "event", "events", "first", "last", "last_id", "sized", "tail")

    def __init__(self, event: UsageEvent, *, sized: bool = False) -> None:
        self.event = event
        self.sized = sized
        self.counts_session = counts_session(event)
        self.events = 0
        self.first = self.last = self.last_id = self.tail = b""

    def put_into(self, tally: Tally) -> None:
        """Add what was counted to a tally, and begin anew."""
        if not self.events:
            return
        if self.sized:
            [latest] = decode_sized_tails([self.tail])
            self.event.records = tuple(
                RecordSnapshot(one.kind, one.slug, one.file_bytes, one.file_tokens_estimate)
                for one in (latest.records if latest is not None else ())
            )
        first, last, last_id = self.first[TIME_AT], self.last[TIME_AT], self.last_id[ID_AT]
        tally.add_all(self.event, self.events, first.decode(), last.decode(), last_id.decode())
        self.events = 0
        self.first = self.last = self.last_id = self.tail = b""


def count_shapes(found: Columns, indexes: list[int] | None = None) -> set[int]:
    """Count lines (all, or these) in the order of (time, id); the indexes of what counts for no session."""
    shapes = found.meanings if indexes is None else [found.meanings[index] for index in indexes]
    places = range(len(shapes)) if indexes is None else indexes
    numbers: Counter[Shape] = Counter(shapes)
    latest = dict(zip(shapes, places, strict=True))
    ids, times = found.ids, found.times
    earlier = []
    for shape, number in numbers.items():
        shape.events += number
        at = latest[shape]
        time = times[at]
        if time > shape.last or (time == shape.last and ids[at] > shape.last_id):
            shape.last, shape.last_id = time, ids[at]
            if shape.sized:
                shape.tail = found.tail(at)
        if not shape.first or times[0] < shape.first:
            earlier.append(shape)
    if earlier:
        first = dict(zip(reversed(shapes), reversed(places), strict=True))
        for shape in earlier:
            time = times[first[shape]]
            if not shape.first or time < shape.first:
                shape.first = time
    if all(shape.counts_session for shape in numbers):
        return set()
    return {at for at, shape in zip(places, shapes, strict=True) if not shape.counts_session}
