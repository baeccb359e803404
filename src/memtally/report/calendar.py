"""Which day a time belongs to, in a time zone with all its changes of offset. Pure.

Times are texts as in ``report.tally``: RFC 3339 in UTC with six fraction digits.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, tzinfo

from memtally.report._text import local

__all__ = ["UNDATED_DAY", "Calendar"]

UNDATED_DAY = "undated"
"""The day of an event without a usable time."""


class Calendar:
    """The days of one zone, each worked out once."""

    def __init__(self, zone: tzinfo) -> None:
        self.zone = zone
        self._ends: dict[str, str] = {}

    def day(self, stamp: str) -> str:
        """The day of a time, ``YYYY-MM-DD``; ``undated`` for none."""
        if not stamp:
            return UNDATED_DAY
        if self.zone is UTC:
            return stamp[:10]
        at = local(datetime.fromisoformat(stamp), self.zone)
        return f"{at.year:04d}-{at:%m-%d}"

    def end(self, day: str) -> str:
        """The first time behind a day, or "" where it is not certain that all of a day lies together.

        A clock that is put back at midnight comes into the old day again (St. John's did, at 00:01), so days
        on which the offset changes have no end here: look at each time's own day.
        """
        if self.zone is UTC:
            return f"{day}~"  # behind every time that begins with the day
        end = self._ends.get(day)
        if end is None:
            end = self._ends[day] = self._find_end(day)
        return end

    def _find_end(self, day: str) -> str:
        try:
            start = datetime.combine(datetime.fromisoformat(day), time(), self.zone)
            noons = [(start + timedelta(days=n)).replace(hour=12) for n in (-1, 0, 1)]
            if len({noon.utcoffset() for noon in noons}) > 1:
                return ""
            end = (start + timedelta(days=1)).astimezone(UTC)
        except (OverflowError, ValueError):
            return ""
        return f"{end.year:04d}-{end:%m-%dT%H:%M:%S}.{end.microsecond:06d}Z"
