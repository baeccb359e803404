"""From events to figures: pure, in one pass, independent of order, splitting and repetition.

Everything that a log adds up to is kept in cells, one for each record, kind of event, source and
maintenance or not; what a report wants to see is picked from them afterwards (``figures``). Times are
kept as the text that the log holds, RFC 3339 in UTC with six fraction digits: such texts compare like the
times they name, and the empty text stands for none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from memtally.events import EXPOSURE, USE, RecordSnapshot, UsageEvent, format_time, is_search_source
from memtally.ledger.decode import MAX_TIME, MIN_TIME
from memtally.report.calendar import Calendar
from memtally.report.model import Route

__all__ = [
    "CLOCK_SKEW",
    "Cell",
    "CellKey",
    "DayKey",
    "Filters",
    "Latest",
    "RecordTally",
    "Span",
    "Tally",
    "counts_session",
    "is_counted",
    "stamp_of",
]

Key = tuple[str, str]
CellKey = tuple[str, str, str, str, bool]
"""Kind, slug, event, source, whether for maintenance."""
DayKey = tuple[str, str, str, str, bool, str]
"""The same and the day."""
Latest = tuple[str, str, int]
"""Time, event id and value: the latest is the greatest. An undated one holds only until a dated one comes."""

CLOCK_SKEW = 86_400 * 1_000_000
"""Microseconds by which a clock may run ahead; a later time has no say in any date."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Which events a report is about. Times are microseconds since the epoch, ``until`` is exclusive."""

    since: int | None = None
    until: int | None = None
    kinds: frozenset[str] | None = None
    sources: frozenset[str] | None = None

    @property
    def unlimited(self) -> bool:
        """Whether every time lies in the period, also none at all."""
        return self.since is None and self.until is None


class Span(msgspec.Struct, array_like=True):
    """A number of events and the dated ones' first and last time."""

    events: int = 0
    first: str = ""
    last: str = ""

    def add(self, number: int, first: str, last: str) -> None:
        """Add events of which the dated ones lie between two times."""
        self.events += number
        if first and (not self.first or first < self.first):
            self.first = first
        if last > self.last:
            self.last = last

    def join(self, other: Span) -> None:
        """Add what another one holds."""
        self.add(other.events, other.first, other.last)


class Cell(msgspec.Struct, array_like=True):
    """The running figures of one record by one route. ``tokens``: estimated, over the measured exposures."""

    span: Span = msgspec.field(default_factory=Span)
    tokens: int = 0
    unmeasured: int = 0
    file_bytes: Latest | None = None
    file_tokens: Latest | None = None
    injection_tokens: Latest | None = None
    tokenizers: frozenset[str] = frozenset()

    def join(self, other: Cell) -> None:
        """Add what another one holds."""
        self.span.join(other.span)
        self.tokens += other.tokens
        self.unmeasured += other.unmeasured
        self.file_bytes = _later(self.file_bytes, other.file_bytes)
        self.file_tokens = _later(self.file_tokens, other.file_tokens)
        self.injection_tokens = _later(self.injection_tokens, other.injection_tokens)
        self.tokenizers |= other.tokenizers

    def measure(
        self, snapshot: RecordSnapshot, shape: UsageEvent, number: int, last: str, last_id: str
    ) -> None:
        """Add the sizes that so many events give, of which the latest is ``last_id`` at ``last``."""
        cost = snapshot.cost_tokens
        if snapshot.file_bytes is not None:
            self.file_bytes = _later(self.file_bytes, (last, last_id, snapshot.file_bytes))
        if snapshot.file_tokens_estimate is not None:
            self.file_tokens = _later(self.file_tokens, (last, last_id, snapshot.file_tokens_estimate))
        if shape.event == EXPOSURE:
            if cost is None:
                self.unmeasured += number
            else:
                self.tokens += number * cost
                self.injection_tokens = _later(self.injection_tokens, (last, last_id, cost))
        has_figure = cost is not None or snapshot.file_tokens_estimate is not None
        if shape.tokenizer is not None and has_figure and shape.tokenizer not in self.tokenizers:
            self.tokenizers |= {shape.tokenizer}


@dataclass(slots=True)
class RecordTally:
    """The figures of one record, over the cells that a report is about."""

    uses: Span = field(default_factory=Span)
    sources: dict[str, int] = field(default_factory=dict)
    maintenance: int = 0
    exposures: Span = field(default_factory=Span)
    placed: Cell = field(default_factory=Cell)
    every: Cell = field(default_factory=Cell)


@dataclass(slots=True)
class Tally:
    """Everything the events of a log add up to.

    ``now``: microseconds since the epoch. ``aliases``: older names of records. ``period``: only events
    whose time lies in it are counted. ``counted`` says per event, source and maintenance what was.
    ``sessions_before``: how many sessions there are besides those named. ``skewed_from``: the earliest time
    that lies in the future. ``calendar``: counts the events of each cell by day, too, in ``days``; all that
    is added at once must then be of one day.
    """

    now: int = 0
    aliases: Mapping[Key, Key] = field(default_factory=dict)
    period: Filters = field(default_factory=Filters)
    calendar: Calendar | None = None
    cells: dict[CellKey, Cell] = field(default_factory=dict)
    counted: dict[tuple[str, str, bool], Span] = field(default_factory=dict)
    sessions: set[str] = field(default_factory=set)
    sessions_before: int = 0
    duplicates: int = 0
    conflicts: int = 0
    searches: int = 0
    unknown: int = 0
    skewed: int = 0
    skewed_from: str = ""
    undated: int = 0
    days: dict[DayKey, int] = field(default_factory=dict)

    @property
    def horizon(self) -> str:
        """The latest time that is not in the future."""
        return stamp_of(min(self.now + CLOCK_SKEW, MAX_TIME))

    @property
    def bounds(self) -> tuple[str, str]:
        """The period as texts: the first time that lies in it, and the first behind it."""
        since, until = self.period.since, self.period.until
        return "" if since is None else stamp_of(since), "~" if until is None else stamp_of(until)

    def holds(self, stamp: str) -> bool:
        """Whether a time lies in the period; an undated event lies in no period but the unlimited one."""
        if self.period.unlimited:
            return True
        first, end = self.bounds
        return stamp != "" and first <= stamp < end

    def add(self, event: UsageEvent) -> None:
        """Count one event; the caller sees to it that it is met once."""
        stamp = "" if event.occurred_at is None else stamp_of(event.occurred_at)
        if not self.holds(stamp):
            return
        dated = stamp
        if is_counted(event):
            if not stamp:
                self.undated += 1
            elif stamp > self.horizon:
                self.skewed += 1
                self.skewed_from = min(stamp, self.skewed_from or stamp)
                dated = ""  # a clock that runs ahead has no say in any date
            if event.session_id is not None and counts_session(event):
                self.sessions.add(event.session_id)
        self.add_all(event, 1, dated, dated, event.id, stamp)

    def add_all(
        self, shape: UsageEvent, number: int, first: str, last: str, last_id: str, of_day: str | None = None
    ) -> None:
        """Count so many events that differ only in id, time and session.

        Their times lie between ``first`` and ``last``, and the latest of them by (time, id) is ``last_id``.
        ``of_day``: a time of their day, where that is not ``first``.
        """
        if not is_counted(shape):
            if shape.event == USE:
                self.searches += number
            else:
                self.unknown += number
            return
        maintenance = shape.actor == "maintenance"
        route = (shape.event, shape.source, maintenance)
        span = self.counted.get(route)
        if span is None:
            span = self.counted[route] = Span()
        span.add(number, first, last)
        day = "" if self.calendar is None else self.calendar.day(first if of_day is None else of_day)
        seen: set[Key] = set()
        for snapshot in shape.records:
            key = self.aliases.get(snapshot.key, snapshot.key)
            if key not in seen:  # two names of one record in one read operation are one read
                seen.add(key)
                cell = self.cell((*key, *route))
                cell.span.add(number, first, last)
                cell.measure(snapshot, shape, number, last, last_id)
                if day:
                    at = (*key, *route, day)
                    self.days[at] = self.days.get(at, 0) + number

    def cell(self, key: CellKey) -> Cell:
        """The cell of that key, a new one where there is none."""
        found = self.cells.get(key)
        if found is None:
            found = self.cells[key] = Cell()
        return found

    def join(self, other: Tally) -> None:
        """Add what another tally of the same settings has counted of other events."""
        for key, cell in other.cells.items():
            self.cell(key).join(cell)
        for route, span in other.counted.items():
            self.counted.setdefault(route, Span()).join(span)
        self.sessions |= other.sessions
        self.sessions_before += other.sessions_before
        self.duplicates += other.duplicates
        self.conflicts += other.conflicts
        self.searches += other.searches
        self.unknown += other.unknown
        self.skewed += other.skewed
        self.undated += other.undated
        self.skewed_from = min(filter(None, (self.skewed_from, other.skewed_from)), default="")
        for at, number in other.days.items():
            self.days[at] = self.days.get(at, 0) + number

    def take_back(self, again: Tally) -> None:
        """Take back events that were counted here more than once, so often as ``again`` holds them.

        Times, sessions and latest sizes stay: the first of the same events has set the same.
        """
        for key, cell in again.cells.items():
            mine = self.cells[key]
            mine.span.events -= cell.span.events
            mine.tokens -= cell.tokens
            mine.unmeasured -= cell.unmeasured
        for route, span in again.counted.items():
            self.counted[route].events -= span.events
        self.searches -= again.searches
        self.unknown -= again.unknown
        self.skewed -= again.skewed
        self.undated -= again.undated
        for at, number in again.days.items():
            self.days[at] -= number

    # -- what a report picks from it -----------------------------------------------------------------

    @property
    def span(self) -> Span:
        """All that was counted."""
        return _joined(self.counted.values())

    @property
    def sources(self) -> dict[str, Span]:
        """What was counted, by source."""
        names = sorted({source for _, source, _ in self.counted})
        return {
            name: _joined(span for (_, source, _), span in self.counted.items() if source == name)
            for name in names
        }

    @property
    def read_sources(self) -> dict[str, Span]:
        """The reads that count as uses, by source."""
        return {
            source: span
            for (event, source, maintenance), span in sorted(self.counted.items())
            if event == USE and not maintenance and span.events
        }

    @property
    def maintenance(self) -> int:
        """How many of the counted events are maintenance's."""
        return sum(span.events for (_, _, maintenance), span in self.counted.items() if maintenance)

    def figures(
        self, kinds: frozenset[str] | None = None, sources: frozenset[str] | None = None
    ) -> dict[Key, RecordTally]:
        """The figures per record, over these kinds and sources only."""
        found: dict[Key, RecordTally] = {}
        for (kind, slug, event, source, maintenance), cell in self.cells.items():
            if (kinds is not None and kind not in kinds) or (sources is not None and source not in sources):
                continue
            record = found.get((kind, slug))
            if record is None:
                record = found[kind, slug] = RecordTally()
            record.every.join(cell)
            if event == EXPOSURE:
                record.exposures.join(cell.span)
                record.placed.join(cell)
            elif maintenance:
                record.maintenance += cell.span.events
            else:
                record.uses.join(cell.span)
                record.sources[source] = record.sources.get(source, 0) + cell.span.events
        return found

    def history(
        self, kinds: frozenset[str] | None = None, sources: frozenset[str] | None = None
    ) -> dict[Key, dict[str, dict[Route, int]]]:
        """The events of each record by day and route, in order, over these kinds and sources only."""
        found: dict[Key, dict[str, dict[Route, int]]] = {}
        for (kind, slug, event, source, maintenance, day), number in sorted(
            self.days.items(), key=lambda item: (item[0][5], item[0])
        ):
            if (kinds is None or kind in kinds) and (sources is None or source in sources) and number:
                days = found.setdefault((kind, slug), {})
                days.setdefault(day, {})[Route(event, source, maintenance)] = number
        return found


def is_counted(event: UsageEvent) -> bool:
    """Whether such events count: not those of an unknown sort, nor searches that call themselves uses."""
    return event.event == EXPOSURE or (event.event == USE and not is_search_source(event.source))


def counts_session(event: UsageEvent) -> bool:
    """Whether the session of such an event is one in which something was read: not by maintenance."""
    return is_counted(event) and event.actor != "maintenance"


def stamp_of(microseconds: int) -> str:
    """A time as the text that stands for it here; out of the years that can be written, the nearest."""
    return format_time(min(max(microseconds, MIN_TIME), MAX_TIME))


def _later(one: Latest | None, other: Latest | None) -> Latest | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def _joined(spans: Iterable[Span]) -> Span:
    made = Span()
    for span in spans:
        made.join(span)
    return made
