"""The report's shapes: what a reader of the figures holds in hand. Frozen, typed, no logic but look-up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from memtally.events import normal_slug

__all__ = [
    "Coverage",
    "History",
    "InventoryState",
    "LogState",
    "RecordUsage",
    "Review",
    "ReviewItem",
    "Route",
    "SourceCoverage",
    "UsageReport",
]

Status = Literal["present", "missing", "unknown"]
LogState = Literal["ok", "no_log", "empty"]
InventoryState = Literal["none", "not_joined", "complete", "incomplete"]


@dataclass(frozen=True, slots=True)
class RecordUsage:
    """The figures of one record. Counts are numbers of events; times are UTC; ``None`` means unknown.

    ``use_count`` holds explicit reads only; ``resident_exposure_count`` is a cost, never a use.
    Exposure costs are sums over events of estimated tokens; ``unmeasured_exposure_count`` exposures are
    in no sum. ``tokenizers`` names every estimator that had a part in the token figures.
    ``user_level``: used in many workspaces, so that one workspace's log cannot call it unread.
    """

    kind: str
    slug: str
    use_count: int = 0
    last_used_at: datetime | None = None
    source_breakdown: Mapping[str, int] = field(default_factory=dict)
    resident_exposure_count: int = 0
    estimated_tokens_per_injection: int | None = None
    estimated_total_resident_exposure_tokens: int = 0
    file_bytes: int | None = None
    file_tokens_estimate: int | None = None
    first_used_at: datetime | None = None
    maintenance_use_count: int = 0
    last_exposed_at: datetime | None = None
    mean_tokens_per_injection: float | None = None
    unmeasured_exposure_count: int = 0
    session_count: int | None = None
    coalesced_use_count: int | None = None
    resident: bool | None = None
    status: Status = "unknown"
    age_days: int | None = None
    tokenizers: tuple[str, ...] = ()
    user_level: bool = False
    file_bytes_at_injection: int | None = None
    """The file's size at the placing that ``estimated_tokens_per_injection`` is of."""

    @property
    def name(self) -> str:
        """``kind/slug``."""
        return f"{self.kind}/{self.slug}"


class Route(NamedTuple):
    """By which route a record came into a context: the kind of event, its source, whether for maintenance."""

    event: str
    source: str
    maintenance: bool


History = Mapping[tuple[str, str], Mapping[str, Mapping[Route, int]]]
"""Of each record the events by day (``YYYY-MM-DD``, in order; ``undated`` last) and route."""


@dataclass(frozen=True, slots=True)
class SourceCoverage:
    """What one source contributed: how many events, from when to when."""

    events: int
    first: datetime | None
    last: datetime | None


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the figures rest on, and everything that was met and not counted."""

    log_state: LogState
    inventory_state: InventoryState
    first_event_at: datetime | None = None
    last_event_at: datetime | None = None
    events: int = 0
    sessions: int = 0
    sources: Mapping[str, SourceCoverage] = field(default_factory=dict)
    silent_sources: tuple[str, ...] = ()
    damaged_lines: int = 0
    recovered_events: int = 0
    duplicate_events: int = 0
    conflicting_events: int = 0
    search_events: int = 0
    unknown_events: int = 0
    clock_skewed_events: int = 0
    undated_events: int = 0
    maintenance_events: int = 0
    read_sources: Mapping[str, SourceCoverage] = field(default_factory=dict)
    """The sources by which reads came that count as uses: neither exposures nor maintenance's reads."""


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """One record in a review list, with its evidence in words."""

    record: RecordUsage
    evidence: str


@dataclass(frozen=True, slots=True)
class Review:
    """Three ranked lists of evidence. No thresholds, no verdicts: an empty list means no such record."""

    knowledge_candidates: tuple[ReviewItem, ...]
    tidy_protection: tuple[ReviewItem, ...]
    resident_review: tuple[ReviewItem, ...]


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Per-record figures, sorted by kind and slug, and the coverage behind them."""

    records: tuple[RecordUsage, ...]
    coverage: Coverage
    generated_at: datetime
    limited: bool = False
    """Whether uses by some sources were left out, so that nothing can be called unused."""
    whole: bool = True
    """Whether all of the log's time was counted, not a period of it."""
    aliases: Mapping[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    """Older names of records, by which they can be asked for too."""
    history: History | None = None
    """The events by day, where ``build_report(history=)`` asked for them."""

    def __getitem__(self, key: tuple[str, str]) -> RecordUsage:
        kind, slug = self.aliases.get((key[0], normal_slug(key[1])), (key[0], normal_slug(key[1])))
        for record in self.records:
            if record.kind == kind and record.slug == slug:
                return record
        raise KeyError(f"no record {kind}/{slug} in this report")

    def get(self, kind: str, slug: str) -> RecordUsage | None:
        """The record's figures, or ``None`` where the report has no such record."""
        try:
            return self[kind, slug]
        except KeyError:
            return None

    @property
    def never_read(self) -> tuple[RecordUsage, ...]:
        """Records that exist and were not explicitly read in what the log covers.

        Absence is no proof of disuse: see ``coverage`` for the sources and the time it rests on.
        User-level records are left out; other workspaces may use them. Empty where the report is limited
        to some sources.
        """
        if self.limited:
            return ()
        return tuple(
            r for r in self.records if r.status == "present" and r.use_count == 0 and not r.user_level
        )

    def review(self) -> Review:
        """The evidence ranked for those who tend the memory."""
        from memtally.report.review import review  # noqa: PLC0415 - the two modules know each other

        return review(self)
