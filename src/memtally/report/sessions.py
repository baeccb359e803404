"""Sessions and coalesced uses per record. Auxiliary: there are about as many such pairs as there are uses."""

from __future__ import annotations

from dataclasses import dataclass

from memtally.events import USE, UsageEvent
from memtally.ledger.reader import OpenLogs, ReadCounts
from memtally.report.each import add_each
from memtally.report.tally import Filters, Tally, is_counted, stamp_of

__all__ = ["SessionCounts", "count_sessions"]

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class SessionCounts:
    """In how many sessions a record was used, and its uses with consecutive ones of one session as one."""

    sessions: int = 0
    coalesced_uses: int = 0


class _Moments:
    """The uses of each record by a tally's rules: when, which event, in which session."""

    def __init__(self, settings: Tally, filters: Filters) -> None:
        self.duplicates = self.conflicts = 0
        self.uses: dict[Key, list[tuple[str, str, str | None]]] = {}
        self._settings = settings
        self._filters = filters

    def add(self, event: UsageEvent) -> None:
        """Keep a use."""
        stamp = "" if event.occurred_at is None else stamp_of(event.occurred_at)
        filters = self._filters
        if event.event != USE or event.actor == "maintenance" or not is_counted(event):
            return
        if not self._settings.holds(stamp):
            return
        if filters.sources is not None and event.source not in filters.sources:
            return
        at = (stamp if stamp <= self._settings.horizon else "", event.id, event.session_id)
        for key in {self._settings.aliases.get(snapshot.key, snapshot.key) for snapshot in event.records}:
            if filters.kinds is None or key[0] in filters.kinds:
                self.uses.setdefault(key, []).append(at)


def count_sessions(logs: OpenLogs, settings: Tally, filters: Filters) -> dict[Key, SessionCounts]:
    """The counts per record. ``settings``: a tally with the time, the aliases and the period."""
    moments = add_each(lambda: logs.read(ReadCounts()), lambda: _Moments(settings, filters))
    return {key: _counts(uses) for key, uses in moments.uses.items()}


def _counts(uses: list[tuple[str, str, str | None]]) -> SessionCounts:
    runs, before = 0, None
    for _, _, session in sorted(uses, key=lambda use: use[:2]):
        runs += session is None or session != before  # a use without a session stands alone
        before = session
    return SessionCounts(len({session for _, _, session in uses if session is not None}), runs)
