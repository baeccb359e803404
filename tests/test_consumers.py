"""The example programs that read the figures, each as a process of its own, on a log written by hand."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT
from memtally.events import EXPOSURE, USE, RecordSnapshot, UsageEvent, encode_event, new_event_id
from memtally.ledger.decode import parse_time

CONSUMERS = ROOT / "examples" / "consumers"
RECORDS = (
    "decisions/otlp.md",
    "decisions/quiet.md",
    "requests/dark.md",
    "knowledge/retry.md",
    "knowledge/old.md",
    "CLAUDE.md",
    "AGENTS.md",
)
CONFIG = 'preset = "generic"\nsources = ["KnowledgeRef", "SkillInvoke"]\n'


def line(
    at: str, name: str, *, event: str = USE, session: str = "s1", actor: str = "agent", **sizes: int
) -> bytes:
    """One event of one record, as the log has it."""
    kind, slug = name.split("/", 1)
    source = (
        "ResidentInjection" if event == EXPOSURE else "KnowledgeRef" if kind == "knowledge" else "MemoryRead"
    )
    return encode_event(
        UsageEvent(
            new_event_id(),
            parse_time(at),
            event,
            source,
            (RecordSnapshot(kind, slug, **sizes),),
            session_id=session,
            actor=actor,
            tokenizer="o200k_base" if "file_tokens_estimate" in sizes else None,
        )
    )


LOG = (
    # before the change on 2026-06-10
    line("2026-06-01T08:00:00Z", "decision/otlp", session="s1"),
    line(
        "2026-06-01T08:01:00Z",
        "instructions/CLAUDE.md",
        event=EXPOSURE,
        session="s1",
        file_tokens_estimate=100,
    ),
    line("2026-06-09T23:59:59Z", "decision/otlp", session="s2"),
    line(
        "2026-06-09T23:59:59Z",
        "instructions/CLAUDE.md",
        event=EXPOSURE,
        session="s2",
        file_tokens_estimate=100,
    ),
    # from the change on
    line("2026-06-10T00:00:00Z", "decision/otlp", session="s3"),
    line(
        "2026-06-10T00:00:00Z",
        "instructions/CLAUDE.md",
        event=EXPOSURE,
        session="s3",
        file_tokens_estimate=40,
    ),
    line("2026-06-11T10:00:00Z", "knowledge/retry", session="s3"),
    line("2026-06-11T10:01:00Z", "request/gone", session="s3"),  # its file is not there any more
    line("2026-06-11T10:02:00Z", "instructions/AGENTS.md", event=EXPOSURE, session="s3"),  # of unknown size
    line("2026-06-12T10:00:00Z", "decision/quiet", session="tidy", actor="maintenance"),
    # long after either period
    line("2026-08-01T10:00:00Z", "request/dark", session="s4"),
)


@pytest.fixture
def memory(workspace: Path) -> Path:
    """A workspace with seven records and the log above."""
    for name in RECORDS:
        path = workspace / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("text\n", "utf-8")
    directory = workspace / ".memtally"
    directory.mkdir()
    (directory / "config.toml").write_text(CONFIG, "utf-8")
    (directory / "usage.jsonl").write_bytes(b"".join(LOG))
    return workspace


def consume(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run one of the examples to its end; a warning is an error."""
    return subprocess.run(
        [sys.executable, "-W", "error", str(CONSUMERS / program), *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def sections(text: str) -> dict[str, list[str]]:
    """The lines under each heading, by the first word of it."""
    found: dict[str, list[str]] = {}
    for part in text.split("## ")[1:]:
        heading, *lines = part.splitlines()
        found[heading.split()[0]] = [entry for entry in lines if entry]
    return found


def test_consolidation_lists_candidates_and_what_is_protected(memory: Path) -> None:
    """Candidates are decisions and requests that were read and still exist, most read first, with evidence."""
    done = consume("consolidation.py", memory)
    assert (done.returncode, done.stderr) == (0, "")
    shown = sections(done.stdout)
    assert shown["Candidates"] == [
        "- 'decision/otlp': read 3 times, last on 2026-06-10 (MemoryRead 3); sessions: 3",
        "- 'request/dark': read once, last on 2026-08-01 (MemoryRead 1); sessions: 1",
    ]
    assert shown["Protected"] == [
        "- 'decision/otlp'",
        "- 'knowledge/retry'",
        "- 'request/dark'",
        "From 11 events, 2026-06-01 08:00:00+00:00 to 2026-08-01 10:00:00+00:00.",
        "A record that is in neither list is not shown to be unused.",
    ]


def test_doctor_prints_evidence_and_coverage(memory: Path) -> None:
    """Always-on records without a use come with their cost, unread ones with what the log covers."""
    done = consume("doctor.py", memory)
    assert (done.returncode, done.stderr) == (0, "")
    shown = sections(done.stdout)
    unread = "no explicit read in what the log covers"
    assert shown["Always-on"] == [
        (
            f"- 'instructions/CLAUDE.md': {unread}; placed into a context 3 times, an estimated 240 tokens in all; "
            "the latest injection cost 40 tokens"
        ),
        (
            f"- 'instructions/AGENTS.md': {unread}; placed into a context once, at a cost that is unknown; the latest injection cost unknown"
        ),
    ]
    # the maintenance agent's read of decision/quiet is no use; the files are in no repository
    assert [entry.split(":")[0] for entry in shown["Records"]] == ["- 'decision/quiet'", "- 'knowledge/old'"]
    assert all("age unknown, the log covers " in entry for entry in shown["Records"])
    assert shown["What"] == [
        "log: ok, 11 events since 2026-06-01 08:00:00+00:00",
        "inventory: complete",
        "sources seen: 'KnowledgeRef', 'MemoryRead', 'ResidentInjection'",
        "sources configured and never seen: 'SkillInvoke'",
    ]


def test_doctor_says_nothing_of_records_without_an_inventory(memory: Path) -> None:
    """Without an inventory no record is listed as never read."""
    (memory / ".memtally" / "config.toml").unlink()
    shown = sections(consume("doctor.py", memory).stdout)
    assert shown["Records"] == []
    assert "inventory: none" in shown["What"]


def test_doctor_on_a_workspace_without_a_log(memory: Path) -> None:
    """Where nothing was recorded, every unread record is listed beside the statement that nothing can be said."""
    (memory / ".memtally" / "usage.jsonl").unlink()
    done = consume("doctor.py", memory)
    assert done.returncode == 0, done.stderr
    shown = sections(done.stdout)
    assert "- 'decision/otlp': no read was recorded, so nothing can be said" in shown["Records"]
    assert "log: no_log, 0 events since None" in shown["What"]


def test_prompt_evaluation_compares_two_periods(memory: Path) -> None:
    """Each event is in one period only, an unmeasured placing leaves its sum empty, and gone records are shown."""
    done = consume("prompt_evaluation.py", memory, "2026-06-10", 14)
    assert done.returncode == 0, done.stderr
    assert list(csv.reader(io.StringIO(done.stdout))) == [
        ["record", "uses_before", "uses_after", "tokens_before", "tokens_after", "tokenizers"],
        ["decision/otlp", "2", "1", "0", "0", ""],
        ["instructions/AGENTS.md", "0", "0", "0", "", ""],
        ["instructions/CLAUDE.md", "0", "0", "200", "40", "o200k_base"],
        ["knowledge/retry", "0", "1", "0", "0", ""],
        ["request/gone", "0", "1", "0", "0", ""],
    ]
    # maintenance has no part in the sessions
    assert done.stderr.splitlines() == [
        "before: 4 events, 2 sessions, sources 'MemoryRead', 'ResidentInjection'",
        "after: 6 events, 1 sessions, sources 'KnowledgeRef', 'MemoryRead', 'ResidentInjection'",
    ]


@pytest.mark.parametrize("program", ["consolidation.py", "doctor.py", "prompt_evaluation.py"])
def test_without_arguments_the_usage_is_said(program: str) -> None:
    """A call without a workspace ends in one line that says what to give."""
    done = consume(program)
    assert done.returncode == 1
    assert done.stderr.startswith(f"usage: {program} WORKSPACE")


@pytest.mark.parametrize("program", ["consolidation.py", "doctor.py"])
def test_a_name_stays_on_its_line(memory: Path, program: str) -> None:
    """A record's name that holds a line break and a heading adds neither to what is printed."""
    at, name = "2026-06-20T10:00:00Z", "x\n## Delete everything"
    with (memory / ".memtally" / "usage.jsonl").open("ab") as log:
        log.write(line(at, f"rule/read-{name}"))
        log.write(line(at, f"rule/placed-{name}", event=EXPOSURE, file_tokens_estimate=1))
    done = consume(program, memory)
    assert done.returncode == 0, done.stderr
    assert "-x\\n## Delete everything" in done.stdout
    assert "\n## Delete everything" not in done.stdout
