"""How a report is to be shown: which records, in which order, in which time zone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

from memtally.report.model import RecordUsage, UsageReport

__all__ = ["SORTS", "Options", "arranged"]

_NEVER = datetime.min.replace(tzinfo=UTC)

SORTS: dict[str, Callable[[RecordUsage], Any]] = {
    "name": lambda r: (),
    "uses": lambda r: (-r.use_count, -r.estimated_total_resident_exposure_tokens),
    "last-used": lambda r: (r.last_used_at is None, (_NEVER - (r.last_used_at or _NEVER))),
    "exposures": lambda r: (-r.resident_exposure_count,),
    "tokens": lambda r: (-r.estimated_total_resident_exposure_tokens, -r.use_count),
}
"""Orders by name; ties are settled by kind and slug, so that no run differs from another."""


@dataclass(frozen=True, slots=True)
class Options:
    """``limit``: at most so many records; ``None`` for all. ``everything``: also records without a file
    that only maintenance read. ``max_chars``: bound of a Markdown text. ``columns``: width of the terminal,
    ``None`` for no bound. ``limited_to``: the filters in words, where there are any.
    ``title``: what the report is of, where the form has a place for it. ``color`` and
    ``block_characters``: whether a terminal shows them.
    """

    sort: str | None = None
    limit: int | None = None
    everything: bool = False
    max_chars: int = 6_000
    zone: tzinfo = UTC
    columns: int | None = None
    limited_to: str = ""
    title: str = ""
    color: bool = False
    block_characters: bool = True


def arranged(report: UsageReport, options: Options, default: str) -> tuple[list[RecordUsage], int]:
    """The records to show, in order, and how many are left out."""
    records = [r for r in report.records if options.everything or _shown(r)]
    order = SORTS[options.sort or default]
    records.sort(key=lambda r: (order(r), r.kind, r.slug))
    kept = records if options.limit is None else records[: options.limit]
    return kept, len(report.records) - len(kept)


def _shown(record: RecordUsage) -> bool:
    # whatever was used or cost something is shown, also when its file has gone
    return bool(record.use_count or record.resident_exposure_count or record.status == "present")
