"""One record over time: its events by day and source."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo

from memtally.events import UsageEvent, normal_slug
from memtally.ledger.reader import ReadCounts
from memtally.report._text import local
from memtally.report.build import LogSource, open_source
from memtally.report.each import add_each
from memtally.report.tally import Filters, Tally, is_counted, stamp_of

__all__ = ["UNDATED_DAY", "days_of", "record_days"]

UNDATED_DAY = "undated"


class _Days:
    """The events of one record by day and source."""

    def __init__(self, key: tuple[str, str], settings: Tally, zone: tzinfo) -> None:
        self.duplicates = self.conflicts = 0
        self.days: dict[str, dict[str, int]] = {}
        self._key = settings.aliases.get(key, key)
        self._settings = settings
        self._zone = zone

    def add(self, event: UsageEvent) -> None:
        """Count an event, if it is one of the record's."""
        aliases = self._settings.aliases
        if not is_counted(event) or self._key not in (aliases.get(s.key, s.key) for s in event.records):
            return
        stamp = "" if event.occurred_at is None else stamp_of(event.occurred_at)
        if self._settings.holds(stamp):
            # every time is taken as it stands: whether it lies in the future is the report's to say
            at = (
                local(datetime.fromisoformat(stamp), self._zone).strftime("%Y-%m-%d")
                if stamp
                else UNDATED_DAY
            )
            source = f"{event.source} (maintenance)" if event.actor == "maintenance" else event.source
            sources = self.days.setdefault(at, {})
            sources[source] = sources.get(source, 0) + 1


def record_days(
    kind: str,
    slug: str,
    workspace: str | os.PathLike[str] | None = None,
    *,
    logs: Iterable[str | os.PathLike[str]] | None = None,
    zone: tzinfo = UTC,
) -> dict[str, dict[str, int]]:
    """Events of one record for each day (``YYYY-MM-DD`` in ``zone``) and source, in order.

    Events without a usable time stand under ``undated``. Raises as ``build_report`` does.
    """
    with open_source(workspace, logs) as source:
        return days_of(source, (kind, normal_slug(slug)), Filters(), zone)


def days_of(
    source: LogSource, key: tuple[str, str], filters: Filters, zone: tzinfo
) -> dict[str, dict[str, int]]:
    """The same over an open source, within a period."""
    settings = Tally(aliases=source.config.aliases, period=filters)
    days = add_each(lambda: source.logs.read(ReadCounts()), lambda: _Days(key, settings, zone)).days
    return {day: dict(sorted(days[day].items())) for day in sorted(days)}
