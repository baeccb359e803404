"""The coverage in sentences, said alike by every format that people or agents read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memtally.report._text import counted, local, short_line, stamp
from memtally.report.formats.options import Options
from memtally.report.model import RecordUsage, UsageReport

__all__ = [
    "coverage_lines",
    "first_of",
    "inventory_line",
    "record_facts",
    "sources_of",
    "total_tokens",
    "total_tokens_notes",
    "why_unread",
]


_NAMES = 12
_NAMES_CHARACTERS = 400


def first_of(names: Sequence[str]) -> str:
    """Some names in a row, whole ones, and how many more there are: any log may hold any number of them."""
    shown, room = 0, _NAMES_CHARACTERS
    for name in names[:_NAMES]:
        room -= len(name) + 2
        if room < 0 and shown:
            break
        shown += 1
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def sources_of(record: RecordUsage, quote: Callable[[str], str]) -> str:
    """A record's routes, each with its uses."""
    return first_of([f"{quote(name)} {count:,}" for name, count in record.source_breakdown.items()])


def record_facts(
    record: RecordUsage, options: Options, quote: Callable[[str], str] = short_line
) -> list[tuple[str, str]]:
    """One record's figures, each with its name."""
    zone = options.zone
    found = [
        ("uses", f"{record.use_count:,}"),
        ("by source", sources_of(record, quote)),
        ("first used", stamp(record.first_used_at, zone)),
        ("last used", stamp(record.last_used_at, zone)),
        ("maintenance reads", f"{record.maintenance_use_count:,}"),
        ("resident exposures", f"{record.resident_exposure_count:,}"),
        ("last exposed", stamp(record.last_exposed_at, zone)),
        ("estimated tokens, latest placing", _number(record.estimated_tokens_per_injection)),
        ("estimated tokens, all placings", total_tokens(record)),
        ("unmeasured placings", f"{record.unmeasured_exposure_count:,}"),
        ("file bytes, at the latest event", _number(record.file_bytes)),
        ("file tokens, at the latest event", _number(record.file_tokens_estimate)),
        ("tokens by", ", ".join(map(quote, record.tokenizers))),
        ("always on", {True: "yes", False: "no", None: "unknown"}[record.resident]),
        ("file", record.status),
        ("age", "unknown" if record.age_days is None else counted(record.age_days, "day")),
    ]
    return [(name, value or "-") for name, value in found]


def _number(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def total_tokens(record: RecordUsage) -> str:
    """What the placings cost, marked where a part of it is unknown or made by several tokenizers."""
    if record.unmeasured_exposure_count == record.resident_exposure_count > 0:
        return "?*"
    several = "~" if len(record.tokenizers) > 1 and record.resident_exposure_count else ""
    mark = "*" if record.unmeasured_exposure_count else ""
    return f"{several}{record.estimated_total_resident_exposure_tokens:,}{mark}"


def total_tokens_notes(records: list[RecordUsage]) -> list[str]:
    """What the marks mean, where there are any."""
    cells = [total_tokens(record) for record in records]
    notes = []
    if any("*" in cell for cell in cells):
        unmeasured = sum(record.unmeasured_exposure_count for record in records)
        notes.append(f"* without {counted(unmeasured, 'placing')} whose size is unknown.")
    if any("~" in cell for cell in cells):
        notes.append("~ a sum over estimates by several tokenizers.")
    return notes


def why_unread(record: RecordUsage, *, age: bool = True) -> str:
    """What else is known of a record without a use, so that nobody takes it for dead."""
    known = []
    if record.resident_exposure_count:
        known.append(f"always on, placed {record.resident_exposure_count:,}x")
    elif record.resident:
        known.append("always on")
    if record.maintenance_use_count:
        known.append("maintenance only")
    if age and record.age_days is not None:
        known.append(f"{counted(record.age_days, 'day')} old")
    return f" ({', '.join(known)})" if known else ""


def coverage_lines(
    made: UsageReport, options: Options, quote: Callable[[str], str] = short_line
) -> list[str]:
    """What the figures rest on, and what was met and not counted; one sentence a line.

    ``quote`` makes the names of somebody else's sources harmless.
    """
    coverage = made.coverage
    if coverage.log_state == "no_log":
        return ["No usage log yet: nothing has been recorded in this workspace."]
    if coverage.log_state == "empty":
        return ["The usage log holds no events in this period."]
    last = coverage.last_event_at
    zone = (None if last is None else local(last, options.zone).tzname()) or "UTC"
    span = f"{stamp(coverage.first_event_at, options.zone)} to {stamp(last, options.zone)} {zone}"
    events, sessions = counted(coverage.events, "event"), counted(coverage.sessions, "session")
    maintenance = f" ({coverage.maintenance_events:,} by maintenance)" if coverage.maintenance_events else ""
    lines = [f"{events}{maintenance} in {sessions}, {span}."]
    if coverage.sources:
        lines.append(
            "Sources seen: "
            + first_of([f"{quote(name)} {source.events:,}" for name, source in coverage.sources.items()])
            + "."
        )
    if options.limited_to:
        lines.append(f"The records are limited to {quote(options.limited_to)}; this paragraph is not.")
    tokenizers = sorted({name for record in made.records for name in record.tokenizers})
    if tokenizers:
        lines.append(f"Tokens are estimated by {first_of(list(map(quote, tokenizers)))}.")
    if coverage.silent_sources:
        names = first_of(list(map(quote, coverage.silent_sources)))
        lines.append(f"Configured but never seen: {names}; nothing is known of reads by that route.")
    noted = [
        (
            coverage.damaged_lines,
            "damaged line",
            f"{counted(coverage.recovered_events, 'event')} recovered from them",
        ),
        (coverage.duplicate_events, "duplicate event", "counted once"),
        (coverage.conflicting_events, "conflicting event", "same id, other content: the earlier one counts"),
        (coverage.search_events, "search event", "never a use"),
        (coverage.unknown_events, "event of an unknown type", "not counted"),
        (coverage.clock_skewed_events, "event dated in the future", "counted, out of every date"),
        (coverage.undated_events, "event without a usable time", "counted, out of every date"),
    ]
    lines += [f"{counted(number, noun)} ({what})." for number, noun, what in noted if number]
    return lines


def inventory_line(made: UsageReport) -> str:
    """Why nothing, or not all, can be called never read; empty where everything can."""
    state = made.coverage.inventory_state
    if state == "not_joined":
        return "Not compared with the files of a workspace (--workspace)."
    if state == "none" and made.coverage.log_state != "no_log":
        return "No inventory is configured, so nothing can be called never read (memtally init)."
    if state == "incomplete":
        return "The inventory is incomplete: this workspace has too many folders to look through."
    return ""
