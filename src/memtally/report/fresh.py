"""Count events whose tails do not recur, because the records' sizes change all the time.

A use of one record is known by its tail without the two sizes, of which only the latest matter. Other events
are decoded, and grouped by route and record without an object for each. Only the most frequent form of
an event is taken here (``SizedTail``); the caller sees to the rest.
"""

from __future__ import annotations

import re

from memtally.events import EXPOSURE, USE, RecordSnapshot, UsageEvent
from memtally.ledger.bulk import ID_AT, TIME_AT, Columns
from memtally.ledger.decode import SizedRecord, SizedTail, Tail, decode_sized_tails, shape_of
from memtally.report.shapes import Shape
from memtally.report.tally import Span, Tally, is_counted

__all__ = ["FreshTails"]

_SIZES = b'"file_bytes":'
_REST = re.compile(_SIZES + rb'(?:0|[1-9]\d{0,17}),"file_tokens_estimate":(?:0|[1-9]\d{0,17})\}\]\}\n')
_MOST_SINGLES = 16_384


class _Route:
    """Events that share all but their records, and the records met by it."""

    __slots__ = ("counts_session", "records", "shape", "span")

    def __init__(self, shape: UsageEvent) -> None:
        self.shape = shape
        self.counts_session = is_counted(shape) and shape.actor != "maintenance"
        self.span = Span()
        self.records: dict[tuple[str, str], _Record] = {}

    def add(self, event_id: bytes, time: bytes, tail: SizedTail) -> None:
        stamp = time[TIME_AT].decode()
        self.span.add(1, stamp, stamp)
        records = self.records
        for record in tail.records:
            key = (record.kind, record.slug)
            kept = records.get(key)
            if kept is None:
                kept = records[key] = _Record(time)
            kept.events += 1
            kept.tokens += record.file_tokens_estimate
            if time > kept.last or (time == kept.last and event_id > kept.last_id):
                kept.last, kept.last_id, kept.latest = time, event_id, record
            if time < kept.first:
                kept.first = time


class _Record:
    """One record by one route: how often, the first time, the latest figures, the sum of tokens."""

    __slots__ = ("events", "first", "last", "last_id", "latest", "tokens")

    def __init__(self, first: bytes) -> None:
        self.events = self.tokens = 0
        self.first = first
        self.last = self.last_id = b""
        self.latest: SizedRecord | None = None


class FreshTails:
    """Counts into one tally; ``finish`` when all is added."""

    def __init__(self, tally: Tally) -> None:
        self.looked_up = False
        self._tally = tally
        self._singles: dict[bytes, Shape] = {}
        self._routes: dict[tuple[str, str, str | None], _Route] = {}

    def look_up(self, found: Columns) -> None:
        """Fill in the meanings: a ``Shape``, a ``SizedTail``, or ``None`` for a tail of another form."""
        self.looked_up = True
        if len(self._singles) > _MOST_SINGLES:
            self._forget_singles()  # here, where none of them is in the middle of being counted
        tails = list(found.tails)
        bare = [tail[: tail.rfind(_SIZES)] for tail in tails]
        found.meanings = list(map(self._singles.get, bare))
        sure = map(_REST.fullmatch, tails, map(len, bare))
        found.meanings = [m if s else None for m, s in zip(found.meanings, sure, strict=True)]
        unknown = [index for index, meaning in enumerate(found.meanings) if meaning is None]
        found.cut(unknown)
        for index, decoded in zip(unknown, _decoded(list(map(found.tail, unknown))), strict=True):
            if decoded is not None and self._takes(decoded):
                single = decoded.event == USE and len(decoded.records) == 1
                found.meanings[index] = self._new_single(found.tail(index), decoded) if single else decoded

    def _takes(self, tail: SizedTail) -> bool:
        """Whether an event needs no closer look: a name in another form, a record twice, an alias."""
        names = {(record.kind, record.slug) for record in tail.records}
        return (
            not self._tally.aliases
            and len(names) == len(tail.records) > 0
            and all(kind.isascii() and slug.isascii() for kind, slug in names)
        )

    def _new_single(self, tail: bytes, decoded: SizedTail) -> Shape | SizedTail:
        name = tail[: tail.rfind(_SIZES)]
        if not _REST.fullmatch(tail, len(name)):
            return decoded  # the same in another order, say
        if name not in self._singles:
            self._singles[name] = Shape(_shape(decoded), sized=True)
        return self._singles[name]

    def add(self, found: Columns, indexes: list[int]) -> set[int]:
        """Count these lines, in the order of (time, id); those of them that count for no session."""
        apart: set[int] = set()
        for index in indexes:
            tail = found.meanings[index]
            route = self._routes.get((tail.event, tail.source, tail.tokenizer))
            if route is None:
                route = self._routes[tail.event, tail.source, tail.tokenizer] = _Route(_shape(tail))
            if not route.counts_session:
                apart.add(index)
            route.add(found.ids[index], found.times[index], tail)
        return apart

    def finish(self) -> None:
        """Put all that was counted into the tally."""
        self._forget_singles()
        for route in self._routes.values():
            _put(route, self._tally)
        self._routes.clear()

    def _forget_singles(self) -> None:
        for shape in self._singles.values():
            shape.put_into(self._tally)
        self._singles.clear()


def _shape(tail: SizedTail) -> UsageEvent:
    """What the events of one route share: all but the records."""
    return shape_of(Tail(tail.event, tail.source, None, None, tail.tokenizer))


def _decoded(tails: list[bytes]) -> list[SizedTail | None]:
    try:
        return list(decode_sized_tails(tails))
    except ValueError:  # one of them is of another form
        return [_decoded_alone(tail) for tail in tails]


def _decoded_alone(tail: bytes) -> SizedTail | None:
    try:
        return decode_sized_tails([tail])[0]
    except ValueError:
        return None


def _put(route: _Route, tally: Tally) -> None:
    tally.add_all(route.shape, route.span.events, route.span.first, route.span.last, "")
    if not is_counted(route.shape):
        return
    key = (route.shape.event, route.shape.source, route.shape.actor == "maintenance")
    for (kind, slug), record in route.records.items():
        assert record.latest is not None
        size, tokens = record.latest.file_bytes, record.latest.file_tokens_estimate
        last, last_id = record.last[TIME_AT].decode(), record.last_id[ID_AT].decode()
        cell = tally.cell((kind, slug, *key))
        cell.span.add(record.events, record.first[TIME_AT].decode(), last)
        cell.measure(RecordSnapshot(kind, slug, size, tokens), route.shape, record.events, last, last_id)
        if route.shape.event == EXPOSURE:  # not every one of them cost what the latest did
            cell.tokens += record.tokens - record.events * tokens
