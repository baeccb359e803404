"""Counting in bulk gives what counting one by one gives, on any log, in any pieces, by any number of processes."""

from __future__ import annotations

import os
import random
import subprocess
import textwrap
import threading
from collections.abc import Callable, Iterator
from datetime import UTC
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from conftest import SOAK
from logs import NOW, random_log
from memtally.ledger import decode, reader
from memtally.ledger import ids as ids_module
from memtally.ledger.reader import ReadCounts, open_logs
from memtally.report import bulk, counting, fresh, repeats, sharing, survey
from memtally.report.calendar import Calendar
from memtally.report.each import add_each
from memtally.report.tally import Filters, Tally
from test_bench import generated

ALIASES = {("decision", "a"): ("decision", "b"), ("knowledge", "c-1"): ("decision", "c-2")}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds so small that a short log meets all of them."""
    for module, name, value in (
        (reader, "_BLOCK", 6_000),
        (reader, "_PIECE", 6_000),
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
    zone = randomly.choice([None, None, UTC, ZoneInfo("America/New_York")])
    calendar = None if zone is None else Calendar(zone)
    return lambda: Tally(now=NOW, aliases=aliases, period=period, calendar=calendar)


def figures(tally: Tally) -> dict[str, Any]:
    """All that a tally has counted."""
    return {"days": {day: number for day, number in tally.days.items() if number}} | {
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


@pytest.fixture
def shared_log(small: None, tmp_path: Path) -> Path:
    """A log that is large enough to be shared among processes."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(random_log(random.Random(1), 300, jitter=5))
    return path


def no_child_is_left() -> bool:
    """Whether this process has no children, not even ended ones."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


@pytest.mark.parametrize("fails", ["state_of", "_taken", "fork"])
def test_where_a_child_fails_this_process_counts_it_all(
    shared_log: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """A child that dies, at the start or when it is done, or cannot be made, costs time and nothing else."""
    parent, taken = os.getpid(), sharing._taken

    def dies(*arguments: Any) -> Any:
        if os.getpid() != parent:
            os._exit(3)
        return taken(*arguments)

    def refuses() -> int:
        raise OSError(11, "Resource temporarily unavailable")

    if fails == "fork":
        monkeypatch.setattr(os, "fork", refuses)
    else:
        monkeypatch.setattr(sharing, fails, dies)
    assert in_bulk([shared_log], Tally, 3) == one_by_one([shared_log], Tally)
    assert no_child_is_left()


def test_a_process_with_threads_is_not_forked(shared_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that another thread holds would be held in the child for ever."""
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("forked"))
    leave = threading.Event()
    thread = threading.Thread(target=leave.wait)
    thread.start()
    try:
        assert in_bulk([shared_log], Tally, 3) == one_by_one([shared_log], Tally)
    finally:
        leave.set()
        thread.join()


def test_children_take_shares_and_are_gone(shared_log: Path) -> None:
    """With three processes two are forked; afterwards none is left, and the figures are the same."""
    assert in_bulk([shared_log], Tally, 3) == one_by_one([shared_log], Tally)
    assert no_child_is_left()


def test_memory_does_not_hold_the_ids_of_an_ordered_log(small: None, tmp_path: Path) -> None:
    """Of a log in order only the edges of its pieces are kept; of version 5 ids sixteen bytes each."""
    lines = [text.encode() for text in generated("typical", 400)]
    pieces = -(-sum(map(len, lines)) // 5_000)
    (tmp_path / "ordered.jsonl").write_bytes(b"".join(lines))
    (tmp_path / "random.jsonl").write_bytes(b"".join(text[:21] + b"5" + text[22:] for text in lines))
    for name, loose in (("ordered", 4 * pieces), ("random", len(lines))):
        with open_logs([tmp_path / f"{name}.jsonl"]) as logs:
            found = bulk.count(logs, bulk.whole(logs), Tally)
        assert sum(map(len, found.runs)) <= 16 * loose
        assert found.tally.duplicates == 0


def test_children_that_the_system_reaps_are_no_error(
    shared_log: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """Where SIGCHLD is ignored, as some daemons leave it, the counting is the same."""
    code = textwrap.dedent(
        f"""
        import signal
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        from memtally.ledger.reader import open_logs
        from memtally.report import bulk, sharing
        from memtally.report.tally import Tally
        sharing.WORTH_SHARING = 0
        sharing._SHARE = 10_000
        with open_logs([{str(shared_log)!r}]) as logs:
            found = [bulk.count(logs, bulk.whole(logs), Tally, number).tally for number in (1, 3)]
        assert found[0] == found[1]
        print(found[0].span.events)
        """
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 200


def test_very_many_small_files_are_put_together() -> None:
    """Shares are as large as they should be, however small the files; none is lost and none is twice."""
    ranges = [(number, 0, 700 + number % 3) for number in range(20_000)] + [(20_000, 5, 40_000_000)]
    shares = sharing._cut(ranges, 60_000)
    assert len(shares) < 1_000
    taken = [piece for one in shares for piece in one]
    assert sum(end - start for _, start, end in taken) == sum(end - start for _, start, end in ranges)
    assert [piece for piece in taken if piece[0] == 7] == [(7, 0, 701)]
    assert all(sum(end - start for _, start, end in one) == 60_000 for one in shares[:-1])


def test_a_decoder_of_another_version_fails_in_its_own_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the oldest msgspec its errors are no ``ValueError``: a strange tail is counted alone all the same."""

    class Older:
        def decode_lines(self, _: bytes) -> Any:
            raise msgspec.MsgspecError("not a ValueError")

        decode = decode_lines

    path = tmp_path / "log.jsonl"
    path.write_bytes(random_log(random.Random(3), 50))
    monkeypatch.setattr(decode, "_tail_decoder", Older())
    assert in_bulk([path], Tally, 1) == one_by_one([path], Tally)
