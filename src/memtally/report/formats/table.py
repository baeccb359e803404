"""Plain aligned text for a terminal or a pipe."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from memtally.report._text import clip, pad, short_line, stamp, width
from memtally.report.formats.options import Options, arranged
from memtally.report.formats.summary import (
    coverage_lines,
    first_of,
    inventory_line,
    total_tokens,
    total_tokens_notes,
    why_unread,
)
from memtally.report.model import RecordUsage, Review, UsageReport
from memtally.report.review import evidence

__all__ = ["aligned", "report", "review", "show"]

_HEADINGS = ("RECORD", "USES", "LAST USED", "BY SOURCE", "EXPOSURES", "TOKENS LATEST", "TOKENS TOTAL")
_SESSIONS = ("SESSIONS", "COALESCED")
_RIGHT = (1, 4, 5, 6, 7, 8)
_NARROWEST = 20


def report(made: UsageReport, options: Options) -> str:
    """The records as a table, what was never read, and the coverage."""
    records, left_out = arranged(made, options, "uses")
    lines: list[str] = []
    if records:
        headings = _HEADINGS + (_SESSIONS if records[0].session_count is not None else ())
        lines += [*aligned(headings, [_cells(r, options) for r in records], _RIGHT, options.columns), ""]
        notes = total_tokens_notes(records)
        lines += [*notes, ""] if notes else []
    elif options.limited_to:
        lines += [f"No record by {short_line(options.limited_to)}.", ""]
    if left_out:
        why = "--limit" if options.everything else "--all shows every record"
        lines += [f"{left_out:,} more not shown ({why}).", ""]
    if made.coverage.log_state == "ok":
        lines += _never_read(made, options)
    lines += coverage_lines(made, options)
    return "\n".join([*lines, *filter(None, [inventory_line(made)])]) + "\n"


def review(found: Review, made: UsageReport, options: Options) -> str:
    """The three lists, one record a line with its evidence."""
    lines = []
    for heading, items in (
        ("Knowledge candidates: decisions and requests, most read first", found.knowledge_candidates),
        ("Tidy protection: explicitly read records, most read first", found.tidy_protection),
        ("Resident review: placed into contexts, fewest reads and highest cost first", found.resident_review),
    ):
        lines.append(heading)
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
    facts = [
        ("uses", f"{record.use_count:,}"),
        ("by source", _sources(record) or "-"),
        ("first used", stamp(record.first_used_at, options.zone)),
        ("last used", stamp(record.last_used_at, options.zone)),
        ("maintenance reads", f"{record.maintenance_use_count:,}"),
        ("resident exposures", f"{record.resident_exposure_count:,}"),
        ("estimated tokens, latest", _number(record.estimated_tokens_per_injection)),
        ("estimated tokens, total", f"{record.estimated_total_resident_exposure_tokens:,}"),
        ("unmeasured exposures", f"{record.unmeasured_exposure_count:,}"),
        ("file bytes", _number(record.file_bytes)),
        ("tokens by", ", ".join(map(short_line, record.tokenizers)) or "-"),
        ("always on", {True: "yes", False: "no", None: "unknown"}[record.resident]),
        ("status", record.status),
        ("age", "-" if record.age_days is None else f"{record.age_days:,} days"),
    ]
    lines = [short_line(record.name), *(f"  {pad(name, 26)}{value}" for name, value in facts), ""]
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


def _cells(record: RecordUsage, options: Options) -> list[str]:
    mark = " (missing)" if record.status == "missing" else ""
    return [
        short_line(record.name) + mark,
        f"{record.use_count:,}",
        stamp(record.last_used_at, options.zone),
        _sources(record) or "-",
        f"{record.resident_exposure_count:,}",
        _number(record.estimated_tokens_per_injection),
        total_tokens(record),
        *([] if record.session_count is None else [f"{record.session_count:,}"]),
        *([] if record.coalesced_use_count is None else [f"{record.coalesced_use_count:,}"]),
    ]


def _sources(record: RecordUsage) -> str:
    return first_of([f"{short_line(name)} {count:,}" for name, count in record.source_breakdown.items()])


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _never_read(made: UsageReport, options: Options) -> list[str]:
    names = [short_line(record.name) + why_unread(record) for record in made.never_read]
    if not names:
        return []
    shown = names if options.everything else names[:10]
    more = f" and {len(names) - len(shown):,} more (--all)" if len(names) > len(shown) else ""
    text = f"No use in this coverage ({len(names):,}): {', '.join(shown)}{more}."
    return [*(textwrap.wrap(text, max(options.columns, 40)) if options.columns else [text]), ""]
