"""Rows ``report`` and ``warm``: whole commands, beside other programs that read the same file."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path

from bench.generate import SHAPES, generate, lines
from bench.harness import Absent, Outcome, Settings, Subject, interleave, need, say
from bench.running import DATA, PEERS, run, scratch
from memtally.workspace import find_workspace

__all__ = ["report_command", "report_row", "warm_row", "workspace_with_log"]

NOW = "2030-01-01T00:00:00Z"
"""The time that reports are made for: ten million events reach beyond the present."""

NEW = 1_000
MOST_ROUNDS = 60
"""So many times there are new events for a log."""
SLOW = ("polars", "json loop", "msgspec", "node")
"""Measured in the first round only."""

_MIB = 1_048_576
_RUST = PEERS / "rust" / "target" / "release" / "parse"


def report_command(*where: str | Path) -> list[str | Path]:
    """The command for a report as JSON."""
    return [sys.executable, "-m", "memtally", "report", *where, "--format", "json", "--now", NOW]


def report_row(settings: Settings) -> Outcome:
    """A cold report of a large log, for both shapes; its memory, and how that grows."""
    events = settings.events_or(1_000_000, 100_000)
    rounds = settings.rounds_or(7, 2)
    outcome = Outcome("report", {"events": events, "rounds": rounds})
    for shape in SHAPES:
        say(f"report, {shape}")
        log = generate(DATA / f"{shape}-{events}.jsonl", shape, events)
        small = generate(DATA / f"{shape}-{events // 10}.jsonl", shape, events // 10)
        _warm_pages(log)
        _report_shape(outcome, shape, log, rounds)
        _memory(outcome, shape, log, small, events)
    return outcome


def _report_shape(outcome: Outcome, shape: str, log: Path, rounds: int) -> None:
    counts: dict[str, dict[str, int]] = {}

    def subject(name: str, command: Callable[[], list[str | Path]]) -> Subject:
        def measure() -> float:
            done = run(command())
            counts[name] = _counts(json.loads(done.output))
            return done.seconds

        return measure

    def script(name: str, module: str, *arguments: str | Path) -> list[str | Path]:
        need(module)
        return [sys.executable, PEERS / name, *arguments, log]

    commands: dict[str, Callable[[], list[str | Path]]] = {
        "memtally": partial(report_command, "--log", log),
        "rust owned": lambda: _rust("owned", log),
        "rust borrowed": lambda: _rust("borrowed", log),
        "duckdb 1 thread": lambda: script("duckdb_count.py", "duckdb", "1"),
        "duckdb 2 threads": lambda: script("duckdb_count.py", "duckdb", "2"),
        "polars": lambda: script("polars_count.py", "polars"),
        "json loop": lambda: script("json_count.py", "json"),
        "msgspec": lambda: script("msgspec_count.py", "msgspec"),
        "node": lambda: _node(log),
    }
    absent: dict[str, str] = {}
    subjects = {name: subject(name, command) for name, command in commands.items()}
    values = interleave(subjects, rounds, absent, once=frozenset(SLOW))
    ours = counts.get("memtally")
    for name, measured in values.items():
        differs = ours is not None and counts[name] != ours
        remark = f"counts differ: {counts[name]}, memtally {ours}" if differs else ""
        outcome.add(f"{shape}: {name}", "s", measured, remark)
    outcome.absent.update((f"{shape}: {name}", reason) for name, reason in absent.items())
    if ours is not None and all(counts[name] == ours for name in values):
        outcome.remarks.append(f"{shape}: all count {ours['events']:,} events and {ours['uses']:,} uses.")


def _counts(said: dict[str, object]) -> dict[str, int]:
    """Events and uses, of a peer's answer or of memtally's report."""
    match said:
        case {"events": int(events), "uses": int(uses)}:
            return {"events": events, "uses": uses}
        case {"coverage": {"events": int(events)}, "records": list(records)}:
            return {"events": events, "uses": sum(record["use_count"] for record in records)}
    raise ValueError("neither a peer's answer nor a report")


def _rust(mode: str, log: Path) -> list[str | Path]:
    if not _RUST.exists():
        raise Absent("not built: make bench-peers builds it where there is cargo")
    return [_RUST, mode, log]


def _node(log: Path) -> list[str | Path]:
    node = shutil.which("node")
    if node is None:
        raise Absent("node is not installed")
    return [node, PEERS / "count.js", log]


def _warm_pages(log: Path) -> None:
    with log.open("rb", buffering=0) as stream:
        while stream.read(8 * _MIB):
            pass


def _memory(outcome: Outcome, shape: str, log: Path, small: Path, events: int) -> None:
    """Runs of their own, since watching a process slows it."""
    say(f"report, {shape}: memory")
    found: dict[str, list[float]] = {"pss": [], "rss": [], "growth": []}

    def measure() -> float:
        large = run(report_command("--log", log), memory=True)
        base = run(report_command("--log", small), memory=True)
        if not large.peak_pss:
            raise Absent("this system does not tell it")
        found["pss"].append(large.peak_pss / _MIB)
        found["rss"].append(large.peak_rss / _MIB)
        found["growth"].append((large.peak_pss - base.peak_pss) / (events - events // 10))
        return large.seconds

    interleave({f"{shape}: peak memory (PSS)": measure}, 3, outcome.absent)
    outcome.add(f"{shape}: peak memory (PSS)", "MiB", found["pss"], "summed over its processes")
    outcome.add(f"{shape}: peak memory (RSS)", "MiB", found["rss"], "counts shared pages in each process")
    remark = f"between {events // 10:,} and {events:,} events"
    outcome.add(f"{shape}: growth", "bytes an event", found["growth"], remark)


def workspace_with_log(events: int) -> tuple[Path, Path]:
    """A workspace whose log has that many events, and a file of new ones that come after them.

    Made once; what earlier runs have appended to the log is taken off again.
    """
    folder = DATA / f"workspace-{events}"
    workspace, rest, size = (folder / name for name in ("workspace", "rest.jsonl", "size"))
    log = workspace / ".memtally" / "usage.jsonl"
    if not size.exists():
        say(f"writing a log of {events:,} events")
        workspace.mkdir(parents=True, exist_ok=True)
        find_workspace(workspace).ensure()
        made = lines("typical", events + NEW * MOST_ROUNDS)
        for path, part in ((log, islice(made, events)), (rest, made)):
            with path.open("w", encoding="utf-8", newline="\n", buffering=_MIB) as stream:
                stream.writelines(part)
        size.write_text(str(log.stat().st_size))
    os.truncate(log, int(size.read_text()))
    return workspace, rest


def warm_row(settings: Settings) -> Outcome:
    """1,000 new events on a log that has a checkpoint, beside the same command on an empty log."""
    events = settings.events_or(10_000_000, 200_000)
    rounds = min(settings.rounds_or(15, 5), MOST_ROUNDS)
    outcome = Outcome("warm", {"events": events, "new events": NEW, "rounds": rounds})
    say("warm")
    full, rest = workspace_with_log(events)
    log = full / ".memtally" / "usage.jsonl"
    with scratch("empty") as empty, rest.open("rb") as new:
        place = find_workspace(empty)
        place.ensure()
        place.log_path.touch()
        _warm_pages(log)
        first = run(report_command("--workspace", full))
        run(report_command("--workspace", empty))
        seen = events

        def warm() -> float:
            nonlocal seen
            with log.open("ab") as stream:
                stream.writelines(islice(new, NEW))
            seen += NEW
            done = run(report_command("--workspace", full))
            counted = json.loads(done.output)["coverage"]["events"]
            if counted != seen:
                outcome.remarks.append(f"counted {counted:,} events where there are {seen:,}.")
            return done.seconds

        subjects: dict[str, Subject] = {
            "1,000 new events": warm,
            "empty log": lambda: run(report_command("--workspace", empty)).seconds,
        }
        for name, measured in interleave(subjects, rounds, outcome.absent).items():
            outcome.add(name, "s", measured)
    outcome.add("without a checkpoint, or with an outdated one", "s", [first.seconds])
    return outcome
