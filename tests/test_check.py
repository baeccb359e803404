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
from memtally.report.model import Coverage, RecordUsage, Route, SourceCoverage

NOW = datetime(2026, 6, 1, tzinfo=UTC)
IGNORE = "; if that is as it should be: --ignore-source MemoryRead"
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
    read_sources={"MemoryRead": SourceCoverage(9, on(1, month=4), on(30))},
)
UNDATED = {"undated": {Route("use", "MemoryRead", False): 1}}
MADE = UsageReport(RECORDS, COVERAGE, NOW, history={("request", "undated"): UNDATED})


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
        (
            {"read_sources": {"MemoryRead": SourceCoverage(9, on(25), on(30))}},
            10,
            f"the source MemoryRead has recorded reads only since 2026-05-25, less than 10 days ago{IGNORE}",
        ),
        (
            {},
            61,
            f"the source MemoryRead has recorded reads only since 2026-04-01, less than 61 days ago{IGNORE}",
        ),
        (
            {},
            10**9,
            f"the source MemoryRead has recorded reads only since 2026-04-01, less than 1,000,000,000 days ago{IGNORE}",
        ),
        (
            {"read_sources": {"MemoryRead": SourceCoverage(9, on(1), on(20))}},
            10,
            f"the source MemoryRead is silent since 2026-05-20{IGNORE}",
        ),
        (
            {"read_sources": {"MemoryRead": SourceCoverage(1, None, None)}},
            10,
            "the source MemoryRead has no dated read",
        ),
        (
            {"read_sources": {}},
            10,
            "no read has been recorded",
        ),  # though there are placings: the log is not empty
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
        (
            {"damaged_lines": 2},
            10,
            "2 damaged lines in the log, which may have been reads (memtally log verify)",
        ),
        (
            {"conflicting_events": 1},
            10,
            "1 conflicting event in the log, which may have been reads (memtally log verify)",
        ),
        (
            {"unknown_events": 3},
            10,
            "3 events of an unknown sort in the log, which may have been reads (memtally log verify)",
        ),
    ],
)
def test_what_the_log_does_not_support_is_said(change: dict[str, Any], days: int, why: str) -> None:
    """Each gap in the coverage gives no finding and its reason."""
    made = replace(MADE, coverage=replace(COVERAGE, **change))
    checked = check_report(made, {}, Limits(unused_days=days))
    assert checked.findings == []
    assert [one.text for one in checked.unknown] == [why]


def test_a_source_may_be_ignored_but_not_all() -> None:
    """What the user says need not cover the time holds nothing up; without any other route nothing is said."""
    sources = {**COVERAGE.read_sources, "Old": SourceCoverage(1, on(1), on(2))}
    made = replace(MADE, coverage=replace(COVERAGE, read_sources=sources, silent_sources=("Never",)))
    assert len(found(made, Limits(unused_days=10, ignored_sources=("Old", "Never")))[0]) == 2
    everything = Limits(unused_days=10, ignored_sources=("Old", "Never", "MemoryRead"))
    assert found(made, everything) == ([], [("unused-days", None, None)])


@pytest.mark.parametrize("day", ["undated", "2999-01-01"])
def test_a_later_read_at_an_unknown_time_is_no_absence(day: str) -> None:
    """A record last read long ago by its dates, and once more at a time nobody knows, is not called unused."""
    key = ("decision", "read-long-ago")
    used, kept = Route("use", "MemoryRead", False), Route("use", "MemoryRead", True)
    for route, unknown in ((used, True), (kept, False)):
        made = replace(MADE, records=(RECORDS[1],), history={key: {day: {route: 1}}})
        findings, unsaid = found(made, Limits(unused_days=10))
        assert (len(findings), len(unsaid)) == ((0, 1) if unknown else (1, 0))


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
        "cannot be said: unused-days: no read has been recorded",
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


def event(number: int, at: str, slug: str, **fields: Any) -> str:
    """One read of a decision, as a line."""
    record = {"kind": "decision", "slug": slug, **fields.pop("record", {})}
    line = {"id": str(number), "occurred_at": at, "event": "use", "source": "MemoryRead", "records": [record]}
    return json.dumps(line | fields) + "\n"


def test_a_read_after_the_placing_does_not_stand_for_it(run: Run, tended: Path) -> None:
    """A file that grew since it was placed costs its present size, also where a read has recorded that size."""
    plain = {"MEMTALLY_TOKENIZER": "bytes/4"}
    placed = {"kind": "instructions", "file_bytes": 20, "injected_tokens_estimate": 2, "injected_bytes": 8}
    log = tended / ".memtally" / "usage.jsonl"
    log.write_text(
        event(1, "2026-05-01T00:00:00.000000Z", "CLAUDE.md", record=placed, event="resident_exposure")
        + event(
            2, "2026-05-02T00:00:00.000000Z", "CLAUDE.md", record={"kind": "instructions", "file_bytes": 400}
        )
    )
    (tended / "CLAUDE.md").write_text("x" * 400)
    above = run("check", "--max-record-tokens", "99", **plain)
    assert (above.returncode, "100 tokens a placing by bytes/4" in above.stdout) == (1, True)
    # a later placing of unknown cost makes the latest known one no evidence of the present file either
    unknown = {"kind": "instructions", "file_bytes": 400}
    with log.open("a") as stream:
        stream.write(
            event(3, "2026-05-03T00:00:00.000000Z", "CLAUDE.md", record=unknown, event="resident_exposure")
        )
    assert run("check", "--max-record-tokens", "99", **plain).returncode == 1


def test_what_recording_has_lost_is_no_absence(run: Run, tended: Path) -> None:
    """Placings, maintenance's reads, faults and lost events: nothing is called unused; with whole reads it is."""
    (tended / ".memtally" / "config.toml").write_text('[records]\ndecision = ["decisions/*.md"]\n')
    (tended / "decisions").mkdir()
    for name in "ab":
        (tended / "decisions" / f"{name}.md").write_text("x")
    log = tended / ".memtally" / "usage.jsonl"
    old, lately = "2026-04-01T00:00:00.000000Z", "2026-05-31T00:00:00.000000Z"
    arguments = ("check", "--unused-days", "30", "--now", "2026-06-01", "--json")

    def checked(*lines: str) -> tuple[list[str], list[str]]:
        log.write_text("".join(lines))
        got = json.loads(run(*arguments).stdout)
        return [one["record"]["slug"] for one in got["findings"]], [one["text"] for one in got["unknown"]]

    first, last = event(1, old, "a"), event(2, lately, "b")
    assert checked(first, last) == (["a"], [])
    placed = {"event": "resident_exposure", "source": "ResidentInjection"}
    assert checked(event(1, old, "a", **placed), event(2, lately, "b", **placed)) == (
        [],
        ["no read has been recorded"],
    )
    assert checked(first, event(2, lately, "b", actor="maintenance")) == (
        [],
        [f"the source MemoryRead is silent since 2026-04-01{IGNORE}"],
    )
    fault = {
        "at": datetime(2026, 5, 20, tzinfo=UTC).timestamp(),
        "fault": "log_write",
        "count": 9,
        "message": "x",
    }
    health = tended / ".memtally" / "health.jsonl"
    health.write_text(json.dumps(fault) + "\n")
    assert checked(first, last) == ([], ["recording has failed (log write; memtally status)"])
    health.write_text(json.dumps(fault | {"at": datetime(2026, 4, 20, tzinfo=UTC).timestamp()}) + "\n")
    assert checked(first, last) == (["a"], [])  # before the time that is asked for
    health.write_text(json.dumps({"at": 1.0, "pid": 1, "host": "elsewhere", "waiting": 9}) + "\n")
    assert checked(first, last) == ([], ["events wait outside the log, or are lost (memtally status)"])


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
    for hostile in (
        "x;touch pwned",
        "$(touch pwned)",
        "`touch pwned`",
        "two words",
        "a*",
        "plugin:name",
        "~",
        "-x",
    ):
        run("add", "use", f"decision/{hostile}")
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
    assert completed("memtally", "show", "") == [
        "decision/-x",
        "decision/from-the-log",
        "instructions/CLAUDE.md",
        "rule/a",
    ]
    assert completed("memtally", "show", "decision/f") == ["decision/from-the-log"]
    assert not (tended / "pwned").exists()
    (tended / ".memtally" / "config.toml").write_text("[")
    assert completed("memtally", "show", "") == []
