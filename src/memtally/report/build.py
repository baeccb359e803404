"""Build a report: read the logs, add them up, join the inventory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from memtally.config import Config
from memtally.errors import InvalidValueError
from memtally.inventory import Inventory, InventoryRecord, scan
from memtally.ledger.decode import MAX_TIME, MIN_TIME
from memtally.ledger.reader import OpenLogs, ReadCounts, open_logs, open_segments
from memtally.report.bulk import count, whole
from memtally.report.calendar import Calendar
from memtally.report.model import Coverage, InventoryState, LogState, RecordUsage, SourceCoverage, UsageReport
from memtally.report.resuming import count_on
from memtally.report.sessions import SessionCounts, count_sessions
from memtally.report.tally import Cell, Filters, Latest, RecordTally, Span, Tally
from memtally.workspace import Workspace, find_workspace

__all__ = ["LogSource", "build_report", "microseconds", "moment", "open_source", "report_of"]

Key = tuple[str, str]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def build_report(
    workspace: str | os.PathLike[str] | None = None,
    *,
    logs: Iterable[str | os.PathLike[str]] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    kinds: Iterable[str] | None = None,
    sources: Iterable[str] | None = None,
    sessions: bool = False,
    now: datetime | None = None,
    processes: int = 1,
    checkpoint: bool = True,
    history: tzinfo | None = None,
) -> UsageReport:
    """The figures per record, from a workspace's usage log or from explicit ``logs``.

    ``since`` (inclusive) and ``until`` (exclusive) limit the period; naive times are UTC. ``kinds``
    and ``sources`` limit what is counted per record. ``sessions``: also count sessions and coalesced
    uses per record, which takes memory for each use. ``now``: the time the report is made for.
    ``processes``: how many may share the work on a large log; others than this one are forked, unless this
    one has several threads. ``checkpoint``: whether what was counted is kept in ``.memtally/cache/``, so that
    the next report of the workspace's own log counts only what is new; the figures are the same.
    ``history``: also count the events of each record by day of this zone, over the whole log.

    Explicit logs are joined with the inventory of an explicit ``workspace`` only. A workspace without a
    log gives an empty report whose coverage says so. Raises ``LogReadError`` for an explicit log that is
    missing or unreadable, ``WorkspaceError`` and ``ConfigError`` for theirs.
    """
    filters = Filters(
        since=None if since is None else microseconds(since),
        until=None if until is None else microseconds(until),
        kinds=None if kinds is None else frozenset(_listed("kinds", kinds)),
        sources=None if sources is None else frozenset(_listed("sources", sources)),
    )
    with open_source(workspace, logs) as source:
        return report_of(
            source,
            filters,
            sessions=sessions,
            now=now,
            processes=processes,
            checkpoint=checkpoint,
            history=history,
        )


def report_of(
    source: LogSource,
    filters: Filters,
    *,
    sessions: bool = False,
    now: datetime | None = None,
    join: bool = True,
    processes: int = 1,
    checkpoint: bool = True,
    history: tzinfo | None = None,
) -> UsageReport:
    """The report over an open source; see ``build_report``. ``join=False``: without the inventory."""
    moment_now = _aware(now) if now is not None else datetime.now(UTC)
    config = source.config
    calendar = None if history is None else Calendar(history)

    def make() -> Tally:
        return Tally(now=microseconds(moment_now), aliases=config.aliases, period=filters, calendar=calendar)

    # a checkpoint holds no days: they are of one zone
    if source.place is not None and source.own and checkpoint and calendar is None:
        path, root = str(source.place.checkpoint_path), str(source.place.root)
        survey = count_on(source.logs, make, path, root, processes)
    else:
        survey = count(source.logs, whole(source.logs), make, processes)
    tallied = survey.tally.figures(filters.kinds, filters.sources)
    counted = count_sessions(source.logs, make(), filters) if sessions else None
    inventory = (
        scan(source.place, config, now=moment_now.timestamp()) if source.place and join else Inventory()
    )
    found = {k: r for k, r in inventory.records.items() if filters.kinds is None or k[0] in filters.kinds}
    # of what the inventory does not reach, nothing is called missing: neither kinds whose records live
    # elsewhere too, nor kinds of a preset whose patterns match no file at all
    covered = config.stated_kinds | ({kind for kind, _ in inventory.records} - config.open_kinds)
    return UsageReport(
        records=tuple(
            _usage(
                key,
                tallied.get(key),
                found.get(key),
                inventory.complete and key[0] in covered,
                None if counted is None else counted.get(key, SessionCounts()),
            )
            for key in sorted(tallied.keys() | found.keys())
        ),
        coverage=_coverage(survey.tally, survey.counts, source, inventory.complete),
        generated_at=moment_now,
        limited=filters.sources is not None,
        whole=filters.unlimited,
        aliases=config.aliases,
        history=None if calendar is None else survey.tally.history(filters.kinds, filters.sources),
    )


@dataclass(slots=True)
class LogSource:
    """What a report is read from. ``own``: the workspace's log. Use it as a context manager."""

    place: Workspace | None
    config: Config
    logs: OpenLogs
    own: bool = False

    def __enter__(self) -> LogSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.logs.__exit__()


def open_source(
    workspace: str | os.PathLike[str] | None, logs: Iterable[str | os.PathLike[str]] | None
) -> LogSource:
    """The logs of a workspace, or explicit ones; these are joined with an explicit workspace only."""
    if isinstance(logs, (str, os.PathLike)):
        raise InvalidValueError("logs", logs, "logs= is a list of files", "pass [path]")
    if logs is not None and workspace is None:
        # somebody else's log says nothing about the records of the folder we happen to stand in
        return LogSource(None, Config(), open_logs(logs))
    place = find_workspace(workspace)
    config = place.config()
    if logs is None:
        return LogSource(place, config, open_segments(place.logs), own=True)
    return LogSource(place, config, open_logs(logs))


def _listed(name: str, values: Iterable[str]) -> list[str]:
    if isinstance(values, str):
        raise InvalidValueError(name, values, f"{name}= is a list", f'pass ["{values}"]')
    return list(values)


def _aware(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def microseconds(value: datetime) -> int:
    """A datetime as microseconds since the epoch; a naive one is UTC."""
    return (_aware(value) - _EPOCH) // timedelta(microseconds=1)


def moment(microseconds: int | None) -> datetime | None:
    """Microseconds since the epoch as an aware datetime; out of a datetime's range, its nearest end."""
    if microseconds is None:
        return None
    return _EPOCH + timedelta(microseconds=min(max(microseconds, MIN_TIME), MAX_TIME))


def _usage(
    key: Key,
    tally: RecordTally | None,
    found: InventoryRecord | None,
    covered: bool,
    sessions: SessionCounts | None,
) -> RecordUsage:
    tally = tally or RecordTally()
    figures = tally.every
    measured = tally.exposures.events - figures.unmeasured
    return RecordUsage(
        kind=key[0],
        slug=key[1],
        use_count=tally.uses.events,
        last_used_at=_moment_of(tally.uses.last),
        source_breakdown=dict(sorted(tally.sources.items())),
        resident_exposure_count=tally.exposures.events,
        estimated_tokens_per_injection=_value(figures.injection_tokens),
        estimated_total_resident_exposure_tokens=figures.tokens,
        file_bytes=_value(figures.file_bytes),
        file_tokens_estimate=_value(figures.file_tokens),
        first_used_at=_moment_of(tally.uses.first),
        maintenance_use_count=tally.maintenance,
        last_exposed_at=_moment_of(tally.exposures.last),
        mean_tokens_per_injection=figures.tokens / measured if measured else None,
        unmeasured_exposure_count=figures.unmeasured,
        session_count=None if sessions is None else sessions.sessions,
        coalesced_use_count=None if sessions is None else sessions.coalesced_uses,
        resident=None if found is None else found.resident,
        status="present" if found is not None else "missing" if covered else "unknown",
        age_days=None if found is None else found.age_days,
        tokenizers=tuple(sorted(figures.tokenizers)),
        user_level=key[1].startswith("~/") or (found is not None and found.user_level),
        file_bytes_at_injection=_size_at_injection(tally.placed),
    )


def _value(latest: Latest | None) -> int | None:
    return None if latest is None else latest[2]


def _size_at_injection(placed: Cell) -> int | None:
    """The latest placing's size, where that placing is the one whose tokens are told."""
    size, tokens = placed.file_bytes, placed.injection_tokens
    return None if size is None or tokens is None or size[:2] != tokens[:2] else size[2]


def _moment_of(stamp: str) -> datetime | None:
    return datetime.fromisoformat(stamp) if stamp else None


def _coverage(tally: Tally, counts: ReadCounts, source: LogSource, complete: bool) -> Coverage:
    span, sources = tally.span, tally.sources
    met = span.events + tally.searches + tally.unknown
    state: LogState = "no_log" if not source.logs else "ok" if met or counts.damaged_lines else "empty"
    return Coverage(
        log_state=state,
        inventory_state=_inventory_state(source, complete),
        first_event_at=_moment_of(span.first),
        last_event_at=_moment_of(span.last),
        events=span.events,
        sessions=tally.sessions_before + len(tally.sessions),
        sources={name: _source_coverage(span) for name, span in sources.items()},
        silent_sources=tuple(sorted(set(source.config.sources) - sources.keys())),
        damaged_lines=counts.damaged_lines,
        recovered_events=counts.recovered_events,
        duplicate_events=tally.duplicates,
        conflicting_events=tally.conflicts,
        search_events=tally.searches,
        unknown_events=tally.unknown,
        clock_skewed_events=tally.skewed,
        undated_events=tally.undated,
        maintenance_events=tally.maintenance,
        read_sources={name: _source_coverage(span) for name, span in tally.read_sources.items()},
    )


def _inventory_state(source: LogSource, complete: bool) -> InventoryState:
    if source.place is None:
        return "not_joined"
    if source.config.records is None:
        return "none"
    return "complete" if complete else "incomplete"


def _source_coverage(span: Span) -> SourceCoverage:
    return SourceCoverage(span.events, _moment_of(span.first), _moment_of(span.last))
