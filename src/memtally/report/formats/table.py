"""Plain aligned text for a terminal or a pipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memtally.report._text import clip, pad, short_line, stamp, width
from memtally.report.formats.options import Options, arranged
from memtally.report.formats.summary import (
    coverage_lines,
    inventory_line,
    record_facts,
    sources_of,
    total_tokens,
    total_tokens_notes,
    why_unread,
)
from memtally.report.model import RecordUsage, Review, ReviewItem, UsageReport
from memtally.report.review import LISTS, evidence

__all__ = ["aligned", "headings_for", "paragraphs", "record_cells", "report", "review", "show"]

_HEADINGS = ("RECORD", "USES", "LAST USED", "BY SOURCE", "EXPOSURES", "TOKENS LATEST", "TOKENS TOTAL")
_SESSIONS = ("SESSIONS", "COALESCED")
_RIGHT = (1, 4, 5, 6, 7, 8)
_NARROWEST = 20


def report(made: UsageReport, options: Options) -> str:
    """The records as a table, what was never read, and the coverage."""
    records, left_out = arranged(made, options, "uses")
    lines: list[str] = []
    if records:
        cells = [record_cells(r, options) for r in records]
        lines += [*aligned(headings_for(records), cells, _RIGHT, options.columns), ""]
    return "\n".join([*lines, *paragraphs(made, options, records, left_out)]) + "\n"


def paragraphs(made: UsageReport, options: Options, records: list[RecordUsage], left_out: int) -> list[str]:
    """What stands below the records, line by line: notes, what was not shown or not read, the coverage."""
    lines: list[str] = []
    if not records and options.limited_to:
        lines += [f"No record by {short_line(options.limited_to)}.", ""]
    notes = total_tokens_notes(records)
    lines += [*notes, ""] if notes else []
    if left_out:
        why = "--limit" if options.everything else "--all shows every record"
        lines += [f"{left_out:,} more not shown ({why}).", ""]
    if made.coverage.log_state == "ok":
        lines += _never_read(made, options)
    lines += coverage_lines(made, options)
    return [*lines, *filter(None, [inventory_line(made)])]


def headings_for(records: list[RecordUsage]) -> tuple[str, ...]:
    """The columns' headings; with sessions where they were counted."""
    return _HEADINGS + (_SESSIONS if records[0].session_count is not None else ())


def review(found: Review, made: UsageReport, options: Options) -> str:
    """The three lists, one record a line with its evidence."""
    lines = []
    for key, heading, order in LISTS:
        items: tuple[ReviewItem, ...] = getattr(found, key)
        lines.append(f"{heading}: {order}")
        shown = items[: options.limit]
        names = [short_line(item.record.name) for item in shown]
        widest = min(max(map(width, names), default=0), 48)
        lines += [
            f"  {pad(name, widest)}  {evidence(item.record, zone=options.zone)}"
            for name, item in zip(names, shown, strict=True)
        ]
        lines += ["  none in what the log covers"] if not items else []
        lines += [f"  {len(items) - len(shown):,} more (--limit)"] if len(items) > len(shown) else []
        lines.append("")
    lines += coverage_lines(made, options)
    lines.append("This is evidence, not a verdict: absence of reads is no proof of disuse.")
    return "\n".join(lines) + "\n"


def show(
    record: RecordUsage, days: Mapping[str, Mapping[str, int]], made: UsageReport, options: Options
) -> str:
    """One record's figures, then its events by day and source."""
    facts = record_facts(record, options)
    lines = [short_line(record.name), *(f"  {pad(name, 34)}{value}" for name, value in facts), ""]
    if days:
        rows = [
            [day, short_line(source), f"{count:,}"]
            for day, by in days.items()
            for source, count in by.items()
        ]
        lines += [*aligned(("DAY", "SOURCE", "EVENTS"), rows, (2,), options.columns), ""]
    lines += coverage_lines(made, options)
    return "\n".join(lines) + "\n"


def aligned(
    headings: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int], columns: int | None
) -> list[str]:
    """Rows in columns; where the terminal is too narrow, the first column gives way."""
    widths = [max(width(row[i]) for row in (headings, *rows)) for i in range(len(headings))]
    if columns is not None:
        too_much = sum(widths) + 2 * (len(widths) - 1) - columns
        widths[0] = max(min(widths[0], _NARROWEST), widths[0] - max(too_much, 0))
    return [
        "  ".join(
            pad(clip(cell, widths[i]) if i == 0 else cell, widths[i], right=i in right)
            for i, cell in enumerate(row)
        ).rstrip()
        for row in (headings, *rows)
    ]


def record_cells(record: RecordUsage, options: Options) -> list[str]:
    """One record's row, in the order of its headings."""
    mark = " (missing)" if record.status == "missing" else ""
    return [
        short_line(record.name) + mark,
        f"{record.use_count:,}",
        stamp(record.last_used_at, options.zone),
        sources_of(record, short_line) or "-",
        f"{record.resident_exposure_count:,}",
        _number(record.estimated_tokens_per_injection),
        total_tokens(record),
        *([] if record.session_count is None else [f"{record.session_count:,}"]),
        *([] if record.coalesced_use_count is None else [f"{record.coalesced_use_count:,}"]),
    ]


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _never_read(made: UsageReport, options: Options) -> list[str]:
    names = [short_line(record.name) + why_unread(record) for record in made.never_read]
    if not names:
        return []
    shown = names if options.everything else names[:10]
    more = f" and {len(names) - len(shown):,} more (--all)" if len(names) > len(shown) else ""
    text = f"No use in this coverage ({len(names):,}): {', '.join(shown)}{more}."
    return [text, ""]
