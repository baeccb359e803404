"""The report's evidence, ranked by plain keys for those who tend the memory. It never decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, tzinfo

from memtally.report._text import counted, one_line, stamp
from memtally.report.model import RecordUsage, Review, ReviewItem, UsageReport

__all__ = ["LISTS", "evidence", "review"]

LISTS = (
    ("knowledge_candidates", "Knowledge candidates", "decisions and requests, most read first"),
    ("tidy_protection", "Tidy protection", "explicitly read records, most read first"),
    (
        "resident_review",
        "Resident review",
        "records placed into contexts, fewest reads first, then highest cost",
    ),
)
"""The lists: a list's name in ``Review``, its heading, and what stands in it in which order."""

_CANDIDATE_KINDS = ("decision", "request")


def review(report: UsageReport) -> Review:
    """Three lists: knowledge candidates (``decision`` and ``request`` records by explicit uses, most
    first), tidy protection (every explicitly used record, most first) and resident review (records that
    were placed into contexts, by uses ascending, then by exposure tokens descending).
    """
    used = sorted((r for r in report.records if r.use_count), key=lambda r: (-r.use_count, r.kind, r.slug))
    placed = sorted(
        (r for r in report.records if r.resident_exposure_count or r.resident),
        key=lambda r: (r.use_count, -r.estimated_total_resident_exposure_tokens, r.kind, r.slug),
    )
    return Review(
        knowledge_candidates=_items(r for r in used if r.kind in _CANDIDATE_KINDS),
        tidy_protection=_items(used),
        resident_review=_items(placed),
    )


def _items(records: Iterable[RecordUsage]) -> tuple[ReviewItem, ...]:
    return tuple(ReviewItem(record, evidence(record)) for record in records)


def evidence(record: RecordUsage, quote: Callable[[str], str] = one_line, zone: tzinfo = UTC) -> str:
    """What the log says of one record, in words; ``quote`` makes somebody else's names harmless."""
    parts = []
    if record.use_count:
        by = ", ".join(f"{quote(source)} {count:,}" for source, count in record.source_breakdown.items())
        last = f", last on {stamp(record.last_used_at, zone)[:10]}" if record.last_used_at else ""
        parts.append(f"read {_times(record.use_count)}{last} ({by})")
    else:
        parts.append("no explicit read in what the log covers")
    if record.maintenance_use_count:
        parts.append(f"read {_times(record.maintenance_use_count)} by maintenance, not counted as use")
    if record.resident_exposure_count:
        tokens = f"an estimated {record.estimated_total_resident_exposure_tokens:,} tokens in all"
        if record.unmeasured_exposure_count == record.resident_exposure_count:
            tokens = "at a cost that is unknown"  # which is not 0 tokens
        elif record.unmeasured_exposure_count:
            tokens += f", without {counted(record.unmeasured_exposure_count, 'placing')} of unknown size"
        parts.append(f"placed into a context {_times(record.resident_exposure_count)}, {tokens}")
    elif record.resident:
        parts.append("always on, but no placing in what the log covers")
    if record.status == "missing":
        parts.append("no file of it in the inventory")
    return "; ".join(parts)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
