"""The whole against a plain model: writers, seals, crashes, obstacles, imports, and the figures of the report."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from conftest import SOAK
from memtally import build_report
from memtally.ledger.layout import segments
from memtally.ledger.reader import open_segments
from memtally.ledger.verify import Verification
from memtally.ledger.writer import LogWriter

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="crashes are forked")

NOW = datetime(2026, 6, 1, tzinfo=UTC)
Event = dict[str, Any]


@st.composite
def events(draw: st.DrawFn) -> Event:
    """An event in the log's own key order; few ids, so that some come again with other contents."""
    event = draw(st.sampled_from(["use", "use", "use", "resident_exposure", "archived"]))
    fields: Event = {
        "id": f"id-{draw(st.integers(0, 30))}",
        "occurred_at": f"2026-05-{draw(st.integers(1, 4)):02d}T00:00:00.000000Z",
        "session_id": draw(st.sampled_from([None, "s1", "s2"])),
        "event": event,
        "source": draw(st.sampled_from(["MemoryRead", "KnowledgeRef", "MemorySearch", "ResidentInjection"])),
    }
    if draw(st.booleans()):
        fields["actor"] = draw(st.sampled_from(["maintenance", "user"]))
    fields["records"] = [
        {
            "kind": "decision",
            "slug": slug,
            "file_bytes": None,
            "file_tokens_estimate": draw(st.sampled_from([None, 10, 300])),
        }
        for slug in draw(st.lists(st.sampled_from(["a", "b", "日本", "x" * 300]), max_size=3, unique=True))
    ]
    return fields


def line(event: Event) -> bytes:
    """The event's line, by the standard library."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


class Log(RuleBasedStateMachine):
    """What is done to a log, and what must then be in it: each appended event, and nothing else."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="memtally-model-"))
        self.path = self.root / ".memtally" / "usage.jsonl"
        self.writers = [LogWriter(str(self.path)) for _ in range(3)]
        self.waiting: list[list[Event]] = [[], [], []]
        self.appended: list[Event] = []
        self.imported: dict[int, list[Event]] = {}
        self.torn = 0
        self.blocked = False

    def teardown(self) -> None:
        if hasattr(self, "root"):
            for writer in self.writers:
                writer._close_descriptor()
            shutil.rmtree(self.root)

    @rule(which=st.integers(0, 2), event=events())
    def append(self, which: int, event: Event) -> None:
        """An event is in the log when it was appended, and waits where the log cannot be written."""
        self.waiting[which].append(event)
        assert self.writers[which].append(line(event)) is not self.blocked
        if self.blocked:
            assert self.writers[which].waiting == len(self.waiting[which])
        else:
            self.appended += self.waiting[which]
            self.waiting[which] = []

    @precondition(lambda self: not self.blocked)
    @rule(event=events(), part=st.floats(0, 1))
    def crash(self, event: Event, part: float) -> None:
        """A process dies in the middle of a write: what it wrote of its line may be nothing, or all."""
        text = line(event)
        kept = round(part * len(text))
        pid = os.fork()
        if pid == 0:
            real = os.write

            def dies(descriptor: int, data: memoryview) -> int:
                real(descriptor, bytes(data[: len(data) - len(text) + kept]))
                os._exit(0)

            try:
                writer = LogWriter(str(self.path))
                writer._open()  # makes the folder, whose .gitignore is written whole
                os.write = dies  # type: ignore[assignment]
                writer.append(text)
            finally:
                os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        if kept >= len(text) - 1:
            self.appended.append(event)  # all but the newline: the event is whole
        else:
            self.torn += kept > 0

    @precondition(lambda self: not self.blocked)
    @rule(which=st.integers(0, 2))
    def seal(self, which: int) -> None:
        """The live log becomes the next segment, if it holds anything."""
        size = self.path.stat().st_size if self.path.exists() else 0
        before = {Path(path).name for path in segments(str(self.path.parent))}
        sealed = self.writers[which].seal()
        self.appended += self.waiting[which]
        size += sum(len(line(event)) for event in self.waiting[which])
        self.waiting[which] = []
        assert (sealed is not None) == (size > 0)
        if sealed is not None:
            assert Path(sealed).name not in before
            assert not self.path.exists()

    @precondition(lambda self: not self.blocked)
    @rule()
    def moved_by_hand(self) -> None:
        """Somebody renames the live log to the next number while writers have it open."""
        if self.path.exists():
            number = 1 + max((int(p.stem[6:]) for p in self.path.parent.glob("usage-[0-9]*")), default=0)
            self.path.rename(self.path.with_name(f"usage-{number}.jsonl"))

    @rule(which=st.integers(0, 2))
    def closed_and_used_again(self, which: int) -> None:
        """A writer that was closed opens the log again."""
        if not self.waiting[which]:
            self.writers[which].close()

    @rule()
    def obstacle(self) -> None:
        """A folder stands in the log's place, and goes."""
        if self.blocked:
            self.path.rmdir()
        else:
            self.moved_by_hand()
            self.path.mkdir(parents=True)
        self.blocked = not self.blocked

    @rule(number=st.integers(0, 2), new=st.lists(events(), max_size=4), again=st.integers(0, 4))
    def import_or_undo(self, number: int, new: list[Event], again: int) -> None:
        """An import has a segment of its own, holds events of before too, and is undone by removing it."""
        path = self.path.parent / f"usage-import-{number}.jsonl"
        if number in self.imported:
            path.unlink()
            del self.imported[number]
            return
        path.parent.mkdir(exist_ok=True)
        self.imported[number] = new + random.Random(number).sample(
            self.appended, min(again, len(self.appended))
        )
        path.write_bytes(b"".join(map(line, self.imported[number])))

    @invariant()
    def the_report_is_the_models(self) -> None:
        """Per record and in the coverage: the figures of the plain model, by report and by verify."""
        if not hasattr(self, "root") or self.blocked:
            return
        met = self.appended + [event for imported in self.imported.values() for event in imported]
        expected = figures(met)
        report = build_report(self.root, now=NOW)
        assert {r.slug: counted(r) for r in report.records} == expected["records"]
        coverage = report.coverage
        assert coverage.damaged_lines == self.torn
        assert coverage.recovered_events == 0
        for name in ("events", "duplicate_events", "conflicting_events", "search_events", "unknown_events"):
            assert getattr(coverage, name) == expected[name], name
        with open_segments(lambda: segments(str(self.path.parent))) as logs:
            problems = Counter(finding.problem for finding in Verification(logs, 2**62).findings())
        assert problems["damaged"] == self.torn
        assert problems["duplicate"] == expected["duplicate_events"]
        assert problems["conflict"] == expected["conflicting_events"]


def counted(record: Any) -> tuple[Any, ...]:
    """The figures of one record that the model has too."""
    return (
        record.use_count,
        record.maintenance_use_count,
        None if record.last_used_at is None else record.last_used_at.strftime("%Y-%m-%d"),
        dict(record.source_breakdown),
        record.resident_exposure_count,
        record.unmeasured_exposure_count,
        record.estimated_total_resident_exposure_tokens,
    )


def figures(met: list[Event]) -> dict[str, Any]:
    """What the rules make of some lines, added up in the plainest way."""
    versions: dict[str, dict[bytes, Event]] = {}
    for event in met:
        versions.setdefault(event["id"], {})[line(event)] = event
    counts: Counter[str] = Counter(
        duplicate_events=len(met) - sum(map(len, versions.values())),
        conflicting_events=sum(len(each) - 1 for each in versions.values()),
    )
    records: dict[str, list[tuple[Event, int | None]]] = {}
    for each in versions.values():
        _, _, event = min((e["occurred_at"], text, e) for text, e in each.items())
        if event["event"] == "archived":
            counts["unknown_events"] += 1
        elif event["event"] == "use" and event["source"] == "MemorySearch":
            counts["search_events"] += 1
        else:
            counts["events"] += 1
            for record in event["records"]:
                records.setdefault(record["slug"], []).append((event, record["file_tokens_estimate"]))
    names = ("events", "duplicate_events", "conflicting_events", "search_events", "unknown_events")
    return {name: counts[name] for name in names} | {
        "records": {slug: of_record(found) for slug, found in records.items()}
    }


def of_record(found: list[tuple[Event, int | None]]) -> tuple[Any, ...]:
    """The figures of one record from its events, each with its tokens, in the order of ``counted``."""
    uses = [e for e, _ in found if e["event"] == "use" and e.get("actor") != "maintenance"]
    exposures = [tokens for e, tokens in found if e["event"] == "resident_exposure"]
    return (
        len(uses),
        len([e for e, _ in found if e["event"] == "use" and e.get("actor") == "maintenance"]),
        max((e["occurred_at"][:10] for e in uses), default=None),
        dict(Counter(e["source"] for e in uses)),
        len(exposures),
        exposures.count(None),
        sum(tokens or 0 for tokens in exposures),
    )


TestLog = pytest.mark.timeout(600 * SOAK)(Log.TestCase)
TestLog.settings = settings(max_examples=60 * SOAK, stateful_step_count=40, deadline=None)
