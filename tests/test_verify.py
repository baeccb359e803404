"""``log verify`` and ``log seal``: what is wrong and where, in agreement with the report; sealing on demand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtally import build_report
from memtally.events import encode_event
from memtally.ledger.decode import decode_line, what_is_wrong
from memtally.ledger.reader import open_logs
from memtally.ledger.verify import PROBLEMS, Verification
from test_events import usage_events
from test_reader import line

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")

Run = Callable[..., subprocess.CompletedProcess[str]]
FAR = 2**62


def write(path: Path, *lines: bytes) -> Path:
    """A file of some lines."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(text + b"\n" for text in lines))
    return path


def test_each_problem_is_said_with_its_place(run: Run, workspace: Path) -> None:
    """File, line from one, byte from nought and length: worked out by hand from the lines' lengths."""
    lines = [
        line(1),
        line(2)[:-5],
        line(1),
        line(1, "other"),
        line(3, source="MemorySearch"),
        line(4, occurred_at="yesterday"),
        line(5, occurred_at="2027-01-01T00:00:00Z"),
        line(6) + line(7),
        line(8, event="archived"),
        line(9, event="archived", occurred_at="never"),
        b"",
    ]
    write(workspace / ".memtally" / "usage.jsonl", *lines)
    done = run("log", "verify", "--json", "--now", "2026-06-01T00:00:00Z")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    starts = [sum(len(text) + 1 for text in lines[:number]) for number in range(len(lines))]
    assert [
        (f["line"], f["offset"], f["length"], f["problem"], f["recovered"]) for f in found["findings"]
    ] == [
        (2, starts[1], len(lines[1]), "damaged", 0),
        (3, starts[2], len(lines[2]), "duplicate", 0),
        (4, starts[3], len(lines[3]), "conflict", 0),
        (5, starts[4], len(lines[4]), "search", 0),
        (6, starts[5], len(lines[5]), "undated", 0),
        (7, starts[6], len(lines[6]), "future", 0),
        (8, starts[7], len(lines[7]), "damaged", 2),
    ]
    log = workspace / ".memtally" / "usage.jsonl"
    assert found["files"] == [{"file": str(log), "bytes": log.stat().st_size}]
    assert (found["lines"], found["events"]) == (11, 10)
    with log.open("rb") as stream:
        stream.seek(found["findings"][2]["offset"])
        assert stream.read(len(lines[3])) == lines[3]
    coverage = build_report(workspace).coverage
    assert (coverage.damaged_lines, coverage.recovered_events) == (2, 2)
    assert (coverage.duplicate_events, coverage.conflicting_events, coverage.search_events) == (1, 1, 1)


def test_the_text_names_the_place_for_people(run: Run, workspace: Path) -> None:
    """One line a finding, which begins as editors and terminals know it; the sum at the end; exit 1."""
    log = write(workspace / ".memtally" / "usage.jsonl", line(1), b"<<<<<<< HEAD", line(1))
    done = run("log", "verify")
    assert done.returncode == 1
    at = len(line(1)) + 1
    assert done.stdout.splitlines() == [
        f"{log}:2: at byte {at}: damaged: a conflict marker of git",
        f"{log}:3: at byte {at + 13}: duplicate: id 00000000-0000-7000-8000-000000000001",
        "1 file, 3 lines, 2 events: 1 damaged, 1 duplicate",
    ]


def test_what_is_expected_can_be_left_out(run: Run, workspace: Path) -> None:
    """Duplicates by design, after merging logs for example, need not fail a check."""
    write(workspace / ".memtally" / "usage.jsonl", line(1), line(1))
    assert run("log", "verify").returncode == 1
    done = run("log", "verify", "--ignore", "duplicate")
    assert (done.returncode, done.stdout) == (0, "1 file, 2 lines, 2 events: nothing wrong\n")


def test_a_whole_log_and_no_log_are_well(run: Run, workspace: Path) -> None:
    """Exit 0 where nothing is wrong, also where there is nothing yet; 2 for an explicit log that is missing."""
    assert run("log", "verify").returncode == 0
    write(workspace / ".memtally" / "usage.jsonl", line(1), line(2))
    done = run("log", "verify")
    assert (done.returncode, done.stdout) == (0, "1 file, 2 lines, 2 events: nothing wrong\n")
    assert json.loads(run("log", "verify", "--json").stdout)["findings"] == []
    done = run("log", "verify", "--log", "gone.jsonl")
    assert (done.returncode, "gone.jsonl" in done.stderr) == (2, True)


def test_files_are_checked_too(run: Run, workspace: Path, tmp_path: Path) -> None:
    """A link out of the workspace and one file under two names are findings, and are not read (twice)."""
    write(tmp_path / "elsewhere.jsonl", line(9))
    log = write(workspace / ".memtally" / "usage.jsonl", line(1))
    os.link(log, log.with_name("usage-1.jsonl"))
    log.with_name("usage-import-x.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    found = json.loads(run("log", "verify", "--json").stdout)
    assert found["events"] == 1
    assert [(os.path.basename(f["file"]), f["problem"]) for f in found["findings"]] == [
        ("usage-import-x.jsonl", "ignored"),
        ("usage.jsonl", "two-names"),
    ]


@pytest.mark.parametrize(
    ("damaged", "why"),
    [
        (line(1)[:40], "not JSON at byte "),
        (b"\xef\xbb\xbf" + line(1)[:7], "not JSON at byte 9: Unterminated string"),
        (line(1) + line(2), f"more than one value, the first ends at byte {len(line(1))}"),
        (b"\0" * 8 + line(1), "NUL at byte 0"),
        (b"=======", "a conflict marker of git"),
        (line(1).replace(b'"x"', b'"\xff"'), "not UTF-8 at byte "),
        (b"[" * 10_000, "nested too deep"),
        (b"null", "no event: Expected `object`, got `null`"),
        (b"{}", "no event: Object missing required field `id`"),
        (line(1).replace(b'bytes":1', b'bytes":"secret"'), "no event: Expected `int | null`, got `str`"),
        (line(1).replace(b'bytes":1', b'bytes":NaN'), "a number that is none"),
        (line(1).replace(b'bytes":1', b'bytes":' + b"9" * 5_000), "no event: Expected `int | null`"),
        (
            b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"eventName":"memtally.use"}]}]}]}',
            "a record in its",
        ),
    ],
)
def test_why_a_line_is_damaged(damaged: bytes, why: str) -> None:
    """The reason is said in a few words, with a place in the line where there is one, and without content."""
    assert decode_line(damaged)[1]
    said = what_is_wrong(damaged)
    assert said.startswith(why)
    assert "secret" not in said


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=60) | usage_events.map(encode_event), max_size=12), st.randoms())
def test_verify_and_report_agree(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], random: Any
) -> None:
    """Whatever stands in the lines, repeated and shuffled: the same numbers by either way."""
    lines = [text.rstrip(b"\n") for text in lines] * 2
    random.shuffle(lines)
    path = write(tmp_path_factory.mktemp("verify") / "log.jsonl", *lines)
    with open_logs([path]) as logs:
        check = Verification(logs, FAR)
        found = list(check.findings())
    counts = Counter(finding.problem for finding in found)
    coverage = build_report(logs=[path]).coverage
    assert counts["damaged"] == coverage.damaged_lines
    assert counts["duplicate"] == coverage.duplicate_events
    assert counts["conflict"] == coverage.conflicting_events
    assert sum(finding.recovered for finding in found) == coverage.recovered_events
    assert set(counts) <= set(PROBLEMS)
    data = path.read_bytes()
    for finding in found:
        assert finding.offset is not None
        assert finding.length is not None
        assert finding.line == data[: finding.offset].count(b"\n") + 1
        assert b"\n" not in data[finding.offset : finding.offset + finding.length]


# -- sealing -----------------------------------------------------------------------------------------


def test_seal_on_demand(run: Run, workspace: Path) -> None:
    """The live log takes the next number, its path is said, the next event begins a new one."""
    log = write(workspace / ".memtally" / "usage.jsonl", line(1))
    sealed = log.with_name("usage-1.jsonl")
    assert run("log", "seal").stdout == f"{sealed}\n"
    assert (sealed.read_bytes(), log.exists()) == (line(1) + b"\n", False)
    done = run("log", "seal")
    assert (done.returncode, done.stdout, "nothing to seal" in done.stderr) == (0, "", True)
    assert run("add", "use", "decision/a").returncode == 0
    assert json.loads(run("log", "seal", "--json").stdout) == {
        "format_version": 1,
        "sealed": str(log.with_name("usage-2.jsonl")),
    }
    assert build_report(workspace).coverage.events == 2


def test_seal_makes_nothing_where_nothing_is(run: Run, workspace: Path) -> None:
    """A workspace without a log stays without one; an empty log stays as it is."""
    assert run("log", "seal").returncode == 0
    assert list(workspace.iterdir()) == []
    log = write(workspace / ".memtally" / "usage.jsonl")
    assert run("log", "seal").returncode == 0
    assert log.exists()


def test_seal_says_why_not(run: Run, workspace: Path) -> None:
    """A log that somebody holds locked is left alone, with exit 2 and the reason."""
    import fcntl

    log = write(workspace / ".memtally" / "usage.jsonl", line(1))
    with log.open("rb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        done = run("log", "seal")
    assert (done.returncode, "locked" in done.stderr, log.exists()) == (2, True, True)
