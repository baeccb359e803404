"""One record over time: its events by day and source."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo

from memtally.events import RecordSnapshot, UsageEvent, normal_slug
from memtally.report.build import microseconds, moment, open_logs
from memtally.report.tally import Filters, Tally, tally_events

__all__ = ["UNDATED_DAY", "record_days"]

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
        day = UNDATED_DAY if at is None else at.astimezone(self.zone).strftime("%Y-%m-%d")
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
    since: datetime | None = None,
    until: datetime | None = None,
) -> dict[str, dict[str, int]]:
    """Events of one record for each day (``YYYY-MM-DD`` in ``zone``) and source, in order.

    Events without a usable time stand under ``undated``. Raises as ``build_report`` does.
    """
    source = open_logs(workspace, logs)
    filters = Filters(
        since=None if since is None else microseconds(since),
        until=None if until is None else microseconds(until),
    )

    def make() -> _DayTally:
        key = source.config.aliases.get((kind, normal_slug(slug)), (kind, normal_slug(slug)))
        # every time is taken as it stands: whether it lies in the future is the report's to say
        return _DayTally(filters=filters, key=key, zone=zone, now=2**62, aliases=source.config.aliases)

    tally = tally_events(source.read, make)
    assert isinstance(tally, _DayTally)
    return {day: dict(sorted(tally.days[day].items())) for day in sorted(tally.days)}
