"""Recording that fails in silence: a source that stopped, hooks that never recorded, a log nobody can write."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from memtally._presets import project_folder
from memtally.report.silence import Silence, silences
from test_hooks import read_of

Run = Any


def days(numbers: Iterable[int], source: str) -> list[tuple[str, str]]:
    """A source's days, counted from the 1st of January 2026."""
    return [((date(2026, 1, 1) + timedelta(days=n)).isoformat(), source) for n in numbers]


# A source that was there on each of ten days misses one by a chance of 1 - 11/12 = 1/12: three silent days have
# one of 0.0006, two one of 0.007, one one of 0.083. One that was there on five of nine days (0, 2, .., 8) misses
# one by 1 - 6/11 = 0.45: 0.45 ** 5 = 0.019, 0.45 ** 6 = 0.0088.
@pytest.mark.parametrize(
    ("firing", "until", "silent"),
    [
        (range(10), 10, None),
        (range(10), 11, None),
        (range(10), 12, 2),
        (range(0, 10, 2), 14, None),
        (range(0, 10, 2), 15, 6),
        (range(4), 40, None),  # four days are no habit yet
        (range(5), 40, 35),
        ([0, 40, 80, 120, 160], 180, None),
    ],
)
def test_a_silence_is_told_by_the_sources_own_habit(
    firing: Iterable[int], until: int, silent: int | None
) -> None:
    """A daily source's silence is told after two active days, a rarer one's later, a rare one's not."""
    found = silences([*days(firing, "MemoryRead"), *days(range(until), "KnowledgeRef")])
    assert [one.silent for one in found] == ([] if silent is None else [silent])


def test_only_active_days_count() -> None:
    """A month in which nothing at all was recorded is no source's silence."""
    both = [0, 1, 2, 3, 4, 5, 40]
    assert silences([*days(both[:-1], "MemoryRead"), *days(both, "KnowledgeRef")]) == []
    [found] = silences([*days(both[:-1], "MemoryRead"), *days([*both, 41, 42], "KnowledgeRef")])
    assert found == Silence("MemoryRead", "2026-01-06", 6, 6, 3)
    assert silences([]) == []


@pytest.fixture
def warnings(run: Run) -> Any:
    """What status warns of."""

    def call(**environment: str) -> dict[str, str]:
        found: dict[str, str] = json.loads(run("status", "--json", **environment).stdout)["warnings"]
        return found

    return call


def test_status_tells_a_source_that_stopped(workspace: Path, warnings: Any) -> None:
    """Reads by one route end while the other goes on: a warning with its days; searches and imports say nothing."""
    lines = []
    for source, numbers, sort in (
        ("MemoryRead", range(10), "use"),
        ("KnowledgeRef", range(20), "use"),
        ("ShellRead", range(20_000, 20_020), "use"),  # a clock that runs fifty years ahead
        ("MemorySearch", range(10), "use"),
        ("ResidentInjection", range(20), "resident_exposure"),
    ):
        for day, _ in days(numbers, source):
            record = {"kind": "decision", "slug": "a"}
            line = {"id": f"{source}{day}", "occurred_at": f"{day}T09:00:00.000000Z", "event": sort}
            lines.append(json.dumps(line | {"source": source, "records": [record]}) + "\n")
    for day, _ in days(
        range(10, 20), "MemoryRead"
    ):  # maintenance goes on by the same source: no sign of life
        line = {
            "id": f"kept{day}",
            "occurred_at": f"{day}T09:00:00.000000Z",
            "event": "use",
            "actor": "maintenance",
        }
        record = {"kind": "decision", "slug": "a"}
        lines.append(json.dumps(line | {"source": "MemoryRead", "records": [record]}) + "\n")
    folder = workspace / ".memtally"
    folder.mkdir()
    (folder / "usage.jsonl").write_text("".join(lines))
    told = warnings()
    assert told == {
        "MemoryRead silent": "recorded on 10 of 10 active days until 2026-01-10, on none of the 10 since; "
        "does its read path still record?"
    }
    # the same in a segment of an import: nothing of it was recorded as it happened
    (folder / "usage.jsonl").rename(folder / "usage-import-20260101T000000Z-00000000.jsonl")
    assert "MemoryRead silent" not in warnings()


def test_status_tells_hooks_that_record_nothing(run: Run, workspace: Path, warnings: Any) -> None:
    """For the workspace's own hooks at once, for the user's once a session has run here since; then no more."""
    home = workspace / "home"
    settings = home / ".claude" / "settings.json"
    where = {"HOME": str(home), "CLAUDE_CONFIG_DIR": ""}
    home.mkdir()
    assert run("install", "claude-code", **where).returncode == 0
    assert "claude-code idle" not in warnings(**where)
    sessions = home / ".claude" / "projects" / project_folder(os.path.realpath(workspace))
    sessions.mkdir(parents=True)
    (sessions / "s.jsonl").write_text("{}\n")
    os.utime(sessions / "s.jsonl", (settings.stat().st_mtime - 60,) * 2)
    assert "claude-code idle" not in warnings(**where)  # a session from before
    os.utime(sessions / "s.jsonl", (settings.stat().st_mtime + 60,) * 2)
    assert "memtally import claude-code" in warnings(**where)["claude-code idle"]
    (workspace / "CLAUDE.md").write_text("# notes\n")
    payload = read_of(workspace, workspace / "CLAUDE.md")
    assert run("hook", "claude-code", stdin=json.dumps(payload), **where).returncode == 0
    assert "claude-code idle" not in warnings(**where)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_status_tells_a_folder_nobody_can_write(workspace: Path, warnings: Any) -> None:
    """A folder without the right to write in it is a warning before anything is lost."""
    (workspace / ".memtally").mkdir()
    (workspace / ".memtally").chmod(0o500)
    try:
        assert "nobody can write the log" in warnings()["not_writable"]
    finally:
        (workspace / ".memtally").chmod(0o700)


def test_status_tells_what_is_in_the_logs_place_and_what_was_dropped(
    run: Run, workspace: Path, warnings: Any
) -> None:
    """A folder where the log should be, and a fault that an exporter left, are warnings."""
    folder = workspace / ".memtally"
    (folder / "usage.jsonl").mkdir(parents=True)
    assert "nobody can write the log" in warnings()["not_writable"]
    (folder / "usage.jsonl").rmdir()
    assert "not_writable" not in warnings()
    fault = {
        "at": 1.0,
        "pid": 1,
        "host": "h",
        "started": "0",
        "fault": "forward_dropped",
        "count": 3,
        "message": "x",
    }
    (folder / "health.jsonl").write_text(json.dumps(fault) + "\n")
    assert "events may be missing" in warnings()["faults"]
    assert "forward dropped" in run("status").stdout
