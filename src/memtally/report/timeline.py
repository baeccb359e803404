"""One record over time: its events by day and source."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, tzinfo

from memtally.events import normal_slug
from memtally.report.build import build_report
from memtally.report.model import UsageReport

__all__ = ["days_of", "record_days"]


def record_days(
    kind: str,
    slug: str,
    workspace: str | os.PathLike[str] | None = None,
    *,
    logs: Iterable[str | os.PathLike[str]] | None = None,
    zone: tzinfo = UTC,
) -> dict[str, dict[str, int]]:
    """Events of one record for each day (``YYYY-MM-DD`` in ``zone``) and source, in order.

    Every time is taken as it stands, also one in the future; events without a usable time stand under
    ``undated``. Raises as ``build_report`` does.
    """
    return days_of(build_report(workspace, logs=logs, history=zone), kind, slug)


def days_of(report: UsageReport, kind: str, slug: str) -> dict[str, dict[str, int]]:
    """The same out of a report that was made with ``history``; maintenance's sources are marked as such."""
    key = (kind, normal_slug(slug))
    found = (report.history or {}).get(report.aliases.get(key, key), {})
    days: dict[str, dict[str, int]] = {}
    for day, routes in found.items():
        by: dict[str, int] = {}
        for route, number in routes.items():
            source = f"{route.source} (maintenance)" if route.maintenance else route.source
            by[source] = by.get(source, 0) + number
        days[day] = dict(sorted(by.items()))
    return days
