"""At a terminal: every figure at any width, no name that does anything, colour only where it is wanted."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, timedelta
from pathlib import Path
from typing import Any

import pytest

from conftest import DATA
from memtally.report import UsageReport
from memtally.report._text import width
from memtally.report.formats import Options, terminal
from memtally.report.formats.periods import Period, periods
from memtally.report.model import Route
from test_formats import HOSTILE
from test_report import event, exposure, report_of

OLDER = str(DATA / "usage-older-writer.jsonl")
LONG = "a-long-name-of-a-record-" * 4
READ = Route("use", "MemoryRead", False)
Terminal = Callable[..., str]


@pytest.fixture
def at_terminal(workspace: Path) -> Terminal:
    """Runs the command line with a terminal of some width as its output; what it showed."""

    def call(*arguments: str, columns: int = 100, python: tuple[str, ...] = (), **environment: str) -> str:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        inherited = {n: v for n, v in os.environ.items() if n not in ("COLUMNS", "LINES", "NO_COLOR")}
        with subprocess.Popen(
            [sys.executable, *(python or ("-m", "memtally")), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.STDOUT,
            cwd=workspace,
            env=inherited | {"TERM": "xterm-256color", "PYTHONWARNINGS": "error", **environment},
        ):
            os.close(theirs)
            shown = b""
            try:
                while data := os.read(ours, 65_536):
                    shown += data
            except OSError:  # the terminal's other side is closed
                pass
            finally:
                os.close(ours)
        return shown.decode().replace("\r\n", "\n")

    return call


@pytest.fixture
def made(tmp_path: Path) -> UsageReport:
    """Five uses of a by two routes, one by maintenance, 1,234 placings of b, hostile names."""
    events = [event(n, day=n) for n in range(1, 5)]
    events += [event(5, day=9, source="KnowledgeRef"), event(6, day=9, actor="maintenance")]
    events += [exposure(n, "b", day=n % 28 + 1) for n in range(10, 1_244)]
    events += [event(1_999, LONG)]
    events += [event(2_000 + n, slug, source=f"S{slug}") for n, slug in enumerate(HOSTILE)]
    return report_of(tmp_path / "made.jsonl", events, history=UTC)


@pytest.mark.parametrize("columns", [*range(20, 70, 7), 63, 64, 79, 80, 111, 112, 140, 250])
def test_every_figure_at_every_width(made: UsageReport, columns: int) -> None:
    """No line is wider than the terminal, no figure is cut, and hostile names are inert."""
    options = Options(everything=True, columns=columns)
    for text in (
        terminal.report(made, options),
        terminal.review(made.review(), made, options),
        terminal.show(made["decision", "a"], {}, made, options),
    ):
        assert max(map(width, text.splitlines())) <= columns
        assert all(c.isprintable() or c == "\n" for c in text)
        assert "[x](y)" in re.sub(r"\s", "", text) or "decision/a\n" in text
    text = terminal.report(made, options)
    whole = re.sub(r"\s", "", text + terminal.review(made.review(), made, options))
    assert columns >= 70 or f"decision/{LONG}" in whole  # above, its rows stand beside figures
    assert "…" not in text
    assert "KnowledgeRef1,MemoryRead4" in re.sub(r"\s", "", text) or columns >= 85  # there beside figures
    rows = [line.split() for line in text.splitlines()]
    if columns >= 77:
        assert ["decision/b", "0", "-", "1,234", "10", "12,340"] in [r[:3] + r[-3:] for r in rows]
        assert ["decision/a", "5", "2026-05-09", "0", "-", "0"] in [r[:3] + r[-3:] for r in rows]
    elif columns < 70:
        squeezed = " ".join(word for row in rows for word in row)
        assert "decision/a uses 5, last 2026-05-09 12:00, KnowledgeRef 1, MemoryRead 4 " in squeezed
        assert "decision/b uses 0 exposures 1,234, tokens latest 10, tokens total 12,340 " in squeezed


def test_the_chart_of_a_record(made: UsageReport) -> None:
    """One row a day from the first to the last, a bar for each event, the kinds apart, gaps visible."""
    text = terminal.show(made["decision", "a"], {}, made, Options(columns=80))
    chart = text[text.index("DAY") :].split("\n\n")[0].splitlines()
    assert chart == [
        "DAY         █ uses  ▒ maintenance",
        "2026-05-01  █ 1",
        "2026-05-02  █ 1",
        "2026-05-03  █ 1",
        "2026-05-04  █ 1",
        "2026-05-05",
        "2026-05-06",
        "2026-05-07",
        "2026-05-08",
        "2026-05-09  █▒ 1, 1",
    ]
    plain = terminal.show(made["decision", "a"], {}, made, Options(columns=80, block_characters=False))
    assert "2026-05-09  #+ 1, 1\n" in plain
    assert plain.isascii()
    # one beside 1,000: still one character
    much = {"2026-05-01": {READ: 1}, "2026-05-02": {READ: 1_000}}
    history = replace(made, history={("decision", "a"): much})
    text = terminal.show(made["decision", "a"], {}, history, Options(columns=80))
    assert "2026-05-01  █ 1\n" in text
    assert f"2026-05-02  {'█' * 46} 1,000\n" in text  # 80 columns without 34
    # 1,234 placings on 28 days: 44 a day, 45 on the first two; 60 columns of bars have room for all
    placed = terminal.show(made["decision", "b"], {}, made, Options(columns=200))
    assert f"2026-05-11  {'░' * 45} 45\n" in placed
    assert f"2026-05-09  {'░' * 44} 44\n" in placed


@pytest.mark.parametrize(
    ("days", "unit", "names"),
    [
        (["2026-02-27", "2026-03-01"], "day", ["2026-02-27", "2026-02-28", "2026-03-01"]),
        (["2026-01-01", "2026-01-31"], "day", [f"2026-01-{n:02d}" for n in range(1, 32)]),
        (
            ["2026-01-01", "2026-02-01"],  # 32 days; the 1st of January is a Thursday, of February a Sunday
            "week",
            ["2025-12-29", "2026-01-05", "2026-01-12", "2026-01-19", "2026-01-26"],
        ),
        (["2025-12-31", "2026-08-03"], "month", ["2025-12", *(f"2026-{n:02d}" for n in range(1, 9))]),
        (["2020-06-01", "2023-01-01"], "year", ["2020", "2021", "2022", "2023"]),
        (["0001-01-01", "9999-12-31"], "year", ["0001", "9999"]),
        (
            ["0001-01-01", "0001-02-01"],
            "week",
            ["0001-01-01", "0001-01-08", "0001-01-15", "0001-01-22", "0001-01-29"],
        ),
        (["9999-12-01", "9999-12-31"], "day", [f"9999-12-{n:02d}" for n in range(1, 32)]),
        (["2026-05-01", "undated"], "day", ["2026-05-01", "undated"]),
        (["undated"], "day", ["undated"]),
        ([], "", []),
    ],
)
def test_periods(days: list[str], unit: str, names: list[str] | None) -> None:
    """As fine as 31 rows allow, without a gap, undated events last, also at the ends of the calendar."""
    found = periods({day: {READ: 2} for day in days})
    if names is not None:
        assert [period.name for period in found] == names
    assert {period.unit for period in found if period.name != "undated"} <= {unit}
    assert sum(period.events.get("uses", 0) for period in found) == 2 * len(days)


def test_periods_conserve_what_the_days_hold() -> None:
    """Over any span the periods' sums are the days' sums, sort by sort."""
    placed, kept = Route("resident_exposure", "ResidentInjection", False), Route("use", "MemoryRead", True)
    for span in (1, 30, 31, 32, 216, 217, 218, 900, 1_000, 4_000):
        days = {
            (date(2020, 2, 29) + timedelta(days=n)).isoformat(): {READ: n, placed: 2, kept: 1}
            for n in range(span)
        }
        sums: dict[str, int] = {}
        for period in periods(days):
            for sort, number in period.events.items():
                sums[sort] = sums.get(sort, 0) + number
        assert sums == {"uses": span * (span - 1) // 2, "exposures": 2 * span, "maintenance": span}
    assert periods({"2026-05-01": {READ: 1}}) == [Period("day", "2026-05-01", {"uses": 1})]


def test_a_real_terminal(at_terminal: Terminal) -> None:
    """Colour at a terminal; none by the flag, by NO_COLOR or for a dumb one; the layout follows the width."""
    for command in (("report",), ("review",), ("show", "workflow/ship-it")):
        arguments = (*command, "--log", OLDER, "--now", "2026-06-01")
        colored = at_terminal(*arguments)
        assert "\x1b[" in colored
        plain = re.sub(r"\x1b\[[0-9;]*m", "", colored)
        assert "\x1b" not in plain
        for shown in (
            at_terminal(*arguments, "--no-color"),
            at_terminal(*arguments, NO_COLOR="1"),
            at_terminal(*arguments, TERM="dumb"),
        ):
            assert shown == plain
        assert max(map(width, at_terminal(*arguments, columns=40, NO_COLOR="1").splitlines())) <= 40
    assert "# uses" in at_terminal(
        "show", "workflow/ship-it", "--log", OLDER, "--no-color", PYTHONIOENCODING="ascii"
    )


def test_without_rich_the_table_serves(at_terminal: Terminal) -> None:
    """Where Rich is not installed, a terminal has what a pipe has."""
    code = (
        "import sys, importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'rich' else find(name, *more)\n"
        "from memtally.cli import main; main()"
    )
    arguments = ("report", "--log", OLDER, "--now", "2026-06-01")
    shown = at_terminal(*arguments, columns=200, python=("-c", code))
    piped = subprocess.run(
        [sys.executable, "-m", "memtally", *arguments], capture_output=True, text=True, timeout=60
    )
    assert shown == piped.stdout


def test_a_pipe_is_plain_and_loads_no_rich(run: Any) -> None:
    """Piped output does not depend on the terminal's width, has no colour, and never imports the library."""
    arguments = ("report", "--log", OLDER, "--now", "2026-06-01")
    narrow, wide = (run(*arguments, COLUMNS=columns, FORCE_COLOR="1").stdout for columns in ("40", "300"))
    assert narrow == wide
    assert "\x1b" not in wide
    code = (
        "import sys; from memtally.cli._group import run\n"
        "run(sys.argv[1:])\n"
        "print({'rich', 'jinja2', 'memtally.report.formats.table'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.stderr == "{'memtally.report.formats.table'}\n"
