"""Events by day: each day as its zone has it, every event once, the days' sums the report's figures."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from memtally.events import encode_event
from memtally.ledger.decode import decode_line
from memtally.report import UsageReport, build_report, counting, sharing
from memtally.report.model import Route
from memtally.report.support import covered_days, support
from memtally.report.timeline import days_of, record_days
from test_report import NOW, event, exposure

READ, FOR_MAINTENANCE = Route("use", "MemoryRead", False), Route("use", "MemoryRead", True)

# zones and moments around which their clocks change: half an hour, at midnight, at 00:01, a day left out
CHANGES = [
    ("UTC", "2026-03-29T01:00:00"),
    ("Europe/Berlin", "2026-03-29T01:00:00"),
    ("Europe/Berlin", "2026-10-25T01:00:00"),
    ("Australia/Lord_Howe", "2026-04-04T15:00:00"),
    ("America/St_Johns", "2010-11-07T02:31:00"),
    ("America/Havana", "2026-11-01T05:00:00"),
    ("Africa/Cairo", "2026-04-23T22:00:00"),
    ("Pacific/Apia", "2011-12-30T10:00:00"),
    ("Asia/Kathmandu", "2026-03-29T18:15:00"),
]


def report_of(path: Path, events: list[dict[str, Any]], **options: Any) -> UsageReport:
    """A report over these events, as the writer writes them: in bulk is only counted what has that form."""
    lines = []
    for one in events:
        line = json.dumps(one).encode()
        decoded = decode_line(line)[0]
        dated = decoded and decoded[0].occurred_at is not None
        lines.append(encode_event(decoded[0]) if dated else line + b"\n")
    path.write_bytes(b"".join(lines))
    return build_report(logs=[path], **{"now": NOW, **options})


def log_around(change: str, number: int, seed: int) -> list[dict[str, Any]]:
    """Reads of three records in the 80 hours around a moment, in the log's usual order, nearly."""
    randomly = random.Random(seed)
    start = datetime.fromisoformat(change).replace(tzinfo=UTC) - timedelta(hours=40)
    seconds = sorted(randomly.randrange(80 * 3600) for _ in range(number))
    return [
        event(
            at,
            randomly.choice("abc"),
            occurred_at=f"{start + timedelta(seconds=second):%Y-%m-%dT%H:%M:%S}.000000Z",
            source=randomly.choice(["MemoryRead", "KnowledgeRef"]),
            actor=randomly.choice(["agent", "agent", "maintenance"]),
        )
        for at, second in enumerate(seconds, 1)
    ]


def by_hand(events: list[dict[str, Any]], zone: tzinfo) -> Counter[tuple[str, str, Route]]:
    """How many events each record has on each day by each route, by the calendar of the zone itself."""
    found: Counter[tuple[str, str, Route]] = Counter()
    for one in events:
        day = datetime.fromisoformat(one["occurred_at"]).astimezone(zone).date().isoformat()
        maintenance = one.get("actor") == "maintenance"
        found[one["records"][0]["slug"], day, Route(one["event"], one["source"], maintenance)] += 1
    return found


def flat(made: UsageReport) -> Counter[tuple[str, str, Route]]:
    """A report's history as one counter."""
    assert made.history is not None
    return Counter(
        {
            (slug, day, route): number
            for (_, slug), days in made.history.items()
            for day, routes in days.items()
            for route, number in routes.items()
        }
    )


@pytest.mark.parametrize(("name", "change"), CHANGES)
@pytest.mark.parametrize("processes", [1, 3])
def test_every_day_is_the_zones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, change: str, processes: int
) -> None:
    """Around any change of a clock, in one process or several, days are those of the zone, and none is lost."""
    monkeypatch.setattr(sharing, "WORTH_SHARING", 0)
    monkeypatch.setattr(sharing, "_SHARE", 10_000)
    zone = ZoneInfo(name)
    events = log_around(change, 400, seed=len(name))
    made = report_of(tmp_path / "log.jsonl", events, history=zone, processes=processes)
    assert flat(made) == by_hand(events, zone)
    for record in made.records:
        days = made.history[record.kind, record.slug] if made.history else {}
        assert list(days) == sorted(days)
        uses = sum(n for by in days.values() for route, n in by.items() if not route.maintenance)
        assert uses == record.use_count
        assert sum(n for by in days.values() for n in by.values()) == uses + record.maintenance_use_count


def test_a_day_that_comes_twice_is_one(tmp_path: Path) -> None:
    """St. John's put its clock back from 00:01 to 23:01 in 2010: the first minute of the new day came twice."""
    events = [
        event(n, occurred_at=f"2010-11-07T{clock}.000000Z")
        for n, clock in enumerate(["02:29:59", "02:30:30", "02:31:00", "03:29:59", "03:30:00"], 1)
    ]
    # summer time is UTC-2:30, so 02:29:59 is 23:59:59 on the 6th, 02:30:30 is 00:00:30 on the 7th; then UTC-3:30
    made = report_of(tmp_path / "log.jsonl", events, history=ZoneInfo("America/St_Johns"))
    assert days_of(made, "decision", "a") == {
        "2010-11-06": {"MemoryRead": 3},
        "2010-11-07": {"MemoryRead": 2},
    }


def test_repeated_and_contradicting_events_count_on_one_day(tmp_path: Path) -> None:
    """An id that comes again, alike or with another time, counts once, on its first line's day."""
    twice, moved = event(1, day=3), event(1, day=9)
    made = report_of(tmp_path / "log.jsonl", [twice, twice, event(2, day=4), moved], history=UTC)
    assert (made.coverage.duplicate_events, made.coverage.conflicting_events) == (1, 1)
    assert days_of(made, "decision", "a") == {
        "2026-05-03": {"MemoryRead": 1},
        "2026-05-04": {"MemoryRead": 1},
    }


def test_routes_stand_apart(tmp_path: Path) -> None:
    """Uses, maintenance's reads and exposures of one day are three numbers; undated events stand last."""
    events = [
        event(1),
        event(2),
        event(3, actor="maintenance"),
        exposure(4),
        event(5, occurred_at="never"),
        event(6, occurred_at="2999-01-01T00:00:00.000000Z"),
    ]
    made = report_of(tmp_path / "log.jsonl", events, history=UTC)
    assert made.history is not None
    assert made.history["decision", "a"] == {
        "2026-05-01": {
            READ: 2,
            FOR_MAINTENANCE: 1,
            Route("resident_exposure", "ResidentInjection", False): 1,
        },
        "2999-01-01": {READ: 1},
        "undated": {READ: 1},
    }
    assert days_of(made, "decision", "a")["2026-05-01"] == {
        "MemoryRead": 2,
        "MemoryRead (maintenance)": 1,
        "ResidentInjection": 1,
    }


def test_history_keeps_to_the_filters(tmp_path: Path) -> None:
    """What a report leaves out of its figures is in no day either; without the wish there is no history."""
    events = [event(1, day=1), event(2, day=2), event(3, day=3, source="KnowledgeRef"), event(4, "b", day=2)]
    log = tmp_path / "log.jsonl"
    since = datetime(2026, 5, 2, tzinfo=UTC)
    made = report_of(log, events, history=UTC, since=since, sources=["MemoryRead"])
    assert flat(made) == {("a", "2026-05-02", READ): 1, ("b", "2026-05-02", READ): 1}
    assert report_of(log, events).history is None
    assert record_days("decision", "a", logs=[log], zone=ZoneInfo("Pacific/Kiritimati")) == {
        "2026-05-02": {"MemoryRead": 1},
        "2026-05-03": {"MemoryRead": 1},
        "2026-05-04": {"KnowledgeRef": 1},
    }


def test_many_days_in_small_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two years of days, with more kinds of lines than are kept at a time, add up to the same."""
    monkeypatch.setattr(counting, "_MOST_SHAPES", 4)
    randomly = random.Random(7)
    start = datetime(2024, 5, 1, tzinfo=UTC)
    events = [
        event(
            n,
            randomly.choice("abcdefgh"),
            occurred_at=f"{start + timedelta(hours=11 * n):%Y-%m-%dT%H:%M:%S}.000000Z",
        )
        for n in range(1_400)
    ]
    made = report_of(tmp_path / "log.jsonl", events, history=ZoneInfo("Asia/Tokyo"))
    assert flat(made) == by_hand(events, ZoneInfo("Asia/Tokyo"))


def test_how_far_the_log_supports_an_absence(tmp_path: Path) -> None:
    """A record's age beside the time in which reads were recorded: all of its life, a part, or unknown."""
    log = tmp_path / "log.jsonl"
    events = [exposure(1, day=1), event(2, day=5, actor="maintenance"), event(3, day=22)]
    made = report_of(log, events)  # from the first read to the 1st of June 00:00: nine whole days
    [record] = made.records
    assert covered_days(made) == 9
    for age, said in (
        (8, "reads are recorded since 2026-05-22, before the record was there: its whole life is covered"),
        (9, "reads are recorded since 2026-05-22, about when the record came"),
        (10, "reads are recorded since 2026-05-22: the 1 day before that are not covered"),
        (None, "reads are recorded since 2026-05-22; how long the record has been there is not known"),
    ):
        assert support(replace(record, age_days=age), made) == said
    nothing = "no read was recorded, so nothing can be said"
    assert support(record, build_report(logs=[_empty(tmp_path)], now=NOW)) == nothing
    assert support(record, report_of(log, events[:2])) == nothing
    part = report_of(log, events, until=datetime(2026, 5, 30, tzinfo=UTC))
    assert support(record, part) == "only a part of the log's time was counted, so nothing can be said"


def _empty(folder: Path) -> Path:
    path = folder / "empty.jsonl"
    path.write_text(json.dumps({"event": "unreadable"}) + "\n")
    return path
