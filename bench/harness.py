"""Figures, and the interleaved rounds in which they are measured."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec

__all__ = ["Absent", "Figure", "Outcome", "Settings", "Subject", "interleave", "need", "say"]


class Absent(Exception):
    """A peer that cannot be measured here, and why."""


@dataclass
class Settings:
    """What a run was asked for. ``rounds`` and ``events`` of 0: each row's own."""

    rounds: int = 0
    events: int = 0
    quick: bool = False

    def rounds_or(self, usual: int, quick: int) -> int:
        """The number of rounds: what was asked for, else the row's own."""
        return self.rounds or (quick if self.quick else usual)

    def events_or(self, usual: int, quick: int) -> int:
        """The number of events: what was asked for, else the row's own."""
        return self.events or (quick if self.quick else usual)


@dataclass
class Figure:
    """What was measured of one subject, round by round."""

    unit: str
    values: list[float]
    remark: str = ""

    @property
    def median(self) -> float:
        """The middle value."""
        return statistics.median(self.values)


@dataclass
class Outcome:
    """A row's figures, what could not be measured and why, and what else there is to say."""

    row: str
    settings: dict[str, object] = field(default_factory=dict)
    figures: dict[str, Figure] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def add(self, name: str, unit: str, values: Sequence[float], remark: str = "") -> None:
        """Keep a subject's figures; none at all means that it was absent."""
        if values:
            self.figures[name] = Figure(unit, list(values), remark)


_SAY_EVERY = 5.0

Subject = Callable[[], float]
"""One measurement. Raises ``Absent`` where it cannot be made."""


def say(text: str) -> None:
    """Tell the one who waits how far it is."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def interleave(
    subjects: Mapping[str, Subject],
    rounds: int,
    absent: dict[str, str],
    *,
    once: frozenset[str] = frozenset(),
) -> dict[str, list[float]]:
    """Measure A B C, A B C, ...: what slows the machine for a while slows all alike.

    Who is absent, or fails, is left out from then on, and the reason is put into ``absent``. Subjects in
    ``once`` are measured in the first round only.
    """
    values: dict[str, list[float]] = {name: [] for name in subjects}
    said = time.monotonic()
    for number in range(rounds):
        for name, measure in subjects.items():
            if name in absent or (number and name in once):
                continue
            try:
                values[name].append(measure())
            except Absent as reason:
                absent[name] = str(reason)
            except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
                absent[name] = f"failed: {_in_short(error)}"
                say(f"  {name}: {absent[name]}")
        if time.monotonic() - said > _SAY_EVERY:
            say(f"  round {number + 1} of {rounds}")
            said = time.monotonic()
    return {name: measured for name, measured in values.items() if name not in absent}


def _in_short(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        last = (str(error.stderr or "").strip().splitlines() or [""])[-1]
        text = f"exit code {error.returncode}: {last}"
    elif isinstance(error, subprocess.TimeoutExpired):
        text = f"no end within {error.timeout:g} s"
    else:
        text = f"{type(error).__name__}: {error}"
    return text[:200]


def need(module: str, package: str = "") -> None:
    """Raise ``Absent`` where a Python package is not installed."""
    try:
        found = find_spec(module) is not None
    except ImportError:  # a parent package is missing
        found = False
    if not found:
        raise Absent(f"{package or module} is not installed")
