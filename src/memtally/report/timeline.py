"""One record over time: its events by day and source."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, tzinfo

from memtally.events import RecordSnapshot, UsageEvent, normal_slug
from memtally.report._text import local
from memtally.report.build import LogSource, moment, open_source
from memtally.report.tally import Filters, Tally, tally_events

__all__ = ["UNDATED_DAY", "days_of", "record_days"]

UNDATED_DAY = "undated"


@dataclass(slots=True)
class _DayTally(Tally):
    key: tuple[str, str] = ("", "")
    zone: tzinfo = UTC
    days: dict[str, dict[str, int]] = field(default_factory=dict)

    def _add_record(
        self, key: tuple[str, str], snapshot: RecordSnapshot, event: UsageEvent, dated: int | None
    ) -> None:
        if key != self.key:
            return
        at = moment(dated)
        day = UNDATED_DAY if at is None else local(at, self.zone).strftime("%Y-%m-%d")
        source = f"{event.source} (maintenance)" if event.actor == "maintenance" else event.source
        sources = self.days.setdefault(day, {})
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
    aliases = source.config.aliases

    def make() -> _DayTally:
        # every time is taken as it stands: whether it lies in the future is the report's to say
        return _DayTally(filters=filters, key=aliases.get(key, key), zone=zone, now=2**62, aliases=aliases)

    tally = tally_events(source.read, make)
    assert isinstance(tally, _DayTally)
    return {day: dict(sorted(tally.days[day].items())) for day in sorted(tally.days)}
