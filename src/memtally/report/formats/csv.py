"""CSV: one row a record, for spreadsheets. Cells that a spreadsheet would run are made text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping

from memtally.report._text import one_line, utc_stamp
from memtally.report.formats.options import Options, arranged
from memtally.report.model import RecordUsage, Review, UsageReport
from memtally.report.review import LISTS

__all__ = ["report", "review", "show"]

_COLUMNS = (
    "kind",
    "slug",
    "use_count",
    "last_used_at",
    "source_breakdown",
    "resident_exposure_count",
    "estimated_tokens_per_injection",
    "estimated_total_resident_exposure_tokens",
    "file_bytes",
    "file_tokens_estimate",
    "first_used_at",
    "maintenance_use_count",
    "last_exposed_at",
    "mean_tokens_per_injection",
    "unmeasured_exposure_count",
    "session_count",
    "coalesced_use_count",
    "resident",
    "status",
    "age_days",
    "tokenizers",
    "user_level",
)


def report(made: UsageReport, options: Options) -> str:
    """The records as rows under one heading. An unknown value is an empty cell."""
    records, _ = arranged(made, options, "name")
    return _rows(_COLUMNS, (_row(record) for record in records))


def review(found: Review, made: UsageReport, options: Options) -> str:
    """The three lists as rows: list, rank, the record's columns, the evidence."""
    rows = (
        [name, str(rank), *_row(item.record), item.evidence]
        for name, _, _ in LISTS
        for rank, item in enumerate(getattr(found, name)[: options.limit], 1)
    )
    return _rows(("list", "rank", *_COLUMNS, "evidence"), rows)


def show(
    record: RecordUsage, days: Mapping[str, Mapping[str, int]], made: UsageReport, options: Options
) -> str:
    """One record's events by day: day, source, events."""
    rows = ([day, source, str(count)] for day, sources in days.items() for source, count in sources.items())
    return _rows(("day", "source", "events"), rows)


def _row(record: RecordUsage) -> list[str]:
    cells = []
    for name in _COLUMNS:
        value = getattr(record, name)
        if name in ("last_used_at", "first_used_at", "last_exposed_at"):
            value = utc_stamp(value)
        elif name == "source_breakdown":
            value = " ".join(f"{source}={count}" for source, count in value.items())
        elif name == "tokenizers":
            value = " ".join(value)
        elif isinstance(value, bool):
            value = "true" if value else "false"
        cells.append("" if value is None else str(value))
    return cells


def _rows(heading: Iterable[str], rows: Iterable[list[str]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows([_cell(cell) for cell in row] for row in rows)
    return out.getvalue()


def _cell(text: str) -> str:
    text = one_line(text)
    # = + - @ begin a formula in spreadsheets, also the full-width ones; an apostrophe makes the cell text
    return f"'{text}" if text.startswith(tuple("=+-@＝＋－＠")) else text
