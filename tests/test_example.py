"""End to end: an application with its own store, in processes of its own, by the public interface only."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memtally
from conftest import ROOT

AGENT = ROOT / "examples" / "notes_agent" / "agent.py"
Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def agent(workspace: Path) -> Callable[[str], str]:
    """A workspace with records, and the agent to prompt in it."""
    for name, text in {
        "decisions/adopt-otlp.md": "We adopt OTLP.",
        "requests/dark-mode.md": "Dark mode, please.",
        "knowledge/retry-policy.md": "Retry three times.",
        "knowledge/glossary.md": "OTLP: a protocol\nmore lines",
        "knowledge/empty.md": "",
        "workflows/release.md": "Freeze, tag, publish.",
        "AGENTS.md": "Be brief.",
    }.items():
        path = workspace / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (workspace / "sessions").mkdir()

    def prompt(text: str, session: str = "s1") -> str:
        (workspace / "sessions" / f"{session}.jsonl").write_text(text)
        done = subprocess.run(
            [sys.executable, str(AGENT), str(workspace), session, text],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return prompt


def uses(lines: Lines) -> list[tuple[str, str, str]]:
    """Source, record and session of each use in the log."""
    return [
        (e["source"], "/".join((e["records"][0]["kind"], e["records"][0]["slug"])), e["session_id"])
        for e in lines()
        if e["event"] == "use"
    ]


def test_the_example_uses_the_public_interface_only() -> None:
    """Nothing of memtally but what its top level offers."""
    source = AGENT.read_text("utf-8")
    imported = [line for line in source.splitlines() if "import" in line and "memtally" in line]
    assert imported == ["import memtally", "from memtally import MemoryRecord"]
    used = {
        word.split(".")[1]
        for word in source.replace("(", " ").replace("@", " ").split()
        if word.startswith("memtally.")
    }
    assert used - {""} <= set(memtally.__all__)


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("what did we decide? read:decision/adopt-otlp", [("MemoryRead", "decision/adopt-otlp", "s1")]),
        ("see #retry-policy", [("KnowledgeRef", "knowledge/retry-policy", "s1")]),
        ("/release now", [("WorkflowInvoke", "workflow/release", "s1")]),
        ("search:OTLP and search:Retry", []),
        ("read:decision/nonesuch", []),
        ("#empty", []),
        ("#nonesuch and #123 and /usr/bin/env", []),
        ("please /release", []),
    ],
)
def test_each_path_yields_exactly_its_event(
    agent: Callable[..., str], lines: Lines, prompt: str, expected: list[tuple[str, str, str]]
) -> None:
    """A read yields one use; a search, a failed, an empty and a missing read yield none."""
    agent(prompt)
    assert uses(lines) == expected


def test_the_injection_is_one_event_of_its_records_and_no_use(
    agent: Callable[..., str], lines: Lines
) -> None:
    """Two resident records are one exposure event with two records, the glossary by its one line."""
    agent("hello")
    [event] = lines()
    assert (event["event"], event["source"], event["session_id"]) == (
        "resident_exposure",
        "ResidentInjection",
        "s1",
    )
    assert [(r["slug"], r["file_bytes"], r.get("injected_bytes")) for r in event["records"]] == [
        ("AGENTS.md", 9, None),
        ("glossary", 27, 16),
    ]


def test_a_report_over_several_sessions(agent: Callable[..., str], workspace: Path) -> None:
    """Uses and exposures of several runs add up; deleting the sessions' files changes nothing."""
    agent("/release with #retry-policy read:decision/adopt-otlp", "s1")
    agent("#retry-policy and search:OTLP", "s2")
    agent("read:decision/adopt-otlp read:decision/adopt-otlp", "s3")
    now = ["--now", "2030-01-01"]
    command = [sys.executable, "-m", "memtally", "report", "--json", "--workspace", str(workspace), *now]
    before = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    records = {f"{r['kind']}/{r['slug']}": r for r in json.loads(before)["records"]}
    assert {
        name: (r["use_count"], r["source_breakdown"], r["resident_exposure_count"])
        for name, r in records.items()
    } == {
        "decision/adopt-otlp": (3, {"MemoryRead": 3}, 0),
        "instructions/AGENTS.md": (0, {}, 3),
        "knowledge/glossary": (0, {}, 3),
        "knowledge/retry-policy": (2, {"KnowledgeRef": 2}, 0),
        "workflow/release": (1, {"WorkflowInvoke": 1}, 0),
    }
    shutil.rmtree(workspace / "sessions")
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == before
