"""A report held against limits that somebody gives. memtally has none of its own. Pure.

What cannot be said is no finding: it is told apart, so that nobody takes it for a pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from memtally.errors import InvalidValueError
from memtally.events import USE
from memtally.report._text import counted, stamp
from memtally.report.calendar import UNDATED_DAY
from memtally.report.model import RecordUsage, UsageReport

__all__ = ["Checked", "Cost", "Finding", "Limits", "always_on", "check_report", "start_of"]

Key = tuple[str, str]


class Cost(NamedTuple):
    """Estimated tokens of one placing, by which estimator; ``None`` where the size is unknown."""

    tokens: int | None
    tokenizer: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What is asked for; ``None`` is not checked. ``ignored_sources``: those that need not
    cover the time, because they have been given up, or are known to be rarely used.
    """

    record_tokens: int | None = None
    resident_tokens: int | None = None
    unused_days: int | None = None
    ignored_sources: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """``check``: the limit that it is about. ``record``: whom it concerns, ``None`` for all together."""

    check: str
    record: Key | None
    value: int | None
    limit: int | None
    text: str


@dataclass(slots=True)
class Checked:
    """``findings``: above a limit. ``unknown``: what cannot be said, and why."""

    findings: list[Finding] = field(default_factory=list)
    unknown: list[Finding] = field(default_factory=list)


def always_on(made: UsageReport) -> list[RecordUsage]:
    """The records that are there and are placed without being asked for, by inventory or by the log."""
    return [
        record
        for record in made.records
        if record.status == "present"
        and (record.resident or (record.resident is None and record.resident_exposure_count))
    ]


def check_report(
    made: UsageReport, costs: Mapping[Key, Cost], limits: Limits, gaps: Iterable[str] = ()
) -> Checked:
    """Hold a report against limits. ``costs``: of each record in ``always_on``.

    ``gaps``: why reads may be missing in the log, besides what the report tells of it. For ``unused_days``
    the report needs its ``history``, where reads at unknown times are.
    """
    checked = Checked()
    if limits.record_tokens is not None or limits.resident_tokens is not None:
        _check_tokens(made, costs, limits, checked)
    if limits.unused_days is not None:
        _check_unused(made, limits.unused_days, limits.ignored_sources, gaps, checked)
    return checked


def _check_tokens(made: UsageReport, costs: Mapping[Key, Cost], limits: Limits, checked: Checked) -> None:
    first = "record-tokens" if limits.record_tokens is not None else "resident-tokens"
    if made.coverage.inventory_state != "complete":
        checked.unknown.append(Finding(first, None, None, None, _no_inventory(made)))
    total = 0
    for record in always_on(made):
        key = (record.kind, record.slug)
        tokens, by = costs[key]
        if tokens is None:
            checked.unknown.append(Finding(first, key, None, None, "its file cannot be read"))
            continue
        total += tokens
        limit = limits.record_tokens
        if limit is not None and tokens > limit:
            text = f"always on, {counted(tokens, 'token')} a placing by {by}; the limit is {limit:,}"
            checked.findings.append(Finding("record-tokens", key, tokens, limit, text))
    limit = limits.resident_tokens
    if limit is not None and total > limit:
        number = counted(len(costs), "always-on record")
        text = f"{number}, {counted(total, 'token')} together; the limit is {limit:,}"
        checked.findings.append(Finding("resident-tokens", None, total, limit, text))


def start_of(made: UsageReport, days: int) -> datetime:
    """The first moment of so many days before the report; at the beginning of the calendar, that."""
    try:
        return made.generated_at - timedelta(days=days)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _check_unused(
    made: UsageReport, days: int, ignored: Collection[str], gaps: Iterable[str], checked: Checked
) -> None:
    if made.history is None:
        raise InvalidValueError(
            "report", "UsageReport", "has no events by day", "make it by build_report(history=zone)"
        )
    start = start_of(made, days)
    reasons = [*_gaps(made, start, days, ignored), *gaps]
    for reason in reasons:
        checked.unknown.append(Finding("unused-days", None, None, days, reason))
    if reasons:
        return
    placed = {(record.kind, record.slug) for record in always_on(made)}
    for record in made.records:
        key, last = (record.kind, record.slug), record.last_used_at
        if record.status != "present" or record.user_level or key in placed or (last and last >= start):
            continue
        if _read_at_unknown_time(made, key):  # perhaps yesterday
            checked.unknown.append(
                Finding("unused-days", key, None, days, "read at a time that is not certain")
            )
        elif last is not None:
            since = (made.generated_at - last).days
            text = f"last read on {stamp(last, UTC)[:10]}, {counted(since, 'day')} ago; the limit is {days:,}"
            checked.findings.append(Finding("unused-days", key, since, days, text))
        elif record.age_days is None:
            text = "no read, but how long the record has been there is not known"
            checked.unknown.append(Finding("unused-days", key, None, days, text))
        elif record.age_days >= days:
            age = counted(record.age_days, "day")
            text = f"no read in what the log covers, {age} old; the limit is {days:,}"
            checked.findings.append(Finding("unused-days", key, record.age_days, days, text))


def _read_at_unknown_time(made: UsageReport, key: Key) -> bool:
    """Whether a use of the record has no time, or one in the future, by a clock that was wrong."""
    today = made.generated_at.date().isoformat()
    return any(
        route.event == USE and not route.maintenance
        for day, routes in (made.history or {}).get(key, {}).items()
        if day == UNDATED_DAY or day > today
        for route in routes
    )


def _gaps(made: UsageReport, start: datetime, days: int, ignored: Collection[str]) -> Iterator[str]:
    """Why the log does not support calling anything unused over these days.

    Placings and maintenance's reads are no sign that agents' reads were recorded.
    """
    coverage = made.coverage
    if coverage.inventory_state != "complete":
        yield _no_inventory(made)
    if not made.whole or made.limited:
        yield "the report is limited to a part of the log"
    reading = {name: source for name, source in coverage.read_sources.items() if name not in ignored}
    if not reading:
        yield "no read has been recorded"
    for name, source in reading.items():
        if source.first is None or source.last is None:
            yield f"the source {name} has no dated read"
        elif source.first > start:
            since = f"{stamp(source.first, UTC)[:10]}, less than {counted(days, 'day')} ago"
            yield f"the source {name} has recorded reads only since {since}{_ignoring(name)}"
        elif source.last < start:
            yield f"the source {name} is silent since {stamp(source.last, UTC)[:10]}{_ignoring(name)}"
    for name in coverage.silent_sources:
        if name not in ignored:
            yield f"the source {name} is configured and has never recorded"
    for number, noun in (
        (coverage.damaged_lines, "damaged line"),
        (coverage.conflicting_events, "conflicting event"),
        (coverage.unknown_events, "event of an unknown sort"),
    ):
        if number:
            yield f"{counted(number, noun)} in the log, which may have been reads (memtally log verify)"


def _ignoring(name: str) -> str:
    return f"; if that is as it should be: --ignore-source {name}"


def _no_inventory(made: UsageReport) -> str:
    return {
        "none": "no inventory is configured (memtally init)",
        "not_joined": "no workspace to compare with (--workspace)",
    }.get(made.coverage.inventory_state, "the inventory is incomplete: too many folders to look through")
