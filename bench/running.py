"""Whole processes: how long they take, and the memory that they and their children hold."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.harness import Absent

__all__ = ["DATA", "PEERS", "ROOT", "Finished", "peer_json", "run", "scratch"]

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "bench" / "peers"
DATA = ROOT / "bench" / "data"

LIMIT = 900.0
"""Seconds after which a process that does not end is killed."""

_SAMPLE_EVERY = 0.01
_HOST_VARIABLES = ("MEMTALLY_", "OTEL_", "PYTHON")


@dataclass(frozen=True)
class Finished:
    """A process that has ended well. Memory in bytes, summed over its processes at their highest."""

    seconds: float
    output: str
    peak_pss: int = 0
    peak_rss: int = 0


def run(
    command: Sequence[str | Path],
    *,
    memory: bool = False,
    limit: float = LIMIT,
    stdin: Path | None = None,
    home: Path | None = None,
) -> Finished:
    """Run a process to its end; with ``memory`` watch it, which costs some of its speed.

    ``stdin``: the file that it gets as its input; ``home``: another home folder than this user's.

    Raises ``CalledProcessError`` where it fails and ``TimeoutExpired`` where it has to be killed.
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith(_HOST_VARIABLES)}
    if home is not None:
        environment["HOME"] = str(home)
    with (
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
        open(os.devnull if stdin is None else stdin, "rb") as given,
    ):
        begun = time.perf_counter()
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=given, stdout=output, stderr=errors,
            cwd=ROOT, env=environment, start_new_session=True,
        )  # fmt: skip
        expired = threading.Event()
        timer = threading.Timer(limit, _kill, (process, expired))
        timer.start()
        try:
            pss, rss = _watch(process) if memory else (0, 0)
            process.wait()  # without a time-out of its own, which would poll
            seconds = time.perf_counter() - begun
        finally:
            timer.cancel()
            _kill(process)  # also what it has left behind
            process.wait()
        output.seek(0)
        errors.seek(0)
        text, said = output.read().decode(), errors.read().decode(errors="replace")
    if expired.is_set():
        raise subprocess.TimeoutExpired(process.args, limit)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args, text, said)
    return Finished(seconds, text, pss, rss)


def _kill(process: subprocess.Popen[bytes], expired: threading.Event | None = None) -> None:
    if expired is not None:
        expired.set()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _watch(process: subprocess.Popen[bytes]) -> tuple[int, int]:
    pss = rss = 0
    while process.poll() is None:
        now_pss, now_rss = _memory_of_session(process.pid)
        pss, rss = max(pss, now_pss), max(rss, now_rss)
        time.sleep(_SAMPLE_EVERY)
    return pss, rss


def _memory_of_session(session: int) -> tuple[int, int]:
    """PSS and RSS of every process of a session, in bytes; Linux only, else nothing."""
    pss = rss = 0
    for pid in _processes():
        try:
            # behind the name, which may hold anything: state, parent, group, session
            if int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[3]) != session:
                continue
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                name, _, value = line.partition(":")
                if name in ("Pss", "Rss"):
                    size = 1024 * int(value.split()[0])
                    pss, rss = (pss + size, rss) if name == "Pss" else (pss, rss + size)
        except OSError:  # it has just ended
            continue
    return pss, rss


def _processes() -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield from (name for name in os.listdir("/proc") if name.isdigit())


def peer_json(script: str, *arguments: str | Path, limit: float = LIMIT) -> dict[str, float]:
    """Run one of the peers' Python scripts; what it says. Raises ``Absent`` where it says why it cannot."""
    said = json.loads(run([sys.executable, PEERS / script, *arguments], limit=limit).output.splitlines()[-1])
    if "absent" in said:
        raise Absent(str(said["absent"]))
    return dict(said)


@contextlib.contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """A folder under ``bench/data`` for the length of a measurement: one file system for all subjects."""
    DATA.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{prefix}-", dir=DATA) as folder:
        yield Path(folder)
