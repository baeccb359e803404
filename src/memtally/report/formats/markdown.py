"""Markdown for an agent's prompt: bounded in size, and plain about what it does not prove."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from memtally.report._text import clip, one_line, stamp
from memtally.report.formats.options import Options, arranged
from memtally.report.formats.summary import (
    coverage_lines,
    first_of,
    total_tokens,
    total_tokens_notes,
    why_unread,
)
from memtally.report.model import RecordUsage, Review, ReviewItem, UsageReport
from memtally.report.review import LISTS, evidence

__all__ = ["report", "review", "show"]

_CAUTION = (
    "Evidence, not judgment: these figures count recorded reads only. "
    "Absence of reads is no proof of disuse; a source or host that was not recording says nothing."
)
_HEADING = "| record | uses | last used | by source | exposures | tokens latest | tokens total | status |"
_RULE = "| --- | ---: | --- | --- | ---: | ---: | ---: | --- |"
_SLUG_CHARACTERS = 120


def report(made: UsageReport, options: Options) -> str:
    """The records as a Markdown table within ``max_chars``; what did not fit is counted."""
    records, left_out = arranged(made, options, "uses")
    rows = [_row(record, options) for record in records]
    head = ["## Memory usage", "", *([_HEADING, _RULE] if rows else [])]
    return _bounded(head, rows, left_out, made, options, total_tokens_notes(records))


def review(found: Review, made: UsageReport, options: Options) -> str:
    """The three lists as Markdown lists, within ``max_chars``."""
    rows: list[str] = []
    for name, heading, order in LISTS:
        items: tuple[ReviewItem, ...] = getattr(found, name)
        rows.append(f"\n### {heading} ({order})\n")
        rows += [
            f"{rank}. {_code(item.record.name)}: {evidence(item.record, _code, options.zone)}"
            for rank, item in enumerate(items[: options.limit], 1)
        ]
        rows += ["none in what the log covers"] if not items else []
    return _bounded(["## Memory review"], rows, 0, made, options)


def show(
    record: RecordUsage, days: Mapping[str, Mapping[str, int]], made: UsageReport, options: Options
) -> str:
    """One record and its events by day."""
    rows = [_HEADING, _RULE, _row(record, options)]
    if days:
        rows += ["", "| day | source | events |", "| --- | --- | ---: |"]
        rows += [f"| {day} | {_code(name)} | {n:,} |" for day, by in days.items() for name, n in by.items()]
    return _bounded([f"## {_code(record.name)}", ""], rows, 0, made, options)


def _bounded(
    head: list[str],
    rows: list[str],
    left_out: int,
    made: UsageReport,
    options: Options,
    notes: Sequence[str] = (),
) -> str:
    """Head, rows, names without a use and coverage, each as far as the bound allows; the caution always."""
    room = options.max_chars - _size([*head, "", _CAUTION, ""]) - len("\n999,999,999 more not shown.\n")
    coverage, room = _fitting([*notes, *coverage_lines(made, options, _code)], room)
    unread, room = _fitting(_unread(made, room // 4), room)
    kept, _ = _fitting(rows, room)
    left_out += len(rows) - len(kept)
    more = ["", f"{left_out:,} more not shown."] if left_out else []
    return "\n".join([*head, *kept, *more, "", *unread, *coverage, _CAUTION]) + "\n"


def _fitting(lines: Sequence[str], room: int) -> tuple[list[str], int]:
    """The first lines that fit, and the room that is left."""
    kept: list[str] = []
    for line in lines:
        if len(line) + 1 > room:
            break
        kept.append(line)
        room -= len(line) + 1
    return kept, room


def _size(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def _unread(made: UsageReport, room: int) -> list[str]:
    """One line of names without a use, as many as fit into a part of the room."""
    names = [_code(record.name) + why_unread(record) for record in made.never_read]
    if not names or made.coverage.log_state != "ok":
        return []
    shown: list[str] = []
    for name in names[:10]:
        room -= len(name) + 2
        if room < 0:
            break
        shown.append(name)
    more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
    return [f"No use in this coverage: {', '.join(shown)}{more}.".replace(":  and", ":"), ""]


def _row(record: RecordUsage, options: Options) -> str:
    each = record.estimated_tokens_per_injection
    cells: Iterable[str] = (
        _code(record.name),
        f"{record.use_count:,}",
        stamp(record.last_used_at, options.zone),
        first_of([f"{_code(name)} {count:,}" for name, count in record.source_breakdown.items()]) or "-",
        f"{record.resident_exposure_count:,}",
        "-" if each is None else f"{each:,}",
        total_tokens(record),
        record.status,
    )
    return f"| {' | '.join(cells)} |"


def _code(text: str) -> str:
    """Somebody's text as inert code: no markup, no line break, no cell border, bounded."""
    text = clip(one_line(text), _SLUG_CHARACTERS).replace("`", "'").replace("|", "\\|")
    return f"`{text}`" if text else "-"
