"""The figures: worked out by hand, independent of order, splitting and repetition."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memtally
from conftest import DATA, SHARED, copied_tree
from memtally.errors import InvalidValueError, LogReadError
from memtally.events import UsageEvent, encode_event
from memtally.report import UsageReport, build_report
from memtally.report.timeline import record_days
from test_events import usage_events

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def event(number: int, slug: str = "a", **fields: Any) -> dict[str, Any]:
    """A use of decision/``slug`` on the given day of May 2026, with what else is said."""
    day = fields.pop("day", 1)
    record = {"kind": "decision", "slug": slug, "file_bytes": 40, "file_tokens_estimate": 10}
    record.update(fields.pop("record", {}))
    value: dict[str, Any] = {
        "id": f"00000000-0000-7000-8000-{number:012d}",
        "occurred_at": f"2026-05-{day:02d}T12:00:00.000000Z",
        "session_id": "s1",
        "event": "use",
        "source": "MemoryRead",
        "tokenizer": "o200k_base",
        "records": [record],
    }
    value.update(fields)
    return value


def exposure(number: int, slug: str = "a", **fields: Any) -> dict[str, Any]:
    """A resident exposure of decision/``slug``."""
    return event(number, slug, event="resident_exposure", source="ResidentInjection", **fields)


def report_of(path: Path, events: Iterable[dict[str, Any]], **options: Any) -> UsageReport:
    """A report over a log of these events."""
    path.write_text("".join(json.dumps(e) + "\n" for e in events), "utf-8")
    return build_report(logs=[path], **{"now": NOW, **options})


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where a log will be."""
    return tmp_path / "log.jsonl"


def test_uses_by_route_and_time(log: Path) -> None:
    """Uses are counted by source; the last and the first are by time, not by place in the file."""
    made = report_of(
        log,
        [event(1, day=9), event(2, day=3, source="KnowledgeRef"), event(3, day=5), event(4, "b", day=4)],
    )
    record = made["decision", "a"]
    assert record.use_count == 3
    assert record.source_breakdown == {"KnowledgeRef": 1, "MemoryRead": 2}
    assert record.last_used_at == datetime(2026, 5, 9, 12, tzinfo=UTC)
    assert record.first_used_at == datetime(2026, 5, 3, 12, tzinfo=UTC)
    assert made["decision", "b"].use_count == 1
    assert [r.name for r in made.records] == ["decision/a", "decision/b"]


def test_exposures_are_costs_and_never_uses(log: Path) -> None:
    """Five exposures: no use, no last use; the total is the sum over events, the latest is per injection."""
    costs = [10, 20, 30, 5, 25]
    made = report_of(
        log, [exposure(n, day=n, record={"file_tokens_estimate": cost}) for n, cost in enumerate(costs, 1)]
    )
    record = made["decision", "a"]
    assert (record.use_count, record.last_used_at, record.source_breakdown) == (0, None, {})
    assert record.resident_exposure_count == 5
    assert record.estimated_total_resident_exposure_tokens == 90
    assert record.estimated_tokens_per_injection == 25
    assert record.mean_tokens_per_injection == 18.0
    assert record.last_exposed_at == datetime(2026, 5, 5, 12, tzinfo=UTC)


def test_injected_figures_beat_the_files(log: Path) -> None:
    """A description line costs what it is, not the file behind it; unknown costs are unmeasured, not zero."""
    made = report_of(
        log,
        [
            exposure(1, day=1, record={"file_tokens_estimate": 1580, "injected_tokens_estimate": 41}),
            exposure(2, day=2, record={"file_tokens_estimate": None, "file_bytes": None}),
            exposure(3, day=3, record={"file_tokens_estimate": 1580, "injected_bytes": 163}),
        ],
    )
    record = made["decision", "a"]
    assert record.estimated_total_resident_exposure_tokens == 41
    assert record.estimated_tokens_per_injection == 41
    assert record.unmeasured_exposure_count == 2
    assert record.resident_exposure_count == 3
    assert record.file_tokens_estimate == 1580


def test_maintenance_stands_apart(log: Path) -> None:
    """The maintenance agent's reads are shown, and are in no use, date, breakdown or session."""
    made = report_of(
        log,
        [
            event(1, day=1),
            event(2, day=8, actor="maintenance", session_id="tidy"),
            event(3, day=2, actor="subagent"),
        ],
        sessions=True,
    )
    record = made["decision", "a"]
    assert (record.use_count, record.maintenance_use_count) == (2, 1)
    assert record.last_used_at == datetime(2026, 5, 2, 12, tzinfo=UTC)
    assert record.source_breakdown == {"MemoryRead": 2}
    assert record.session_count == 1
    assert made.coverage.sessions == 1
    assert made.coverage.events == 3


def test_searches_and_unknown_events_are_shown_and_not_counted(log: Path) -> None:
    """A search in somebody's log is no use; a newer event type is kept in the coverage."""
    made = report_of(
        log,
        [
            event(1),
            event(2, source="MemoryQuery"),
            event(3, source="VectorSearch"),
            event(4, event="archived"),
        ],
    )
    assert made["decision", "a"].use_count == 1
    assert (made.coverage.search_events, made.coverage.unknown_events, made.coverage.events) == (2, 1, 1)


def test_an_id_counts_once_however_often_it_is_met(log: Path, tmp_path: Path) -> None:
    """A doubled line, a doubled file and another spelling of the same event are duplicates."""
    same = dict(reversed(list(event(1).items())))  # other key order, same event
    made = report_of(log, [event(1), event(1), same])
    assert made["decision", "a"].use_count == 1
    assert (made.coverage.duplicate_events, made.coverage.conflicting_events) == (2, 0)
    assert build_report(logs=[log, log], now=NOW).coverage.duplicate_events == 5


def test_of_conflicting_versions_the_earlier_counts(log: Path) -> None:
    """One id with three contents counts once, as its earliest version, wherever that stands; two are shown."""
    versions = [
        event(1, "c", day=7),
        event(1, "b", day=5),
        event(1, "a", day=6),
        event(1, "b", day=5),
        event(2, "z"),
    ]
    for seed in range(6):
        shuffled = versions[:]
        random.Random(seed).shuffle(shuffled)
        made = report_of(log, shuffled)
        assert [r.name for r in made.records] == ["decision/b", "decision/z"]
        assert (made.coverage.conflicting_events, made.coverage.duplicate_events) == (2, 1)
        assert made.coverage.events == 2


def test_a_clock_ahead_and_no_clock_at_all(log: Path) -> None:
    """Events of the future and without a time count, are flagged, and have no say in any date."""
    made = report_of(
        log,
        [
            event(1, day=2),
            event(2, occurred_at="2026-06-02T00:00:00.000001Z"),  # a day and a microsecond ahead of now
            event(3, occurred_at="2026-06-02T00:00:00Z"),  # a day ahead: within the tolerance
            event(4, occurred_at="soon"),
            event(5, occurred_at=None),
        ],
    )
    record = made["decision", "a"]
    assert record.use_count == 5
    assert record.last_used_at == datetime(2026, 6, 2, tzinfo=UTC)
    assert record.first_used_at == datetime(2026, 5, 2, 12, tzinfo=UTC)
    assert (made.coverage.clock_skewed_events, made.coverage.undated_events) == (1, 2)
    assert made.coverage.last_event_at == datetime(2026, 6, 2, tzinfo=UTC)


def test_naive_utc_and_offset_times_are_one_line_of_time(log: Path) -> None:
    """A naive time is UTC; offsets are taken into account."""
    stamps = ["2026-05-01T10:00:00", "2026-05-01T10:00:00Z", "2026-05-01T19:00:00+08:00"]
    made = report_of(log, [event(n, occurred_at=s) for n, s in enumerate(stamps, 1)])
    assert made["decision", "a"].last_used_at == datetime(2026, 5, 1, 11, tzinfo=UTC)
    assert made["decision", "a"].first_used_at == datetime(2026, 5, 1, 10, tzinfo=UTC)


def test_since_is_inclusive_and_until_exclusive(log: Path) -> None:
    """A period holds its first moment and not its last; undated events are in no period."""
    events = [event(n, day=n) for n in (1, 2, 3)] + [event(4, occurred_at="?")]
    noon = datetime(2026, 5, 2, 12)
    assert report_of(log, events, since=noon)["decision", "a"].use_count == 2
    assert report_of(log, events, until=noon)["decision", "a"].use_count == 1
    assert report_of(log, events, since=noon, until=datetime(2026, 5, 3, 12))["decision", "a"].use_count == 1


def test_kinds_and_sources_limit_the_records(log: Path) -> None:
    """Filters limit what is counted per record, and the sum of the sources stays the count."""
    events = [event(1), event(2, source="KnowledgeRef"), event(3, record={"kind": "request"})]
    made = report_of(log, events, kinds=["decision"], sources=["KnowledgeRef"])
    assert [(r.name, r.use_count, r.source_breakdown) for r in made.records] == [
        ("decision/a", 1, {"KnowledgeRef": 1})
    ]
    with pytest.raises(InvalidValueError, match="kinds"):
        report_of(log, events, kinds="decision")


def test_a_report_limited_to_some_sources_calls_nothing_unread(workspace: Path, log: Path) -> None:
    """A record that was read by a route left out is not called unread."""
    (workspace / "decisions").mkdir()
    (workspace / "decisions" / "a.md").write_text("x")
    (workspace / ".memtally").mkdir()
    (workspace / ".memtally" / "config.toml").write_text('preset = "generic"\n')
    made = report_of(log, [event(1)], workspace=workspace, sources=["KnowledgeRef"])
    assert made["decision", "a"].use_count == 0
    assert made.never_read == ()
    assert [r.name for r in report_of(log, [], workspace=workspace).never_read] == ["decision/a"]


def test_one_event_of_several_records(log: Path) -> None:
    """One read operation of two records is one event and one use of each."""
    pair = [{"kind": "decision", "slug": s, "file_bytes": 1, "file_tokens_estimate": 1} for s in ("a", "b")]
    made = report_of(log, [event(1, records=pair)])
    assert [r.use_count for r in made.records] == [1, 1]
    assert made.coverage.events == 1


def test_sessions_and_coalesced_uses(log: Path) -> None:
    """Consecutive uses in one session are one; a use without a session stands alone."""
    sessions = ["s1", "s1", "s2", "s1", None, None]
    made = report_of(log, [event(n, day=n, session_id=s) for n, s in enumerate(sessions, 1)], sessions=True)
    record = made["decision", "a"]
    assert (record.use_count, record.session_count, record.coalesced_use_count) == (6, 2, 5)
    assert report_of(log, [event(1)])["decision", "a"].session_count is None


def test_sizes_are_the_latest_known(log: Path) -> None:
    """The snapshot of the latest event that had one, maintenance included; no event rewrites history."""
    made = report_of(
        log,
        [
            event(1, day=5, record={"file_bytes": 500, "file_tokens_estimate": 50}),
            event(2, day=9, record={"file_bytes": None, "file_tokens_estimate": None}),
            event(3, day=1, record={"file_bytes": 100, "file_tokens_estimate": 10}),
            event(4, day=6, actor="maintenance", record={"file_bytes": 600, "file_tokens_estimate": 60}),
        ],
    )
    assert (made["decision", "a"].file_bytes, made["decision", "a"].file_tokens_estimate) == (600, 60)


def test_every_tokenizer_is_named(log: Path) -> None:
    """A total over several tokenizers says so."""
    made = report_of(log, [exposure(1), exposure(2, tokenizer="script-estimate")])
    assert made["decision", "a"].tokenizers == ("o200k_base", "script-estimate")


def test_no_log_empty_and_unreadable_are_three_answers(workspace: Path) -> None:
    """A workspace without a log, a log without events, and a missing explicit log differ."""
    assert build_report(workspace).coverage.log_state == "no_log"
    assert build_report(workspace).records == ()
    empty = workspace / "empty.jsonl"
    empty.touch()
    assert build_report(logs=[empty]).coverage.log_state == "empty"
    with pytest.raises(LogReadError, match="no such log"):
        build_report(logs=[workspace / "gone.jsonl"])


def test_an_explicit_log_is_not_judged_by_the_current_folder(workspace: Path, log: Path) -> None:
    """Somebody else's log is not joined with the inventory of the folder one stands in."""
    (workspace / ".memtally").mkdir()
    (workspace / ".memtally" / "config.toml").write_text('preset = "generic"\n')
    (workspace / "decisions").mkdir()
    (workspace / "decisions" / "other.md").write_text("x")
    assert report_of(log, [event(1)])["decision", "a"].status == "unknown"
    assert report_of(log, [event(1)], workspace=workspace)["decision", "a"].status == "missing"


def test_aliases_join_renamed_records_only_when_asked(workspace: Path, log: Path) -> None:
    """A rename is joined along its chain; two names of it in one event are one use."""
    (workspace / ".memtally").mkdir()
    config = workspace / ".memtally" / "config.toml"
    config.write_text('[aliases]\n"decision/a" = "decision/b"\n"decision/b" = "knowledge/c"\n')
    both = [{"kind": "decision", "slug": s} for s in ("a", "b")]
    made = report_of(log, [event(1, "a"), event(2, "b"), event(3, records=both)], workspace=workspace)
    assert [(r.name, r.use_count) for r in made.records] == [("knowledge/c", 3)]
    config.unlink()
    made = report_of(log, [event(1, "a"), event(2, "b")], workspace=workspace)
    assert [r.name for r in made.records] == ["decision/a", "decision/b"]


def test_review_ranks_by_plain_keys(log: Path) -> None:
    """Candidates and protection by uses descending; residents by uses ascending, then tokens descending."""
    made = report_of(
        log,
        [
            *(event(n, "often") for n in range(1, 4)),
            event(4, "once", record={"kind": "request"}),
            event(5, "w", record={"kind": "workflow"}),
            event(6, "w", record={"kind": "workflow"}),
            exposure(7, "often"),
            exposure(8, "cheap", record={"kind": "rule", "file_tokens_estimate": 5}),
            exposure(9, "dear", record={"kind": "rule", "file_tokens_estimate": 500}),
        ],
    )
    found = made.review()
    assert [i.record.name for i in found.knowledge_candidates] == ["decision/often", "request/once"]
    assert [i.record.name for i in found.tidy_protection] == ["decision/often", "workflow/w", "request/once"]
    assert [i.record.name for i in found.resident_review] == ["rule/dear", "rule/cheap", "decision/often"]
    assert found.resident_review[0].evidence == (
        "no explicit read in what the log covers; placed into a context once, an estimated 500 tokens in all"
    )
    assert found.tidy_protection[1].evidence == "read 2 times, last on 2026-05-01 (MemoryRead 2)"


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ([10, 20], "placed into a context 2 times, an estimated 30 tokens in all"),
        (
            [10, None, None],
            "placed into a context 3 times, an estimated 10 tokens in all, without 2 placings of unknown size",
        ),
        ([None], "placed into a context once, at a cost that is unknown"),
    ],
)
def test_an_unknown_cost_is_not_called_nothing(log: Path, sizes: list[int | None], said: str) -> None:
    """Placings without a size are named beside the sum; where there is no other there is no sum."""
    events = [exposure(n, record={"file_tokens_estimate": size}) for n, size in enumerate(sizes, 1)]
    [item] = report_of(log, events).review().resident_review
    assert item.evidence == f"no explicit read in what the log covers; {said}"


def test_days_of_one_record(log: Path) -> None:
    """A record's days are those of the zone asked for, and their sum is the number of its events."""
    from zoneinfo import ZoneInfo

    late = event(1, occurred_at="2025-01-25T04:08:00Z")
    fold = [event(n, occurred_at=f"2024-11-03T0{h}:30:00Z") for n, h in ((2, 5), (3, 6))]  # 01:30 twice
    report_of(
        log, [late, *fold, event(4, "b"), event(5, occurred_at="?"), event(6, day=3, actor="maintenance")]
    )
    los_angeles, new_york = ZoneInfo("America/Los_Angeles"), ZoneInfo("America/New_York")
    assert record_days("decision", "a", logs=[log], zone=los_angeles) == {
        "2024-11-02": {"MemoryRead": 2},
        "2025-01-24": {"MemoryRead": 1},
        "2026-05-03": {"MemoryRead (maintenance)": 1},
        "undated": {"MemoryRead": 1},
    }
    assert record_days("decision", "a", logs=[log], zone=new_york)["2024-11-03"] == {"MemoryRead": 2}
    assert record_days("decision", "a", logs=[log])["2025-01-25"] == {"MemoryRead": 1}


def second_count(events: list[UsageEvent]) -> dict[tuple[str, str], tuple[int, Counter[str], int, int]]:
    """Uses, sources, exposures and exposure tokens per record, counted in another way than the product's."""
    result: dict[tuple[str, str], tuple[int, Counter[str], int, int]] = {}
    unique = {e.id: e for e in events}.values()
    for key in {r.key for e in unique for r in e.records}:
        mine = [
            (e, next(r for r in e.records if r.key == key))
            for e in unique
            if key in [r.key for r in e.records]
        ]
        uses = [
            e
            for e, _ in mine
            if e.event == "use" and e.actor != "maintenance" and not e.source.endswith(("Query", "Search"))
        ]
        placed = [r for e, r in mine if e.event != "use"]
        tokens = 0
        for r in placed:
            if r.injected_tokens_estimate is not None:
                tokens += r.injected_tokens_estimate
            elif r.injected_bytes is None:
                tokens += r.file_tokens_estimate or 0
        result[key] = (len(uses), Counter(e.source for e in uses), len(placed), tokens)
    return result


@settings(max_examples=60, deadline=None)
@given(st.lists(usage_events, max_size=8, unique_by=lambda e: e.id), st.randoms(use_true_random=False))
def test_figures_do_not_depend_on_order_splitting_or_repetition(
    tmp_path_factory: pytest.TempPathFactory, events: list[UsageEvent], rng: random.Random
) -> None:
    """A second count agrees; shuffled, split into files and repeated, the figures stay the same."""
    folder = tmp_path_factory.mktemp("logs")
    straight = folder / "a.jsonl"
    straight.write_bytes(b"".join(map(encode_event, events)))
    made = build_report(logs=[straight], now=NOW)
    counted = second_count(events)
    for record in made.records:
        uses, sources, placed, tokens = counted.pop((record.kind, record.slug))
        assert record.use_count == uses == sum(record.source_breakdown.values())
        assert dict(sources) == dict(record.source_breakdown)
        assert (record.resident_exposure_count, record.estimated_total_resident_exposure_tokens) == (
            placed,
            tokens,
        )
    assert not any(figures[0] or figures[2] for figures in counted.values())
    shuffled = events * 2
    rng.shuffle(shuffled)
    cut = rng.randint(0, len(shuffled))
    parts = [folder / "b.jsonl", folder / "c.jsonl"]
    for part, chunk in zip(parts, (shuffled[:cut], shuffled[cut:]), strict=True):
        part.write_bytes(b"".join(map(encode_event, chunk)))
    again = build_report(logs=parts, now=NOW)
    assert again.records == made.records
    assert again.coverage.duplicate_events == len(events)
    assert again.coverage.events == made.coverage.events


OLDER = DATA / "usage-older-writer.jsonl"


def check_older_log(made: UsageReport) -> None:
    """The figures of the older writer's log, worked out from its five lines by hand."""
    ship, review = made["workflow", "ship-it"], made["workflow", "review"]
    assert (ship.use_count, ship.source_breakdown) == (3, {"WorkflowInvoke": 3})
    assert ship.first_used_at == datetime(2026, 4, 1, 8, 0, 0, 100_200, tzinfo=UTC)
    assert ship.last_used_at == datetime(2026, 4, 2, 10, tzinfo=UTC)
    assert (ship.file_bytes, ship.file_tokens_estimate) == (3_900, 975)
    assert (review.use_count, review.last_used_at) == (
        2,
        datetime(2026, 4, 3, 11, 15, 30, 123_456, tzinfo=UTC),
    )
    assert (made.coverage.events, made.coverage.sessions, made.coverage.damaged_lines) == (5, 3, 0)
    assert list(made.coverage.sources) == ["WorkflowInvoke"]


def test_an_older_writers_log() -> None:
    """A log with ``segment_id`` and nine fraction digits is read as it is; given twice, five duplicates."""
    made = build_report(logs=[OLDER], now=NOW)
    check_older_log(made)
    assert made.coverage.duplicate_events == 0
    twice = build_report(logs=[OLDER, OLDER], now=NOW)
    check_older_log(twice)
    assert twice.coverage.duplicate_events == 5


def test_the_same_log_with_the_newer_session_key(tmp_path: Path) -> None:
    """``segment_id`` and ``session_id`` are one thing."""
    renamed = tmp_path / "renamed.jsonl"
    renamed.write_text(OLDER.read_text("utf-8").replace("segment_id", "session_id"), "utf-8")
    assert build_report(logs=[renamed], now=NOW).records == build_report(logs=[OLDER], now=NOW).records


YOI = SHARED / "yoi" / "workspace"
YOI_LOG = YOI / ".insomnia" / "memory" / "_usage" / "events.jsonl"
needs_yoi = pytest.mark.skipif(not YOI_LOG.exists(), reason="the shared data is not beside this checkout")


def check_yoi(made: UsageReport) -> None:
    """The table of EXPECTED.md."""
    expected = {
        ("workflow", "auto-maintain"): ("2026-05-12T08:56:15.672925", "2026-05-11T13:10:47.471344", 6783),
        ("workflow", "worktree-workflow"): ("2026-05-12T17:40:31.344574", "2026-05-12T05:55:04.528959", 4188),
    }
    for key, (last, first, size) in expected.items():
        record = made[key]
        assert (record.use_count, record.source_breakdown) == (3, {"WorkflowInvoke": 3})
        assert record.last_used_at == datetime.fromisoformat(last).replace(tzinfo=UTC)
        assert record.first_used_at == datetime.fromisoformat(first).replace(tzinfo=UTC)
        assert record.file_bytes == size
        assert (record.resident_exposure_count, record.estimated_total_resident_exposure_tokens) == (0, 0)
        assert record.estimated_tokens_per_injection is None
    coverage = made.coverage
    assert (coverage.events, coverage.sessions, coverage.damaged_lines) == (6, 3, 0)
    assert list(coverage.sources) == ["WorkflowInvoke"]


@needs_yoi
def test_a_real_log_of_another_implementation(tmp_path: Path) -> None:
    """The real log gives the hand-derived figures; given twice, doubled or renamed, the same."""
    made = build_report(logs=[YOI_LOG], now=NOW)
    check_yoi(made)
    assert len(made.records) == 2
    assert made.coverage.duplicate_events == 0
    twice = build_report(logs=[YOI_LOG, YOI_LOG], now=NOW)
    check_yoi(twice)
    assert twice.coverage.duplicate_events == 6
    doubled, renamed = tmp_path / "doubled.jsonl", tmp_path / "renamed.jsonl"
    text = YOI_LOG.read_text("utf-8")
    doubled.write_text("".join(line * 2 for line in text.splitlines(keepends=True)), "utf-8")
    renamed.write_text(text.replace('"session_id"', '"segment_id"'), "utf-8")
    check_yoi(build_report(logs=[doubled], now=NOW))
    assert build_report(logs=[doubled], now=NOW).coverage.duplicate_events == 6
    check_yoi(build_report(logs=[renamed], now=NOW))


@needs_yoi
def test_a_real_tree_beside_the_real_log(tmp_path: Path) -> None:
    """Used and present, present and never read: the inventory of the real tree."""

    root = tmp_path / "tree"
    copied_tree(YOI, root)
    (root / ".memtally").mkdir()
    (root / ".memtally" / "config.toml").write_text('preset = "yoi"\n')
    made = build_report(root, logs=[YOI_LOG], now=NOW)
    check_yoi(made)
    assert {r.name: r.status for r in made.records} == {
        "knowledge/claude-code": "present",
        "workflow/auto-maintain": "present",
        "workflow/multi-agent-workflow": "present",
        "workflow/worktree-workflow": "present",
    }
    assert [r.name for r in made.never_read] == ["knowledge/claude-code", "workflow/multi-agent-workflow"]
    assert made["workflow", "multi-agent-workflow"].resident is True
    assert made["knowledge", "claude-code"].resident is False


def test_the_public_name_is_the_same_function() -> None:
    """``memtally.build_report`` is the report's own."""
    assert memtally.build_report is build_report


def test_the_file_decides_no_figure_by_its_order(log: Path) -> None:
    """The later event's sizes and cost stand, wherever it stands in the file; ties go by id."""
    newer = exposure(1, day=12, record={"file_bytes": 200, "file_tokens_estimate": 20})
    older = exposure(2, day=11, record={"file_bytes": 100, "file_tokens_estimate": 10})
    for events in ([newer, older], [older, newer]):
        record = report_of(log, events)["decision", "a"]
        assert (record.file_bytes, record.estimated_tokens_per_injection) == (200, 20)
    same = exposure(3, day=12, record={"file_bytes": 300, "file_tokens_estimate": 30})
    for events in ([newer, same], [same, newer]):
        assert report_of(log, events)["decision", "a"].file_bytes == 300


def test_the_mean_is_over_measured_placings(log: Path) -> None:
    """An exposure without a figure pulls no mean down."""
    made = report_of(log, [exposure(1), exposure(2, record={"file_tokens_estimate": None})])
    assert made["decision", "a"].mean_tokens_per_injection == 10.0


def test_an_older_name_finds_the_record_too(workspace: Path, log: Path) -> None:
    """With an alias the figures are found under either name."""
    (workspace / ".memtally").mkdir()
    (workspace / ".memtally" / "config.toml").write_text('[aliases]\n"decision/a" = "decision/b"\n')
    made = report_of(log, [event(1, "a")], workspace=workspace)
    assert made["decision", "a"] is made["decision", "b"]
    assert made.get("decision", "nonesuch") is None


def test_no_source_and_no_kind_is_not_every_one(tmp_path: Path) -> None:
    """An empty list of sources or kinds counts nothing, for the sessions as for the uses."""
    log = tmp_path / "log.jsonl"
    made = report_of(log, [event(1, session_id="s")], sessions=True, sources=[])
    assert [(r.use_count, r.session_count) for r in made.records] in ([], [(0, 0)])
    assert report_of(log, [event(1, session_id="s")], sessions=True, kinds=[]).records == ()
