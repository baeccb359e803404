"""The bars, as data, and whether they were met."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.harness import Figure

__all__ = ["BARS", "TRACING", "Bar", "Verdict", "judge"]

TRACING = ("console spans", "logfire", "traceloop", "openinference", "langfuse", "mlflow")
"""Tracing peers that persist what they record."""

_OFFICIAL = ("otlp-json-file", "otlp-json-file, flat")


@dataclass(frozen=True)
class Bar:
    """A bound on a figure, or on its ratio to the best of the figures in ``against``.

    The best is the lowest, a time; with ``at_least`` the bound is one from below and the best the highest, a
    rate.
    """

    row: str
    what: str
    measured: str
    limit: float
    against: tuple[str, ...] = ()
    at_least: bool = False


BARS = (
    Bar(
        "report",
        "typical: 1.5 times faster than Rust serde, one thread",
        "typical: memtally",
        1 / 1.5,
        ("typical: rust owned", "typical: rust borrowed"),
    ),
    Bar(
        "report",
        "typical: faster than DuckDB, two threads",
        "typical: memtally",
        1.0,
        ("typical: duckdb 2 threads",),
    ),
    Bar(
        "report",
        "worst: not slower than Rust serde, one thread",
        "worst: memtally",
        1.0,
        ("worst: rust owned", "worst: rust borrowed"),
    ),
    Bar("report", "typical: memory below 100 MiB", "typical: peak memory (PSS)", 100.0),
    Bar("report", "worst: memory below 100 MiB", "worst: peak memory (PSS)", 100.0),
    Bar("report", "typical: at most 16 bytes an event", "typical: growth", 16.0),
    Bar("report", "worst: at most 16 bytes an event", "worst: growth", 16.0),
    Bar("warm", "under 1.5 times an empty log", "1,000 new events", 1.5, ("empty log",)),
    Bar("read", "under twice a bare SDK emit", "memtally read", 2.0, ("SDK emit, no-op exporter",)),
    Bar("read", "4 times cheaper than the official file exporter", "memtally read", 1 / 4, _OFFICIAL),
    Bar("read", "faster than every tracing peer that persists", "memtally read", 1.0, TRACING),
    *(
        Bar("start", f"{what}: under 4 times python -c pass", f"hook: {what}", 4.0, ("python -c pass",))
        for what in ("a record is read", "another file is read", "a session starts", "an answer of 10 MB")
    ),
    Bar("start", "no OpenTelemetry, rich or tokenizer", "heavy packages loaded", 0.0),
    Bar("tokens", "unchanged record under 5 us", "unchanged record, text read anew", 5.0),
    Bar("tokens", "first exact count of 8 KB under 1 ms", "first count of 8 KB, memtally", 1_000.0),
    Bar("processes", "no event lost, damaged or doubled by reads", "memtally read, amiss", 0.0),
    Bar("processes", "no event lost, damaged or doubled by the writer", "memtally writer, amiss", 0.0),
    Bar(
        "processes",
        "reads: 3 times the official file exporter",
        "memtally read",
        3.0,
        ("otlp-json-file",),
        at_least=True,
    ),
    Bar(
        "processes",
        "writer alone: 10 times the official file exporter",
        "memtally writer",
        10.0,
        ("otlp-json-file",),
        at_least=True,
    ),
)


@dataclass(frozen=True)
class Verdict:
    """A bar and what came of it; ``value`` is ``None`` where it could not be measured."""

    bar: Bar
    value: float | None
    peer: str = ""

    @property
    def text(self) -> str:
        """In words: met, or missed by how much."""
        if self.value is None:
            return "not measured"
        limit = self.bar.limit
        if self.value >= limit if self.bar.at_least else self.value <= limit:
            return "met"
        if not limit:
            return f"missed: {self.value:g}"
        by = 1 - self.value / limit if self.bar.at_least else self.value / limit - 1
        return f"missed by {100 * by:.0f} %"


def judge(row: str, figures: Mapping[str, Figure]) -> list[Verdict]:
    """The verdicts on a row's bars, from the medians."""
    return [_verdict(bar, figures) for bar in BARS if bar.row == row]


def _verdict(bar: Bar, figures: Mapping[str, Figure]) -> Verdict:
    if bar.measured not in figures:
        return Verdict(bar, None)
    value = figures[bar.measured].median
    if not bar.against:
        return Verdict(bar, value)
    present = {name: figures[name].median for name in bar.against if name in figures}
    if not present:
        return Verdict(bar, None)
    peer = (max if bar.at_least else min)(present, key=lambda name: present[name])
    return Verdict(bar, value / present[peer], peer)
