"""Shared fixtures: an isolated workspace, a clean process state, the real data where it exists."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

import memtally
from memtally import context, faults, recording, tokens

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(__file__).resolve().parent / "data"
SHARED = ROOT.parent / "shared" / "data"

# an example may take its time on a busy machine: no test measures speed
hypothesis.settings.register_profile("memtally", deadline=None)
hypothesis.settings.load_profile("memtally")

SOAK = int(os.environ.get("MEMTALLY_SOAK", "1"))
"""How many times as long the loops are that look for rare faults (``make soak``)."""

_HOST_VARIABLES = (
    "MEMTALLY_",
    "OTEL_",
    "TIKTOKEN_CACHE_DIR",
    "DATA_GYM_CACHE_DIR",
    "NO_COLOR",
    "XDG_CACHE_HOME",
    "CLAUDE_",
    "CODEX_HOME",
)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse to run where a workspace stands above the temporary folders: its log would get the events."""
    temporary = Path(tempfile.gettempdir()).resolve()
    for folder in (temporary, *temporary.parents):
        if (folder / ".memtally").exists():
            pytest.exit(f"{folder / '.memtally'} would take the tests' events; remove it", returncode=4)


@pytest.fixture(autouse=True)
def clean_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No test sees another's pipeline, faults, session or environment."""
    for name in list(os.environ):
        if name.startswith(_HOST_VARIABLES):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    faults.reset()
    recording.forget_host_logger()
    yield
    memtally.shutdown()
    context._default_session = context._default_actor = None
    faults.bind(None)
    faults.reset()
    tokens._estimator = None


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one."""
    folder = tmp_path / "ws"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """An empty folder that other users reach too, and whose mode a test may change."""
    folder = Path(tempfile.mkdtemp(prefix="memtally-test-"))
    if not all(parent.stat().st_mode & 0o001 for parent in folder.parents):
        folder.rmdir()
        pytest.skip("the temporary folder is closed to other users here")
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def lines(workspace: Path) -> Callable[[], list[dict[str, Any]]]:
    """Reads the workspace's log back with the standard library only."""

    def read() -> list[dict[str, Any]]:
        path = workspace / ".memtally" / "usage.jsonl"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]

    return read


def copied_tree(source: Path, target: Path) -> None:
    """A copy that may be changed, of data that may be read only; links stay links."""
    shutil.copytree(source, target, symlinks=True)
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o200)


@contextlib.contextmanager
def reaped(children: list[subprocess.Popen[str]]) -> Iterator[list[subprocess.Popen[str]]]:
    """Children that are gone afterwards, whatever happened."""
    try:
        yield children
    finally:
        for child in children:
            child.kill()
            child.communicate()


Process = Callable[..., subprocess.CompletedProcess[str]]


def process(workspace: Path, arguments: tuple[str, ...], stdin: str, environment: dict[str, str]) -> Any:
    """Run Python in the workspace, never longer than a minute."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=workspace,
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.fixture
def run(workspace: Path) -> Process:
    """Runs the command line as a process of its own, in the workspace; a warning is an error."""

    def call(*arguments: str, stdin: str = "", **environment: str) -> Any:
        return process(
            workspace, ("-m", "memtally", *arguments), stdin, {"PYTHONWARNINGS": "error", **environment}
        )

    return call


@pytest.fixture
def run_python(workspace: Path) -> Process:
    """Runs a piece of Python in a process of its own, in the workspace."""

    def call(code: str, **environment: str) -> Any:
        return process(workspace, ("-c", code), "", environment)

    return call
