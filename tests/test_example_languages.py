"""The examples in other languages, run as they stand."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT, Process
from memtally import build_report

EXAMPLES = ROOT / "examples"


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """The command line of this very checkout, as one program."""
    made = tmp_path / "memtally"
    made.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memtally "$@"\n')
    made.chmod(0o755)
    return made


def test_from_a_shell(workspace: Path, command: Path) -> None:
    """The script shows its record, and the report has the read and each placing once."""
    (workspace / "decisions").mkdir()
    (workspace / "decisions/adopt-otlp.md").write_text("Decided.\n")
    environment = {**os.environ, "MEMTALLY": str(command), "SESSION": "s1"}
    done = subprocess.run(
        [str(EXAMPLES / "shell/record.sh")],
        cwd=workspace,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "Decided.\n", "")
    report = build_report(workspace=workspace)
    decision = report["decision", "adopt-otlp"]
    assert (decision.use_count, decision.file_bytes) == (1, 9)
    assert [report["rule", slug].resident_exposure_count for slug in ("style", "tests")] == [1, 1]
    assert report.coverage.sessions == 1


def test_a_shell_without_memtally_goes_on(workspace: Path) -> None:
    """Where memtally is missing, the script does its work all the same, and records nothing."""
    (workspace / "d.md").write_text("x\n")
    done = subprocess.run(
        [str(EXAMPLES / "shell/record.sh"), "d.md"],
        cwd=workspace,
        env={**os.environ, "MEMTALLY": str(workspace / "gone")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "x\n", "")
    assert not (workspace / ".memtally").exists()


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here")
def test_from_node(workspace: Path, command: Path) -> None:
    """The script's reads are in the report, in one append, the repeated id once; without memtally it says so."""
    script = [shutil.which("node") or "node", str(EXAMPLES / "node/record.mjs")]
    environment = {**os.environ, "MEMTALLY": str(command)}
    done = subprocess.run(script, cwd=workspace, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "failed: 0\n", "")
    report = build_report(workspace=workspace)
    assert report["decision", "adopt-otlp"].use_count == 3
    assert report["skill", "pdf"].source_breakdown == {"SkillInvoke": 1}
    assert report.coverage.duplicate_events == 1
    environment["MEMTALLY"] = str(workspace / "gone")
    done = subprocess.run(script, cwd=workspace, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "failed: 5\n")


def test_lines_say_all_that_options_do(run: Process, workspace: Path) -> None:
    """A JSON line names host, actor, session, source, time and id; given again, it adds nothing."""
    line = {
        "kind": "decision",
        "slug": "adopt-otlp",
        "host": "elsewhere",
        "actor": "subagent",
        "session_id": "s7",
        "source": "KnowledgeRef",
        "occurred_at": "2026-05-11T13:10:47Z",
        "id": "read-1",
    }
    for _ in range(2):
        assert run("add", "use", stdin=json.dumps(line) + "\n").returncode == 0
    [first, second] = (workspace / ".memtally/usage.jsonl").read_text().splitlines()
    assert first == second
    written = json.loads(first)
    for name in ("host", "actor", "session_id", "source"):
        assert written[name] == line[name]
    assert build_report(workspace=workspace)["decision", "adopt-otlp"].use_count == 1
