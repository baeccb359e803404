"""How far a log supports saying that a record was not read: the time it covers beside the record's own."""

from __future__ import annotations

from datetime import UTC, tzinfo

from memtally.report._text import counted, stamp
from memtally.report.model import RecordUsage, UsageReport

__all__ = ["covered_days", "support"]


def covered_days(made: UsageReport) -> int | None:
    """Whole days from the log's first event to the time of the report; ``None`` where there is none.

    What happened after the last event was not recorded, or nothing happened: nobody knows which.
    """
    first = made.coverage.first_event_at
    return None if first is None else max((made.generated_at - first).days, 0)


def support(record: RecordUsage, made: UsageReport, zone: tzinfo = UTC) -> str:
    """In words, whether the log covers a record's whole life; ages are days since git first knew it."""
    covered = covered_days(made)
    if made.coverage.log_state != "ok" or covered is None:
        return "nothing was recorded, so nothing can be said"
    since = stamp(made.coverage.first_event_at, zone)[:10]
    begins = f"the log begins on {since}"
    if record.age_days is None:
        return f"{begins}; how long the record has been there is not known"
    if record.age_days <= covered:
        return f"{begins}, before the record was there: its whole life is covered"
    before = counted(record.age_days - covered, "day")
    return f"{begins}: the {before} before that are not covered"
