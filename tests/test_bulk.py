"""Counting in bulk gives what counting one by one gives, on any log, in any pieces, by any number of processes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import SOAK
from logs import NOW, random_log
from memtally.ledger import ids as ids_module
from memtally.ledger import reader
from memtally.ledger.reader import ReadCounts, open_logs
from memtally.report import bulk, counting, fresh, repeats, sharing, survey
from memtally.report.each import add_each
from memtally.report.tally import Filters, Tally

ALIASES = {("decision", "a"): ("decision", "b"), ("knowledge", "c-1"): ("decision", "c-2")}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds so small that a short log meets all of them."""
    for module, name, value in (
        (reader, "_BLOCK", 6_000),
        (reader, "_FIRST_LOOK", 64),
        (survey, "_EDGE", 2),
        (survey, "_RUN", 40),
        (ids_module, "_SAMPLED", 4),
        (ids_module, "_MOST_AT_ONCE", 16),
        (repeats, "_MOST_AT_ONCE", 8),
        (counting, "_MOST_SHAPES", 40),
        (counting, "_MOST_MIDDLES", 8),
        (counting, "_FEW", 4),
        (counting, "_PAUSE", 3),
        (fresh, "_MOST_SINGLES", 3),
        (sharing, "WORTH_SHARING", 0),
        (sharing, "_SHARE", 10_000),
    ):
        monkeypatch.setattr(module, name, value)


def settings(randomly: random.Random) -> Callable[[], Tally]:
    """A tally as some report may want it."""
    since, until = sorted(NOW - randomly.randrange(0, 40_000_000_000) for _ in range(2))
    period = randomly.choice([Filters(), Filters(), Filters(since=since), Filters(since, until)])
    aliases = randomly.choice([{}, {}, ALIASES])
    return lambda: Tally(now=NOW, aliases=aliases, period=period)


def figures(tally: Tally) -> dict[str, Any]:
    """All that a tally has counted."""
    return {
        name: getattr(tally, name)
        for name in (
            "cells",
            "counted",
            "sessions",
            "duplicates",
            "conflicts",
            "searches",
            "unknown",
            "skewed",
            "undated",
        )
    }


def one_by_one(paths: list[Path], make: Callable[[], Tally]) -> tuple[dict[str, Any], ReadCounts]:
    """What the plain way counts."""
    with open_logs(paths) as logs:
        counts = ReadCounts()

        def read() -> Iterator[Any]:
            counts.damaged_lines = counts.recovered_events = 0
            yield from logs.read(counts)

        return figures(add_each(read, make)), counts


def in_bulk(
    paths: list[Path], make: Callable[[], Tally], processes: int
) -> tuple[dict[str, Any], ReadCounts]:
    """What the report's way counts."""
    with open_logs(paths) as logs:
        found = bulk.count(logs, bulk.whole(logs), make, processes)
        return figures(found.tally), found.counts


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(60 * SOAK))
def test_bulk_counts_what_one_by_one_counts(seed: int, tmp_path: Path) -> None:
    """On damaged logs with repeats and conflicts, in one to three files, both ways have equal results."""
    randomly = random.Random(seed)
    paths = []
    for number in range(randomly.choice([1, 1, 2, 3])):
        path = tmp_path / f"{number}.jsonl"
        jitter, odd = randomly.choice([0, 0, 5, 4_000]), randomly.choice([0, 0.02, 0.1, 0.6])
        path.write_bytes(random_log(randomly, randomly.randrange(250), jitter=jitter, odd=odd))
        paths.append(path)
    if randomly.random() < 0.3:
        paths.append(paths[0])
    make = settings(randomly)
    assert in_bulk(paths, make, randomly.choice([1, 1, 3])) == one_by_one(paths, make)
