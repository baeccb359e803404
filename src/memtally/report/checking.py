"""A report held against limits that somebody gives. memtally has none of its own. Pure.

What cannot be said is no finding: it is told apart, so that nobody takes it for a pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from memtally.report._text import counted, stamp
from memtally.report.model import RecordUsage, UsageReport

__all__ = ["Checked", "Cost", "Finding", "Limits", "always_on", "check_report"]

Key = tuple[str, str]


class Cost(NamedTuple):
    """Estimated tokens of one placing, by which estimator; ``None`` where the size is unknown."""

    tokens: int | None
    tokenizer: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What is asked for; ``None`` is not checked. ``retired``: sources whose silence is meant."""

    record_tokens: int | None = None
    resident_tokens: int | None = None
    unused_days: int | None = None
    retired: Collection[str] = ()


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


def check_report(made: UsageReport, costs: Mapping[Key, Cost], limits: Limits) -> Checked:
    """Hold a report against limits. ``costs``: of each record in ``always_on``."""
    checked = Checked()
    if limits.record_tokens is not None or limits.resident_tokens is not None:
        _check_tokens(made, costs, limits, checked)
    if limits.unused_days is not None:
        _check_unused(made, limits.unused_days, limits.retired, checked)
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


def _check_unused(made: UsageReport, days: int, retired: Collection[str], checked: Checked) -> None:
    try:
        start = made.generated_at - timedelta(days=days)
    except OverflowError:
        start = datetime.min.replace(tzinfo=UTC)
    reasons = list(_gaps(made, start, days, retired))
    for reason in reasons:
        checked.unknown.append(Finding("unused-days", None, None, days, reason))
    if reasons:
        return
    placed = {(record.kind, record.slug) for record in always_on(made)}
    for record in made.records:
        key, last = (record.kind, record.slug), record.last_used_at
        if record.status != "present" or record.user_level or key in placed or (last and last >= start):
            continue
        if record.use_count and last is None:  # read at an unknown time, perhaps yesterday
            checked.unknown.append(Finding("unused-days", key, None, days, "read at an unknown time"))
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


def _gaps(made: UsageReport, start: datetime, days: int, retired: Collection[str]) -> Iterator[str]:
    """Why the log does not support calling anything unused over these days."""
    coverage = made.coverage
    first, last = coverage.first_event_at, coverage.last_event_at
    if coverage.inventory_state != "complete":
        yield _no_inventory(made)
    if coverage.log_state != "ok" or first is None or last is None:
        yield "nothing has been recorded"
        return
    if first > start:
        yield f"the log begins on {stamp(first, UTC)[:10]}, less than {counted(days, 'day')} ago"
    elif last < start:
        yield f"nothing has been recorded since {stamp(last, UTC)[:10]}"
    else:
        for name, source in coverage.sources.items():
            if name not in retired and (source.last is None or source.last < start):
                when = (
                    "has no dated event" if source.last is None else f"is silent since {source.last:%Y-%m-%d}"
                )
                yield f"the source {name} {when}; if it is no longer used: --retired {name}"
    for name in coverage.silent_sources:
        if name not in retired:
            yield f"the source {name} is configured and has never recorded"
    if coverage.damaged_lines:
        yield f"{counted(coverage.damaged_lines, 'damaged line')} in the log (memtally log verify)"


def _no_inventory(made: UsageReport) -> str:
    return {
        "none": "no inventory is configured (memtally init)",
        "not_joined": "no workspace to compare with (--workspace)",
    }.get(made.coverage.inventory_state, "the inventory is incomplete: too many folders to look through")
