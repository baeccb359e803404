"""From events to figures: pure, in one pass, independent of order, splitting and repetition.

An event id counts once. The first pass adds up every id's first appearance; ids that came back with
other content are set aside and settled in a second pass: of several versions of one event the earlier
by (time, bytes) counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field

from memtally.events import EXPOSURE, USE, RecordSnapshot, UsageEvent, encode_event, is_search_source
from memtally.ledger.seen import SeenEvents

__all__ = ["CLOCK_SKEW", "Filters", "RecordTally", "Span", "Tally", "tally_events"]

Key = tuple[str, str]
CLOCK_SKEW = 86_400 * 1_000_000
"""Microseconds by which a clock may run ahead; a later time has no say in any date."""
UNDATED = -(2**63)
"""Before every time: what an undated event says of a size holds only until a dated one says more."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Which events a report is about. Times are microseconds since the epoch, ``until`` is exclusive."""

    since: int | None = None
    until: int | None = None
    kinds: frozenset[str] | None = None
    sources: frozenset[str] | None = None

    def holds_time(self, stamp: int | None) -> bool:
        """Whether a time lies in the period; an undated event lies in no period but the unlimited one."""
        if self.since is None and self.until is None:
            return True
        if stamp is None:
            return False
        return (self.since is None or stamp >= self.since) and (self.until is None or stamp < self.until)


@dataclass(slots=True)
class Span:
    """A number of events and the dated ones' first and last time."""

    events: int = 0
    first: int | None = None
    last: int | None = None

    def add(self, stamp: int | None) -> None:
        self.events += 1
        if stamp is not None:
            self.first = stamp if self.first is None else min(self.first, stamp)
            self.last = stamp if self.last is None else max(self.last, stamp)


@dataclass(slots=True)
class Latest:
    """The value of the latest event that had one; ties are settled by event id."""

    value: int | None = None
    at: tuple[int, str] = (UNDATED, "")

    def offer(self, value: int | None, at: tuple[int, str]) -> None:
        if value is not None and at >= self.at:
            self.value, self.at = value, at


@dataclass(slots=True)
class RecordTally:
    """The running figures of one record."""

    uses: Span = field(default_factory=Span)
    sources: dict[str, int] = field(default_factory=dict)
    maintenance: int = 0
    exposures: Span = field(default_factory=Span)
    exposure_tokens: int = 0
    unmeasured: int = 0
    file_bytes: Latest = field(default_factory=Latest)
    file_tokens: Latest = field(default_factory=Latest)
    injection_tokens: Latest = field(default_factory=Latest)
    tokenizers: set[str] = field(default_factory=set)
    moments: list[tuple[int, str, str | None]] = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """Everything the events of a log add up to."""

    filters: Filters = field(default_factory=Filters)
    now: int = 0
    aliases: Mapping[Key, Key] = field(default_factory=dict)
    with_sessions: bool = False
    records: dict[Key, RecordTally] = field(default_factory=dict)
    period: Span = field(default_factory=Span)
    sources: dict[str, Span] = field(default_factory=dict)
    sessions: set[str] = field(default_factory=set)
    duplicates: int = 0
    conflicts: int = 0
    searches: int = 0
    unknown: int = 0
    skewed: int = 0
    undated: int = 0
    maintenance: int = 0

    def add(self, event: UsageEvent) -> None:
        """Count one event; the caller sees to it that it is met once."""
        filters, stamp = self.filters, event.occurred_at
        if not filters.holds_time(stamp):
            return
        if event.event not in (USE, EXPOSURE):
            self.unknown += 1
            return
        if event.event == USE and is_search_source(event.source):
            self.searches += 1
            return
        dated: int | None = stamp
        if stamp is None:
            self.undated += 1
        elif stamp > self.now + CLOCK_SKEW:
            self.skewed += 1
            dated = None  # a clock that runs ahead has no say in any date
        self.period.add(dated)
        self.sources.setdefault(event.source, Span()).add(dated)
        if event.actor == "maintenance":
            self.maintenance += 1
        elif event.session_id is not None:
            self.sessions.add(event.session_id)
        if filters.sources is not None and event.source not in filters.sources:
            return
        seen: set[Key] = set()
        for snapshot in event.records:
            key = self.aliases.get(snapshot.key, snapshot.key)
            # two names of one record in one read operation are one read
            if key not in seen and (filters.kinds is None or key[0] in filters.kinds):
                seen.add(key)
                self._add_record(key, snapshot, event, dated)

    def _add_record(self, key: Key, snapshot: RecordSnapshot, event: UsageEvent, dated: int | None) -> None:
        record = self.records.get(key)
        if record is None:
            record = self.records[key] = RecordTally()
        at = (dated if dated is not None else UNDATED, event.id)
        record.file_bytes.offer(snapshot.file_bytes, at)
        record.file_tokens.offer(snapshot.file_tokens_estimate, at)
        cost = snapshot.cost_tokens
        if event.tokenizer is not None and (cost is not None or snapshot.file_tokens_estimate is not None):
            record.tokenizers.add(event.tokenizer)
        if event.event == EXPOSURE:
            record.exposures.add(dated)
            if cost is None:
                record.unmeasured += 1
            else:
                record.exposure_tokens += cost
                record.injection_tokens.offer(cost, at)
        elif event.actor == "maintenance":
            record.maintenance += 1
        else:
            record.uses.add(dated)
            record.sources[event.source] = record.sources.get(event.source, 0) + 1
            if self.with_sessions:
                record.moments.append((dated or 0, event.id, event.session_id))


def tally_events(read: Callable[[], Iterable[UsageEvent]], make: Callable[[], Tally]) -> Tally:
    """Count the events that ``read()`` gives, each id once, into a tally from ``make()``.

    Both are called a second time if one id was met with different contents.
    """
    tally, seen = make(), SeenEvents()
    for event in read():
        met = seen.meet(event)
        if met == "new":
            tally.add(event)
        elif met == "duplicate":
            tally.duplicates += 1
    return _settle(read(), make(), seen.conflicting) if seen.conflicting else tally


def _settle(events: Iterable[UsageEvent], tally: Tally, conflicting: Set[str]) -> Tally:
    """The same with the conflicting ids settled: the earlier version by (time, bytes) counts."""
    seen = SeenEvents()
    earliest: dict[str, tuple[tuple[bool, int, bytes], UsageEvent]] = {}
    for event in events:
        met = seen.meet(event)
        if met == "duplicate":
            tally.duplicates += 1
        elif event.id not in conflicting:
            tally.add(event)
        else:
            tally.conflicts += met == "conflict"
            rank = _rank(event)
            if event.id not in earliest or rank < earliest[event.id][0]:
                earliest[event.id] = (rank, event)
    for _, event in earliest.values():
        tally.add(event)
    return tally


def _rank(event: UsageEvent) -> tuple[bool, int, bytes]:
    # an undated version is later than any dated one
    return (event.occurred_at is None, event.occurred_at or 0, encode_event(event))
