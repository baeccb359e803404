"""How far a log supports saying that a record was not read: the time it covers beside the record's own."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from memtally.report._text import counted, stamp
from memtally.report.model import RecordUsage, UsageReport

__all__ = ["covered_days", "support"]


def covered_days(made: UsageReport) -> int | None:
    """Whole days from the log's first read to the time of the report; ``None`` where there is none.

    Placings and maintenance's reads do not show that agents' reads were recorded. What happened after the
    last read was not recorded, or nothing happened: nobody knows which.
    """
    first = _first_read(made)
    return None if first is None else max((made.generated_at - first).days, 0)


def support(record: RecordUsage, made: UsageReport, zone: tzinfo = UTC) -> str:
    """In words, whether the log covers a record's whole life; ages are days since git first knew it."""
    covered, first = covered_days(made), _first_read(made)
    if not made.whole:
        return "only a part of the log's time was counted, so nothing can be said"
    if made.coverage.log_state != "ok" or covered is None:
        return "no read was recorded, so nothing can be said"
    begins = f"reads are recorded since {stamp(first, zone)[:10]}"
    if record.age_days is None:
        return f"{begins}; how long the record has been there is not known"
    if record.age_days < covered:
        return f"{begins}, before the record was there: its whole life is covered"
    if record.age_days == covered:  # both are whole days: which was first is not certain
        return f"{begins}, about when the record came"
    before = counted(record.age_days - covered, "day")
    return f"{begins}: the {before} before that are not covered"


def _first_read(made: UsageReport) -> datetime | None:
    moments = [source.first for source in made.coverage.read_sources.values()]
    return min((moment for moment in moments if moment is not None), default=None)
