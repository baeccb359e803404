"""An event id counts once, however often it is met: which events were met before."""

from __future__ import annotations

from collections.abc import Set
from typing import Literal

from memtally.events import UsageEvent, encode_event

__all__ = ["SeenEvents"]


class SeenEvents:
    """Remembers each id with a hash of what it came with; some 200 bytes an id."""

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        self._others: dict[str, set[int]] = {}

    def meet(self, event: UsageEvent) -> Literal["new", "duplicate", "conflict"]:
        """What an event is, after those met before: a conflict has a known id and content not met with it."""
        content = hash(encode_event(event))
        first = self._first.get(event.id)
        if first is None:
            self._first[event.id] = content
            return "new"
        if first == content or content in self._others.get(event.id, ()):
            return "duplicate"
        self._others.setdefault(event.id, set()).add(content)
        return "conflict"

    @property
    def conflicting(self) -> Set[str]:
        """The ids that were met with different contents."""
        return self._others.keys()
