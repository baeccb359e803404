"""Sources that have stopped recording, by the days on which the others went on. Pure.

It is about recording, never about a record: a read path that lost its hook says nothing any more, and looks
like one that nobody uses. A day counts on which anything was recorded, so that holidays are no silence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Silence", "silences"]

_HABIT = 5
"""Active days on which a source must have recorded before its silence says anything."""
_CHANCE = 0.01
"""How likely such a silence may be, by the source's own habit, and still be told."""


@dataclass(frozen=True, slots=True)
class Silence:
    """It recorded on ``seen`` of ``span`` active days until ``last``, and on none of ``silent`` since."""

    source: str
    last: str
    seen: int
    span: int
    silent: int


def silences(seen: Iterable[tuple[str, str]]) -> list[Silence]:
    """The silent sources among (day, source) pairs, in the order of their names; days sort as their texts."""
    by_source: dict[str, set[str]] = {}
    for day, source in seen:
        by_source.setdefault(source, set()).add(day)
    active = sorted(set().union(*by_source.values()))
    at = {day: number for number, day in enumerate(active)}
    found = []
    for source, days in sorted(by_source.items()):
        first, last = min(days), max(days)
        span, silent = at[last] - at[first] + 1, len(active) - 1 - at[last]
        # as if each active day had its chance of being without it (Laplace's rule of succession)
        missing = 1 - (len(days) + 1) / (span + 2)
        if len(days) >= _HABIT and missing**silent < _CHANCE:
            found.append(Silence(source, last, len(days), span, silent))
    return found
