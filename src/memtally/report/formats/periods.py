"""Days put together to as many periods as a small chart has room for; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta

from memtally.events import EXPOSURE
from memtally.report.calendar import UNDATED_DAY
from memtally.report.model import Route

__all__ = ["Period", "periods", "sort_of"]

_MOST = 31


@dataclass(frozen=True, slots=True)
class Period:
    """A ``unit`` of time (day, week, month, year), the date it begins with, and its events by sort."""

    unit: str
    name: str
    events: dict[str, int] = field(default_factory=dict)


def sort_of(route: Route) -> str:
    """What an event by that route is: one of the uses, of maintenance's reads or of the exposures."""
    return "exposures" if route.event == EXPOSURE else "maintenance" if route.maintenance else "uses"


def periods(days: Mapping[str, Mapping[Route, int]]) -> list[Period]:
    """From the first to the last, those without events too; events without a usable time stand last.

    Days where there are few enough from the first to the last, otherwise weeks from Monday, months or years.
    """
    dated = sorted(date.fromisoformat(day) for day in days if day != UNDATED_DAY)
    found: list[Period] = []
    if dated:
        unit = next((u for u in ("day", "week", "month") if _number(u, dated[0], dated[-1]) <= _MOST), "year")
        start, end = _start(unit, dated[0]), _start(unit, dated[-1])
        found.append(Period(unit, _name(unit, start)))
        while start < end:
            start = _next(unit, start)
            found.append(Period(unit, _name(unit, start)))
        if len(found) > _MOST:  # a clock that was years off: only years with events
            years = {_name(unit, day) for day in dated}
            found = [period for period in found if period.name in years]
    at = {period.name: period for period in found}
    for day, routes in days.items():
        if day == UNDATED_DAY:
            at[day] = Period("day", day)
            found.append(at[day])
        name = day if day == UNDATED_DAY else _name(unit, _start(unit, date.fromisoformat(day)))
        events = at[name].events
        for route, number in routes.items():
            events[sort_of(route)] = events.get(sort_of(route), 0) + number
    return found


def _number(unit: str, first: date, last: date) -> int:
    """How many periods there are from one day to another."""
    if unit == "month":
        return (last.year - first.year) * 12 + last.month - first.month + 1
    return (_start(unit, last) - _start(unit, first)).days // (7 if unit == "week" else 1) + 1


def _start(unit: str, day: date) -> date:
    if unit == "week":
        return day - timedelta(days=day.weekday())  # the first day of all is a Monday
    return day.replace(day=1) if unit == "month" else day.replace(month=1, day=1) if unit == "year" else day


def _next(unit: str, start: date) -> date:
    if unit in ("day", "week"):
        return start + timedelta(days=7 if unit == "week" else 1)
    month = start.month % 12 + 1 if unit == "month" else 1
    return start.replace(year=start.year + (month == 1), month=month)


def _name(unit: str, start: date) -> str:
    return start.isoformat()[: {"month": 7, "year": 4}.get(unit, 10)]
