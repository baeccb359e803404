"""For a person at a terminal: what the table says, fitted to its width, with colour and a small chart.

Laid out by Rich (the extra ``view``); without it, and wherever the output is no terminal, ``table`` serves.
Names are text and never markup, and what could move a cursor is visible in them.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from memtally.report._text import short_line, width
from memtally.report.formats.options import Options, arranged
from memtally.report.formats.periods import Period, periods
from memtally.report.formats.summary import coverage_lines, record_facts
from memtally.report.formats.table import headings_for, paragraphs, record_cells
from memtally.report.model import RecordUsage, Review, ReviewItem, UsageReport
from memtally.report.review import LISTS, evidence

__all__ = ["report", "review", "show"]

_WIDE = 112
"""Columns from which on a review's evidence stands beside the names."""
_WORDS = 16
_ROOM = 10
"""Columns that names and routes have at the least, and more that the names must have for a layout."""
_STYLES = {"uses": "green", "maintenance": "yellow", "exposures": "blue"}
_BARS = {"uses": "█", "maintenance": "▒", "exposures": "░"}
_PLAIN_BARS = {"uses": "#", "maintenance": "+", "exposures": "."}
_LONGEST_BAR = 60


def report(made: UsageReport, options: Options) -> str:
    """The records, what was never read, and the coverage."""
    records, left_out = arranged(made, options, "uses")
    parts: list[RenderableType] = [_records(records, options), ""] if records else []
    return _rendered([*parts, *map(Text, paragraphs(made, options, records, left_out))], options)


def review(found: Review, made: UsageReport, options: Options) -> str:
    """The three lists, each record with its evidence beside or below it."""
    parts: list[RenderableType] = []
    for key, heading, order in LISTS:
        items: tuple[ReviewItem, ...] = getattr(found, key)
        shown = items[: options.limit]
        parts.append(Text.assemble((heading, "bold"), (f": {order}", "dim")))
        parts += [_listed(shown, options)] if shown else []
        parts += [Text("  none in what the log covers", "dim")] if not items else []
        parts += [Text(f"  {len(items) - len(shown):,} more (--limit)")] if len(items) > len(shown) else []
        parts.append("")
    parts += map(Text, coverage_lines(made, options))
    parts.append(Text("This is evidence, not a verdict: absence of reads is no proof of disuse."))
    return _rendered(parts, options)


def show(
    record: RecordUsage, days: Mapping[str, Mapping[str, int]], made: UsageReport, options: Options
) -> str:
    """One record's figures, then a chart of its events over time."""
    facts = Table.grid(padding=(0, 2), pad_edge=False)
    facts.add_column(style="dim")
    facts.add_column(overflow="fold")
    for name, value in record_facts(record, options):
        facts.add_row(Text(name), Text(value))
    parts: list[RenderableType] = [Text(short_line(record.name), "bold"), Padding(facts, (0, 0, 0, 2)), ""]
    found = periods((made.history or {}).get((record.kind, record.slug), {}))
    parts += [_chart(found, options), ""] if found else []
    return _rendered([*parts, *map(Text, coverage_lines(made, options))], options)


def _records(records: list[RecordUsage], options: Options) -> Table:
    """The first layout that has room for every figure: routes beside the name, below it, all below it."""
    headings = headings_for(records)
    rows = [record_cells(record, options) for record in records]
    columns = _columns(options)
    wide = _table(headings, rows)
    if _narrowest(wide) + _ROOM <= columns:
        for record, row in zip(records, rows, strict=True):
            wide.add_row(*map(Text, row), style=_style(record))
        return wide
    fewer = [[name, uses, used[:10], *others] for name, uses, used, _, *others in rows]
    stacked = _table((*headings[:3], *headings[4:]), fewer)
    if _narrowest(stacked) + _ROOM <= columns:
        for record, row, (name, *others) in zip(records, rows, fewer, strict=True):
            by = Text(f"\n  {row[3]}" if row[3] != "-" else "", "dim")
            stacked.add_row(Text.assemble(name, by), *map(Text, others), style=_style(record))
        return stacked
    return _listed_records(records, headings, rows)


def _listed_records(records: list[RecordUsage], headings: tuple[str, ...], rows: list[list[str]]) -> Table:
    table = Table.grid()
    table.add_column(overflow="fold")
    for record, (name, uses, used, by, *others) in zip(records, rows, strict=True):
        table.add_row(Text(name), style="bold")
        said = [f"uses {uses}", f"last {used}" if record.last_used_at else "", by if by != "-" else ""]
        lines = [", ".join(filter(None, said))]
        if record.resident_exposure_count or record.resident or len(others) > 3:
            figures = zip(headings[4:], others, strict=True)
            lines.append(", ".join(f"{heading.lower()} {value}" for heading, value in figures))
        for line in lines:
            table.add_row(Padding(Text(line), (0, 0, 0, 2)))
    return table


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Columns of which those with figures never give way."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for at, heading in enumerate(headings):
        words = heading in ("RECORD", "BY SOURCE")
        figures = [*heading.split(), *(row[at] for row in rows)]
        table.add_column(
            Text(heading),
            justify="left" if words or heading == "LAST USED" else "right",
            overflow="fold",
            min_width=_WORDS if words else max(map(width, figures)),
        )
    return table


def _narrowest(table: Table) -> int:
    return sum((column.min_width or 0) + 2 for column in table.columns) - 2


def _style(record: RecordUsage) -> str:
    return "dim" if not record.use_count and not record.resident_exposure_count else ""


def _listed(items: Iterable[ReviewItem], options: Options) -> Padding:
    """Names and evidence side by side, or below each other where it is narrow."""
    narrow = _columns(options) < _WIDE
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", style="dim")
    table.add_column(overflow="fold", max_width=None if narrow else 48)
    if not narrow:
        table.add_column(overflow="fold")
    for rank, item in enumerate(items, 1):
        words = Text(evidence(item.record, short_line, options.zone))
        name = Text(short_line(item.record.name))
        if narrow:
            table.add_row(Text(f"{rank}."), Group(name, Padding(words, (0, 0, 0, 2), style="dim")))
        else:
            table.add_row(Text(f"{rank}."), name, words)
    return Padding(table, (0, 0, 0, 2))


def _chart(found: list[Period], options: Options) -> Table:
    """A bar a period; its length stands for the events, its parts for uses, maintenance and exposures."""
    bars = _BARS if options.block_characters else _PLAIN_BARS
    columns = _columns(options)
    most = max(sum(period.events.values()) for period in found)
    room = max(min(_LONGEST_BAR, columns - 34), 8)
    unit = max(most / room, 1)
    sorts = [sort for sort in bars if any(period.events.get(sort) for period in found)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(Text(found[0].unit.upper()), no_wrap=True)
    legend = [(f"{bars[sort]} {sort}", _STYLES[sort]) for sort in sorts]
    table.add_column(Text("  ").join(Text(word, style) for word, style in legend), overflow="fold")
    for period in found:
        bar = Text()
        for sort in sorts:
            number = period.events.get(sort, 0)
            length = max(round(number / unit), 1) if number else 0  # what is there is seen
            bar.append(bars[sort] * length, _STYLES[sort])
        numbers = ", ".join(f"{period.events[sort]:,}" for sort in sorts if period.events.get(sort))
        table.add_row(Text(period.name), Text.assemble(bar, f" {numbers}" if numbers else ""))
    return table


def _columns(options: Options) -> int:
    return max(options.columns or 80, 20)


def _rendered(parts: Iterable[RenderableType], options: Options) -> str:
    """The parts as text. The machine's own settings have no say, so that equal reports are equal."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=_columns(options),
        force_terminal=options.color,
        color_system="standard" if options.color else None,
        no_color=not options.color,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
        _environ={},
    )
    for part in parts:
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())
