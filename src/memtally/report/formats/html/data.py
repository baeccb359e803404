"""What the page shows, as plain values; pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from memtally.report._text import counted, one_line, stamp
from memtally.report.formats.options import Options
from memtally.report.formats.periods import sort_of
from memtally.report.formats.summary import record_facts, sources_of, total_tokens, why_unread
from memtally.report.model import RecordUsage, Route, UsageReport
from memtally.report.review import evidence
from memtally.report.support import support

__all__ = ["headline", "page_data", "unread_rows"]


def headline(made: UsageReport) -> list[dict[str, str]]:
    """The figures at the top: each a value, what it is, and what belongs beside it."""
    records = made.records
    present = [r for r in records if r.status == "present"]
    recorded = made.coverage.log_state == "ok"  # or every record there is would look unused
    unmeasured = sum(r.unmeasured_exposure_count for r in records)
    return [
        {
            "key": "uses",
            "value": f"{sum(r.use_count for r in records):,}",
            "label": "uses",
            "note": f"of {counted(sum(r.use_count > 0 for r in records), 'record')}, read explicitly",
        },
        {
            "key": "exposures",
            "value": f"{sum(r.resident_exposure_count for r in records):,}",
            "label": "resident exposures",
            "note": f"of {counted(sum(r.resident_exposure_count > 0 for r in records), 'record')}",
        },
        {
            "key": "tokens",
            "value": f"{sum(r.estimated_total_resident_exposure_tokens for r in records):,}",
            "label": "estimated exposure tokens",
            "note": f"without {counted(unmeasured, 'placing')} of unknown size"
            if unmeasured
            else "summed over all placings",
        },
        {
            "key": "unread",
            "value": f"{len(made.never_read):,}" if present and recorded and not made.limited else "-",
            "label": "without a use here",
            "note": "nothing was recorded"
            if not recorded
            else f"of {counted(len(present), 'record')} that exist now"
            if present
            else "no inventory to compare with",
        },
        {
            "key": "maintenance",
            "value": f"{sum(r.maintenance_use_count for r in records):,}",
            "label": "maintenance reads",
            "note": "counted apart, in no use",
        },
    ]


def unread_rows(made: UsageReport, options: Options) -> list[dict[str, Any]]:
    """What exists and was not read, the oldest first, each with what is known of it and how far that goes."""
    if made.coverage.log_state != "ok":
        return []
    found = sorted(
        made.never_read,
        key=lambda r: (r.age_days is None, -(r.age_days or 0), r.kind, r.slug),
    )
    return [
        {
            "key": (record.kind, record.slug),
            "name": one_line(record.name),
            "age": "unknown" if record.age_days is None else counted(record.age_days, "day"),
            "known": why_unread(record, age=False).strip(" ()") or "-",
            "support": support(record, made, options.zone),
        }
        for record in found
    ]


def page_data(records: list[RecordUsage], made: UsageReport, options: Options) -> dict[str, Any]:
    """The data that the page's script works on.

    ``days`` and ``routes`` are listed once; a record's ``h`` names them by number: day, route, events, and
    so on. Names are made harmless here, so that no one else need think of it.
    """
    history = made.history or {}
    kept = [(record, history.get((record.kind, record.slug), {})) for record in records]
    days = sorted({day for _, found in kept for day in found})
    routes = sorted({route for _, found in kept for by in found.values() for route in by})
    day_at, route_at = {day: n for n, day in enumerate(days)}, {route: n for n, route in enumerate(routes)}
    unread = {(record.kind, record.slug) for record in made.never_read}
    rows = []
    for record, found in kept:
        row = {
            "name": one_line(record.name),
            "kind": one_line(record.kind),
            "uses": record.use_count,
            "used": stamp(record.last_used_at, options.zone),
            "usedAt": _seconds(record.last_used_at),
            "by": sources_of(record, one_line),
            "exposures": record.resident_exposure_count,
            "each": record.estimated_tokens_per_injection,
            "tokens": record.estimated_total_resident_exposure_tokens,
            "tokensText": total_tokens(record),
            "resident": record.resident,
            "status": record.status,
            "age": record.age_days,
            "unread": (record.kind, record.slug) in unread,
            "maintenance": record.maintenance_use_count,
            "evidence": evidence(record, zone=options.zone),
            "facts": [value for _, value in record_facts(record, options, one_line)],
            "h": [
                x for day, by in found.items() for r, n in by.items() for x in (day_at[day], route_at[r], n)
            ],
        }
        rows.append(row)
    names = [name for name, _ in record_facts(records[0], options)] if records else []
    return {"days": days, "routes": [_route(route) for route in routes], "factNames": names, "records": rows}


def _route(route: Route) -> dict[str, str]:
    return {"source": one_line(route.source), "sort": sort_of(route)}


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
