"""The check: limits are the user's, findings are exact, and what cannot be said is never a pass in silence."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memtally.report import UsageReport
from memtally.report.checking import Cost, Limits, always_on, check_report
from memtally.report.model import Coverage, RecordUsage, SourceCoverage

NOW = datetime(2026, 6, 1, tzinfo=UTC)
Run = Any


def on(day: int, month: int = 5) -> datetime:
    """A day of 2026 at noon."""
    return datetime(2026, month, day, 12, tzinfo=UTC)


RECORDS = (
    RecordUsage("decision", "read-lately", use_count=1, last_used_at=on(25), status="present", age_days=200),
    RecordUsage("decision", "read-long-ago", use_count=3, last_used_at=on(1), status="present", age_days=200),
    RecordUsage("decision", "never-read", status="present", age_days=40),
    RecordUsage("decision", "new", status="present", age_days=9),
    RecordUsage("decision", "of-unknown-age", status="present"),
    RecordUsage("decision", "gone", status="missing", use_count=1, last_used_at=on(1)),
    RecordUsage("instructions", "always", status="present", age_days=200, resident=True),
    RecordUsage("knowledge", "placed", status="present", age_days=200, resident_exposure_count=4),
    RecordUsage("memory", "~/mine", status="present", age_days=200, user_level=True),
    RecordUsage("request", "undated", use_count=1, status="present", age_days=200),
)
COVERAGE = Coverage(
    log_state="ok",
    inventory_state="complete",
    first_event_at=on(1, month=4),
    last_event_at=on(30),
    sources={"MemoryRead": SourceCoverage(9, on(1, month=4), on(30))},
)
MADE = UsageReport(RECORDS, COVERAGE, NOW)


def found(
    made: UsageReport, limits: Limits, costs: dict[Any, Cost] | None = None
) -> tuple[list[Any], list[Any]]:
    """What is above a limit and what cannot be said: check, record's slug, value."""
    checked = check_report(made, costs or {}, limits)
    return tuple(  # type: ignore[return-value]
        [(one.check, one.record and one.record[1], one.value) for one in part]
        for part in (checked.findings, checked.unknown)
    )


def test_unused_only_where_the_log_covers_it() -> None:
    """Old enough, not read for so long: named with its days; new, always-on, gone and user-level ones are not."""
    assert found(MADE, Limits(unused_days=10)) == (
        [("unused-days", "read-long-ago", 30), ("unused-days", "never-read", 40)],
        [("unused-days", "of-unknown-age", None), ("unused-days", "undated", None)],
    )
    # the 1st of May 12:00 is 30 days and a half before; so it is not within 30 days, but within 31
    assert [one[1] for one in found(MADE, Limits(unused_days=30))[0]] == ["read-long-ago", "never-read"]
    assert [one[1] for one in found(MADE, Limits(unused_days=31))[0]] == ["never-read"]
    assert [one[1] for one in found(MADE, Limits(unused_days=9))[0]] == ["read-long-ago", "never-read", "new"]


def test_the_first_moment_of_the_time_belongs_to_it() -> None:
    """A read exactly so many days ago is within them; a microsecond earlier is not."""
    start = NOW - timedelta(days=10)
    for last, number in ((start, 0), (start - timedelta(microseconds=1), 1)):
        record = replace(RECORDS[0], last_used_at=last)
        assert len(found(replace(MADE, records=(record,)), Limits(unused_days=10))[0]) == number


@pytest.mark.parametrize(
    ("change", "days", "why"),
    [
        ({"first_event_at": on(25)}, 10, "the log begins on 2026-05-25, less than 10 days ago"),
        ({}, 61, "the log begins on 2026-04-01, less than 61 days ago"),
        ({}, 10**9, "the log begins on 2026-04-01, less than 1,000,000,000 days ago"),
        ({"last_event_at": on(20)}, 10, "nothing has been recorded since 2026-05-20"),
        (
            {"log_state": "no_log", "first_event_at": None, "last_event_at": None},
            10,
            "nothing has been recorded",
        ),
        (
            {"inventory_state": "incomplete"},
            10,
            "the inventory is incomplete: too many folders to look through",
        ),
        ({"inventory_state": "none"}, 10, "no inventory is configured (memtally init)"),
        (
            {"silent_sources": ("SkillInvoke",)},
            10,
            "the source SkillInvoke is configured and has never recorded",
        ),
        ({"damaged_lines": 2}, 10, "2 damaged lines in the log (memtally log verify)"),
        (
            {"sources": {**COVERAGE.sources, "KnowledgeRef": SourceCoverage(1, on(1), on(2))}},
            10,
            "the source KnowledgeRef is silent since 2026-05-02; if it is no longer used: --retired KnowledgeRef",
        ),
    ],
)
def test_what_the_log_does_not_support_is_said(change: dict[str, Any], days: int, why: str) -> None:
    """Each gap in the coverage gives no finding and its reason."""
    made = replace(MADE, coverage=replace(COVERAGE, **change))
    checked = check_report(made, {}, Limits(unused_days=days))
    assert checked.findings == []
    assert [one.text for one in checked.unknown] == [why]


def test_a_retired_source_may_be_silent() -> None:
    """What the user calls retired holds nothing up."""
    sources = {**COVERAGE.sources, "Old": SourceCoverage(1, on(1), on(2))}
    made = replace(MADE, coverage=replace(COVERAGE, sources=sources, silent_sources=("Never",)))
    limits = Limits(unused_days=10, retired=("Old", "Never"))
    assert len(found(made, limits)[0]) == 2


def test_tokens_against_limits() -> None:
    """A limit that is met is kept; one token more is a finding, for one record and for all together."""
    assert [r.slug for r in always_on(MADE)] == ["always", "placed"]
    costs = {("instructions", "always"): Cost(700, "x"), ("knowledge", "placed"): Cost(300, "x")}
    assert found(MADE, Limits(record_tokens=700, resident_tokens=1_000), costs) == ([], [])
    assert found(MADE, Limits(record_tokens=299, resident_tokens=999), costs)[0] == [
        ("record-tokens", "always", 700),
        ("record-tokens", "placed", 300),
        ("resident-tokens", None, 1_000),
    ]
    costs["knowledge", "placed"] = Cost(None, "")
    assert found(MADE, Limits(resident_tokens=700), costs) == ([], [("resident-tokens", "placed", None)])


@pytest.fixture
def tended(workspace: Path) -> Path:
    """A workspace with two always-on files: of 5 and of 3 tokens by the formula of four bytes a token."""
    (workspace / ".memtally").mkdir()
    (workspace / ".memtally" / "config.toml").write_text(
        '[resident]\nkinds = ["instructions", "rule"]\n'
        '[records]\ninstructions = ["CLAUDE.md"]\nrule = ["rules/*.md"]\n'
    )
    (workspace / "CLAUDE.md").write_text("x" * 20)
    (workspace / "rules").mkdir()
    (workspace / "rules" / "a.md").write_text("y" * 12)
    return workspace


def test_the_command(run: Run, tended: Path) -> None:
    """Exit 0 within the limits, 1 above one, 2 without any; without a log the files themselves are measured."""
    plain = {"MEMTALLY_TOKENIZER": "bytes/4"}
    within = run("check", "--max-record-tokens", "5", "--max-resident-tokens", "8", **plain)
    assert (within.returncode, within.stdout) == (
        0,
        "0 findings; 2 always-on records with 8 tokens a placing.\n",
    )
    assert run("check", "--max-record-tokens", "5", "--strict", **plain).returncode == 0
    above = run("check", "--max-record-tokens", "4", "--max-resident-tokens", "7", **plain)
    assert above.returncode == 1
    assert above.stdout.splitlines()[:2] == [
        "record-tokens: instructions/CLAUDE.md: always on, 5 tokens a placing by bytes/4; the limit is 4",
        "resident-tokens: 2 always-on records, 8 tokens together; the limit is 7",
    ]
    got = json.loads(run("check", "--max-record-tokens", "4", "--json", **plain).stdout)
    assert [(one["check"], one["record"]["slug"], one["value"], one["limit"]) for one in got["findings"]] == [
        ("record-tokens", "CLAUDE.md", 5, 4)
    ]
    for wrong in (
        (),
        ("--strict",),
        ("--max-record-tokens", "-1"),
        ("--unused-days", "0"),
        ("--max-record-tokens", "many"),
    ):
        assert run("check", *wrong).returncode == 2
    unknown = run("check", "--unused-days", "30")
    assert (unknown.returncode, unknown.stdout.splitlines()[0]) == (
        0,
        "cannot be said: unused-days: nothing has been recorded",
    )
    assert run("check", "--unused-days", "30", "--strict").returncode == 1


def test_a_placing_of_a_part_costs_the_part(run: Run, tended: Path) -> None:
    """Where the log's file is the present one, its placing is what counts; once the file changes, the file."""
    plain = {"MEMTALLY_TOKENIZER": "bytes/4"}
    line = {
        "id": "1",
        "occurred_at": "2026-05-01T00:00:00.000000Z",
        "event": "resident_exposure",
        "source": "ResidentInjection",
        "tokenizer": "bytes/4",
        "records": [
            {
                "kind": "instructions",
                "slug": "CLAUDE.md",
                "file_bytes": 20,
                "injected_bytes": 8,
                "injected_tokens_estimate": 2,
            }
        ],
    }
    (tended / ".memtally" / "usage.jsonl").write_text(json.dumps(line) + "\n")
    assert "with 5 tokens a placing" in run("check", "--max-resident-tokens", "9", **plain).stdout
    (tended / "CLAUDE.md").write_text("x" * 400)
    assert "with 103 tokens a placing" in run("check", "--max-resident-tokens", "999", **plain).stdout


def test_the_pre_commit_hook(tended: Path) -> None:
    """The hook's definition runs the check of this package, whole, with the user's limits as arguments."""
    import memtally

    text = (Path(memtally.__file__).parents[2] / ".pre-commit-hooks.yaml").read_text()
    entry = next(line.split(":", 1)[1].split() for line in text.splitlines() if "entry:" in line)
    assert "pass_filenames: false" in text
    assert entry == ["memtally", "check"]
    done = subprocess.run(
        [sys.executable, "-m", *entry, "--max-record-tokens", "1"],
        cwd=tended,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 1


# -- completion ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script(run: Run, shell: str) -> None:
    """Each shell's script names the program and, where the shell is here, is one that it can read."""
    done = run("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert "_MEMTALLY_COMPLETE" in done.stdout
    if shutil.which(shell):
        read = subprocess.run([shell, "-n"], input=done.stdout, text=True, capture_output=True, timeout=30)
        assert (read.returncode, read.stderr) == (0, "")
    assert run("completion", "tcsh").returncode == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here")
def test_bash_completes(run: Run, tended: Path) -> None:
    """A real bash, with the script sourced, completes commands, formats and records of log and inventory."""
    run("add", "use", "decision/from-the-log")
    script = tended / "completion.bash"
    script.write_text(run("completion", "bash").stdout)
    (tended / "bin").mkdir()
    program = tended / "bin" / "memtally"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m memtally "$@"\n')
    program.chmod(0o755)

    def completed(*words: str) -> list[str]:
        listed = " ".join(f'"{word}"' for word in words)
        code = (
            f"source {script}; COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; "
            '_memtally_completion memtally; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(
            ["bash", "--norc", "-c", code],
            cwd=tended,
            capture_output=True,
            text=True,
            timeout=60,
            env={"PATH": f"{tended / 'bin'}:/usr/bin:/bin"},
        )
        assert done.stderr == ""
        return done.stdout.split()

    assert completed("memtally", "re") == ["report", "review"]
    assert completed("memtally", "report", "--format", "c") == ["csv"]
    assert completed("memtally", "show", "") == ["decision/from-the-log", "instructions/CLAUDE.md", "rule/a"]
    assert completed("memtally", "show", "dec") == ["decision/from-the-log"]
    (tended / ".memtally" / "config.toml").write_text("[")
    assert completed("memtally", "show", "") == []
