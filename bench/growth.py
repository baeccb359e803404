"""How reports and appends grow: ``python -m bench.growth``; see ``bench/README.md``."""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from bench.facts import machine
from bench.harness import Absent, say
from bench.output import number, table
from bench.rows_processes import append_together
from bench.rows_report import NEW, report_command, workspace_with_log
from bench.run import QUICK_RESULTS, RESULTS
from bench.running import Finished, run

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
QUICK_SIZES = (10_000, 100_000)
WRITERS = (1, 2, 4, 8, 16, 32)
SUBJECTS = ("memtally writer", "memtally read", "otlp-json-file")
CACHE = Path(".memtally") / "cache"
_MIB = 1_048_576


def report_growth(events: int, rounds: int) -> dict[str, Any]:
    """Time and memory of a report: without a checkpoint, and with one and 1,000 new events."""
    say(f"report of {events:,} events")
    workspace, rest = workspace_with_log(events)
    log = workspace / ".memtally" / "usage.jsonl"
    times: dict[str, list[float]] = {"cold": [], "warm": []}
    peaks = {}
    command = report_command("--workspace", workspace)

    def cold(*, memory: bool = False) -> Finished:
        shutil.rmtree(workspace / CACHE, ignore_errors=True)
        return run(command, memory=memory)

    with rest.open("rb") as new:

        def warm(*, memory: bool = False) -> Finished:
            with log.open("ab") as stream:
                stream.writelines(islice(new, NEW))
            return run(command, memory=memory)

        cold()  # the file's pages are read before anything is timed
        for _ in range(rounds):
            times["cold"].append(cold().seconds)
            times["warm"].append(warm().seconds)
        for name, measure in (("cold", cold), ("warm", warm)):
            peaks[name] = measure(memory=True).peak_pss
    return {
        "events": events,
        **{f"{name}_s": statistics.median(values) for name, values in times.items()},
        **{f"{name}_values_s": values for name, values in times.items()},
        **{f"{name}_peak_bytes": peak for name, peak in peaks.items()},
    }


def append_growth(processes: int, events: int, rounds: int) -> dict[str, Any]:
    """Events a second of so many processes, for each subject, and the events that did not arrive."""
    say(f"{processes} writers")
    said: dict[str, list[dict[str, float]]] = {name: [] for name in SUBJECTS}
    for _ in range(rounds):
        for name in SUBJECTS:
            try:
                said[name].append(append_together(name, processes, events))
            except Absent as reason:
                say(f"  {name}: absent, {reason}")
    made: dict[str, Any] = {"writers": processes}
    for name, measured in said.items():
        if measured:
            made[name] = statistics.median(one["rate"] for one in measured)
            faults = (abs(one[key]) for one in measured for key in ("lost", "torn", "doubled"))
            made[f"{name}, amiss"] = sum(faults)
    return made


def markdown(made: dict[str, Any]) -> str:
    """The two tables of one run."""
    facts = made["machine"]
    reports = [
        [
            f"{row['events']:,}",
            f"{number(row['cold_s'])} s",
            f"{number(row['warm_s'])} s",
            f"{number(row['cold_peak_bytes'] / _MIB)} MiB",
            f"{number(row['warm_peak_bytes'] / _MIB)} MiB",
        ]
        for row in made["reports"]
    ]
    appends = [
        [str(row["writers"])]
        + [number(row[name]) if name in row else "absent" for name in SUBJECTS]
        + [f"{sum(row[f'{name}, amiss'] for name in SUBJECTS[:2]):,.0f}"]
        for row in made["appends"]
    ]
    lines: Sequence[str] = (
        f"## {facts['date']}, revision {facts['revision']}",
        "",
        f"{facts['processors']} processors, Python {facts['python']}.",
        "",
        *table(("events", "cold", "warm, 1,000 new", "peak memory, cold", "warm"), reports),
        "",
        "Events a second, and events of memtally's that were lost, torn or doubled:",
        "",
        *table(("writers", *SUBJECTS, "amiss"), appends),
        "",
    )
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Measure, write ``growth.json`` and append to ``growth.md``."""
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="up to 100,000 events, results not kept")
    given = parser.parse_args(arguments)
    rounds = given.rounds or (1 if given.quick else 3)
    folder = QUICK_RESULTS if given.quick else RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    made = {
        "machine": machine(),
        "rounds": rounds,
        "reports": [report_growth(size, rounds) for size in (QUICK_SIZES if given.quick else SIZES)],
        "appends": [append_growth(many, 6_400 if given.quick else 64_000, rounds) for many in WRITERS],
    }
    (folder / "growth.json").write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    text = markdown(made)
    with (folder / "growth.md").open("a", encoding="utf-8") as stream:
        stream.write(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
