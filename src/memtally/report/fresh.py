"""Count events whose tails do not recur, because the records' sizes change all the time.

A use of one record is known by its tail without the two sizes, of which only the latest matter. Other events
are decoded, and grouped by route and record without an object for each. Only the most frequent form of
an event is taken here (``SizedTail``); the caller sees to the rest.
"""

from __future__ import annotations

import re

from memtally.events import EXPOSURE, USE, RecordSnapshot, UsageEvent
from memtally.ledger.bulk import ID_AT, TIME_AT, Columns
from memtally.ledger.decode import KnownRecord, SizedRecord, SizedTail, Tail, decode_sized_tails, shape_of
from memtally.report.shapes import Shape
from memtally.report.tally import Cell, Span, Tally, counts_session, is_counted

__all__ = ["FreshTails"]

_SIZES = b'"file_bytes":'
_REST = re.compile(_SIZES + rb'(?:0|[1-9]\d{0,17}),"file_tokens_estimate":(?:0|[1-9]\d{0,17})\}\]\}\n')
_MOST_SINGLES = 16_384
_MOST_RESTS = 32_768


class _Met:
    """One record by one route in one piece: how often, the tokens, and the lines of the first and latest."""

    __slots__ = ("events", "first", "latest", "line", "tokens")

    def __init__(self, line: int, latest: SizedRecord) -> None:
        self.events = self.tokens = 0
        self.first = line
        self.line = -1
        self.latest = latest


class _Route:
    """Events that share all but their records, and the records met by it."""

    __slots__ = ("cells", "counts_session", "shape", "span")

    def __init__(self, shape: UsageEvent) -> None:
        self.shape = shape
        self.counts_session = counts_session(shape)
        self.span = Span()
        self.cells: dict[tuple[str, str], Cell] = {}

    def add(self, found: Columns, lines: list[int]) -> list[int]:
        """Count these lines, in the order of (time, id); which of them need a closer look."""
        met: dict[tuple[str, str], _Met] = {}
        odd: list[int] = []
        for line in lines:
            records = found.meanings[line].records
            for done, record in enumerate(records):  # noqa: B007 - how far it came is needed below
                one = met.get((record.kind, record.slug))
                if one is None:
                    if not (record.kind.isascii() and record.slug.isascii()):
                        break  # the name may have another form
                    one = met[record.kind, record.slug] = _Met(line, record)
                if one.line == line:
                    break  # twice in one event
                one.events += 1
                one.tokens += record.file_tokens_estimate
                one.latest = record
                one.line = line
            else:
                continue
            odd.append(line)
            for record in records[:done]:
                met[record.kind, record.slug].events -= 1
                met[record.kind, record.slug].tokens -= record.file_tokens_estimate
        plain = len(lines) - len(odd)
        self.span.add(plain, _stamp(found.times[lines[0]]), _stamp(found.times[lines[-1]]))
        for key, one in met.items():
            if one.line >= 0:
                self._put(key, one, found)
        return odd

    def _put(self, key: tuple[str, str], one: _Met, found: Columns) -> None:
        last, last_id = _stamp(found.times[one.line]), found.ids[one.line][ID_AT].decode()
        size, tokens = one.latest.file_bytes, one.latest.file_tokens_estimate
        cell = self.cells.get(key)
        if cell is None:
            cell = self.cells[key] = Cell()
        cell.span.add(one.events, _stamp(found.times[one.first]), last)
        cell.measure(RecordSnapshot(*key, size, tokens), self.shape, one.events, last, last_id)
        if self.shape.event == EXPOSURE:  # not every one of them cost what the latest did
            cell.tokens += one.tokens - one.events * tokens


class FreshTails:
    """Counts into one tally, which must have no aliases; ``finish`` when all is added."""

    def __init__(self, tally: Tally) -> None:
        self.looked_up = False
        self._tally = tally
        self._singles: dict[bytes, Shape] = {}
        self._rests: set[bytes] = set()
        self._routes: dict[tuple[str, str, str | None], _Route] = {}

    def look_up(self, found: Columns) -> None:
        """Fill in the meanings: a ``Shape``, a ``SizedTail``, or ``None`` for a tail of another form."""
        self.looked_up = True
        if len(self._singles) > _MOST_SINGLES:
            self._forget_singles()  # here, where none of them is in the middle of being counted
        ends = [line.rfind(_SIZES) for line in found.lines]
        names = found.tails_up_to(ends)
        rests = [line[end:] for line, end in zip(found.lines, ends, strict=True)]
        found.meanings = list(map(self._singles.get, names))
        strange = self._strange(set(rests))
        if strange:
            pairs = zip(found.meanings, rests, strict=True)
            found.meanings = [None if rest in strange else meaning for meaning, rest in pairs]
        unknown = [index for index, meaning in enumerate(found.meanings) if meaning is None]
        found.cut(unknown)
        for index, decoded in zip(unknown, decode_sized_tails(list(map(found.tail, unknown))), strict=True):
            if decoded is not None:
                single = decoded.event == USE and len(decoded.records) == 1
                found.meanings[index] = self._single(found.tail(index), decoded) if single else decoded

    def _strange(self, rests: set[bytes]) -> set[bytes]:
        """Those of the tails' ends that do not have the form of two sizes."""
        rests -= self._rests
        good = set(filter(_REST.fullmatch, rests))
        if len(self._rests) > _MOST_RESTS:
            self._rests.clear()
        self._rests |= good
        return rests - good

    def _single(self, tail: bytes, decoded: SizedTail) -> Shape | None:
        name = tail[: tail.rfind(_SIZES)]
        [record] = decoded.records
        if not (_REST.fullmatch(tail, len(name)) and record.kind.isascii() and record.slug.isascii()):
            return None  # the same in another order, say, or a name that may have another form
        if name not in self._singles:
            self._singles[name] = Shape(_shape(decoded), sized=True)
        return self._singles[name]

    def add(self, found: Columns, lines: list[int]) -> set[int]:
        """Count these lines, in the order of (time, id); those of them that count for no session."""
        by_route: dict[tuple[str, str, str | None], list[int]] = {}
        for line in lines:
            tail = found.meanings[line]
            by_route.setdefault((tail.event, tail.source, tail.tokenizer), []).append(line)
        apart: set[int] = set()
        for key, mine in by_route.items():
            route = self._routes.get(key)
            if route is None:
                route = self._routes[key] = _Route(_shape(found.meanings[mine[0]]))
            for line in route.add(found, mine):
                event, stamp = _event(found.meanings[line]), _stamp(found.times[line])
                self._tally.add_all(event, 1, stamp, stamp, found.ids[line][ID_AT].decode())
            if not route.counts_session:
                apart.update(mine)
        return apart

    def finish(self) -> None:
        """Put all that was counted into the tally."""
        self._forget_singles()
        for route in self._routes.values():
            shape = route.shape
            self._tally.add_all(shape, route.span.events, route.span.first, route.span.last, "")
            if is_counted(shape):
                for (kind, slug), cell in route.cells.items():
                    key = (kind, slug, shape.event, shape.source, shape.actor == "maintenance")
                    self._tally.cell(key).join(cell)
        self._routes.clear()

    def _forget_singles(self) -> None:
        for shape in self._singles.values():
            shape.put_into(self._tally)
        self._singles.clear()


def _stamp(time: bytes) -> str:
    return time[TIME_AT].decode()


def _shape(tail: SizedTail) -> UsageEvent:
    """What the events of one route share: all but the records."""
    return shape_of(Tail(tail.event, tail.source, None, None, tail.tokenizer))


def _event(tail: SizedTail) -> UsageEvent:
    """The same with the records."""
    records = [
        KnownRecord(one.kind, one.slug, one.file_bytes, one.file_tokens_estimate) for one in tail.records
    ]
    return shape_of(Tail(tail.event, tail.source, None, None, tail.tokenizer, records))
