"""Every bar of memtally's speed beside its peers: ``python -m bench.run``; see ``bench/README.md``."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench.bars import judge
from bench.harness import Outcome, Settings, say
from bench.output import number, write_outcome, write_table
from bench.rows_callsite import read_row
from bench.rows_processes import processes_row
from bench.rows_report import report_row, warm_row
from bench.rows_start import start_row, tokens_row
from bench.running import DATA

ROWS: dict[str, Callable[[Settings], Outcome]] = {
    "report": report_row,
    "warm": warm_row,
    "read": read_row,
    "start": start_row,
    "tokens": tokens_row,
    "processes": processes_row,
}
RESULTS = Path(__file__).resolve().parent / "results"
QUICK_RESULTS = DATA / "quick-results"
"""Figures of a quick run are for trying out, and not kept with the others."""


def _rows(text: str) -> list[str]:
    wanted = text.split(",")
    for row in wanted:
        if row not in ROWS:
            raise argparse.ArgumentTypeError(f"no row {row!r}; there are {', '.join(ROWS)}")
    return wanted


def _print(outcome: Outcome) -> None:
    print(f"\n{outcome.row}: {', '.join(f'{key} {value}' for key, value in outcome.settings.items())}")
    for name, figure in outcome.figures.items():
        spread = f"{number(min(figure.values))} .. {number(max(figure.values))}"
        print(f"  {name:<48} {number(figure.median):>9} {figure.unit:<9} {spread:<20} {figure.remark}")
    for name, reason in outcome.absent.items():
        print(f"  {name:<48} absent: {reason}")
    for remark in outcome.remarks:
        print(f"  {remark}")
    for verdict in judge(outcome.row, outcome.figures):
        value = "" if verdict.value is None else number(verdict.value)
        peer = f" x {verdict.peer}" if verdict.peer else ""
        bound = f"{'>=' if verdict.bar.at_least else '<='} {number(verdict.bar.limit)}"
        print(f"  BAR {verdict.bar.what}: {value}{peer} ({bound}): {verdict.text}")


def main(arguments: list[str] | None = None) -> int:
    """Measure the rows that were asked for, and write their results."""
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.add_argument("--rows", type=_rows, default=list(ROWS), help=f"some of {','.join(ROWS)}")
    parser.add_argument("--rounds", type=int, default=0, help="rounds of each row; each row's own by default")
    parser.add_argument("--events", type=int, default=0, help="events, calls or texts of each row")
    parser.add_argument("--quick", action="store_true", help="small inputs, two minutes, results not kept")
    given = parser.parse_args(arguments)
    settings = Settings(given.rounds, given.events, given.quick)
    folder = QUICK_RESULTS if given.quick else RESULTS
    failed = []
    for row in given.rows:
        try:
            outcome = ROWS[row](settings)
        except (OSError, subprocess.SubprocessError) as error:  # the other rows can still be measured
            say(f"{row}: {error}\n{getattr(error, 'stderr', '')}")
            failed.append(row)
            continue
        write_outcome(outcome, folder)
        _print(outcome)
        sys.stdout.flush()
    write_table(list(ROWS), folder)
    say(f"results in {folder.name}/")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
