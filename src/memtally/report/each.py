"""Each event of a log once, one after the other: the plain way, with memory for every id.

For what needs the events themselves, such as a record's days. The report counts in bulk (``report.bulk``),
with the same results: the tests hold the two against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import Protocol, TypeVar

from memtally.events import UsageEvent, encode_event
from memtally.ledger.seen import SeenEvents

__all__ = ["add_each", "rank"]


class Counting(Protocol):
    """What events can be added to."""

    duplicates: int
    conflicts: int

    def add(self, event: UsageEvent) -> None:
        """Count one event."""


C = TypeVar("C", bound=Counting)


def add_each(read: Callable[[], Iterable[UsageEvent]], make: Callable[[], C]) -> C:
    """Add the events that ``read()`` gives, each id once, to what ``make()`` gives.

    Both are called a second time if one id was met with different contents: of several versions of one
    event the earlier by (time, bytes) counts.
    """
    counting, seen = make(), SeenEvents()
    for event in read():
        met = seen.meet(event)
        if met == "new":
            counting.add(event)
        elif met == "duplicate":
            counting.duplicates += 1
    return _settled(read(), make(), seen.conflicting) if seen.conflicting else counting


def _settled(events: Iterable[UsageEvent], counting: C, conflicting: Set[str]) -> C:
    seen = SeenEvents()
    earliest: dict[str, tuple[tuple[bool, int, bytes], UsageEvent]] = {}
    for event in events:
        met = seen.meet(event)
        if met == "duplicate":
            counting.duplicates += 1
        elif event.id not in conflicting:
            counting.add(event)
        else:
            counting.conflicts += met == "conflict"
            ranked = rank(event)
            if event.id not in earliest or ranked < earliest[event.id][0]:
                earliest[event.id] = (ranked, event)
    for _, event in earliest.values():
        counting.add(event)
    return counting


def rank(event: UsageEvent) -> tuple[bool, int, bytes]:
    """By which the versions of one event are ordered: time, then bytes; an undated one is the latest."""
    return (event.occurred_at is None, event.occurred_at or 0, encode_event(event))
