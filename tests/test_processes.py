"""Many processes, any of which may die at any moment: what a read has acknowledged is in the log, once.

``MEMTALLY_SOAK=N`` (``make soak``) makes the loops N times as long. A failure names its seed.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import SOAK, reaped
from memtally import build_report
from memtally.ledger.layout import segments
from memtally.ledger.writer import LogWriter

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes and signals"),
    pytest.mark.timeout(600 + 600 * (SOAK > 1) * SOAK),
]

PRELUDE = """
import os, random, signal, sys, threading, time
import memtally
from memtally import MemoryRecord
from memtally.events import RecordSnapshot, UsageEvent, encode_event, new_event_id

def line(number, size):
    \"\"\"The line of a use whose session is its number, about so many bytes long.\"\"\"
    records = tuple(RecordSnapshot("decision", f"r{i}", 2_000, 500) for i in range(max(1, (size - 120) // 75)))
    return encode_event(UsageEvent(new_event_id(), time.time_ns() // 1_000, "use", "MemoryRead", records, str(number)))

@memtally.instrument_read("MemoryRead", records=lambda call: [
    MemoryRecord("decision", f"r{i}", "content") for i in range(call.arguments["records"])])
def read(number, records=1):
    return "content"

def numbered_read(number, records=1):
    with memtally.session(str(number)):
        read(number, records)
"""


def child(code: str, *arguments: object, stdout: Any = subprocess.PIPE) -> subprocess.Popen[str]:
    """A process that has the prelude's helpers; the caller reaps it."""
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code), *map(str, arguments)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], seconds: float = 300 * SOAK) -> str:
    """Wait for a child that must succeed; its output."""
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    return out


def sessions(workspace: Path) -> Iterator[tuple[str | None, int]]:
    """Session and length of each line of all segments, by the standard library; ``None`` for a damaged line."""
    for path in segments(str(workspace / ".memtally")):
        with open(path, "rb") as stream:
            for text in stream:
                try:
                    value = json.loads(text)
                except ValueError:
                    yield None, len(text)
                else:
                    yield value["session_id"], len(text)


def sealing(workspace: Path, stop: threading.Event, pause: float) -> threading.Thread:
    """A thread that seals the log again and again, as ``memtally log seal`` does."""

    def work() -> None:
        while not stop.wait(pause):
            LogWriter(str(workspace / ".memtally" / "usage.jsonl")).seal()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_sixteen_writers_of_lines_of_every_size(workspace: Path) -> None:
    """16 processes, 2,000 events each, 200 bytes to 300 KB, seals in the middle: each once, none damaged."""
    seed = random.randrange(2**32)
    code = """
    from memtally.ledger.writer import LogWriter
    writer = LogWriter(".memtally/usage.jsonl", seal_bytes=16 * 1_048_576)
    number, events = int(sys.argv[1]), int(sys.argv[2])
    chance = random.Random(int(sys.argv[3]) + number)
    for n in range(events):
        size = chance.choices((200, 2_000, 30_000, 300_000), (900, 80, 15, 5))[0]
        assert writer.append(line(number * events + n, size))
    print(writer.waiting)
    """
    writers, events = 16, 2_000 * SOAK
    with reaped([child(code, number, events, seed) for number in range(writers)]) as children:
        assert [finish(each) for each in children] == ["0\n"] * writers
    found = list(sessions(workspace))
    assert Counter(name for name, _ in found) == {str(n): 1 for n in range(writers * events)}, f"seed {seed}"
    assert len(segments(str(workspace / ".memtally"))) > 2
    assert min(length for _, length in found) < 250
    assert max(length for _, length in found) > 290_000
    coverage = build_report(workspace).coverage
    assert (coverage.events, coverage.damaged_lines, coverage.duplicate_events) == (writers * events, 0, 0)


def test_kill_9_at_random_moments(workspace: Path) -> None:
    """200 rounds: every event whose read had returned is there once, and no witness's event is damaged.

    In each round a reader and a writer of large lines are killed while others, which live on, read too; the
    log is sealed all the while. Damage is at most the one line that a killed one was writing.
    """
    seed = random.randrange(2**32)
    rounds = 200 * SOAK
    killed_code = """
    memtally.configure(workspace=".")
    chance = random.Random(int(sys.argv[2]))
    from memtally.ledger.writer import LogWriter
    record = RecordSnapshot("decision", "x" * 300_000)
    tail = encode_event(UsageEvent("", None, "use", "MemoryRead", (record,)))
    tail = tail[tail.index(b',"event"'):]
    def victim(number, pipe, large):
        writer = LogWriter(".memtally/usage.jsonl")
        for n in range(number * 1_000_000, (number + 1) * 1_000_000):
            if large:  # mostly within a write
                assert writer.append(b'{"id":"%d","occurred_at":null,"session_id":"%d"' % (n, n) + tail)
                time.sleep(0.002)
            else:
                numbered_read(n, 1_000 if n % 7 == 3 else 1)
            os.write(pipe, b"%d\\n" % n)  # the read has returned
    for round_ in range(int(sys.argv[1])):
        victims = []
        for which in (0, 1):
            ours, theirs = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(ours)
                try:
                    victim(round_ * 2 + which + 1, theirs, which)
                finally:
                    os._exit(1)
            os.close(theirs)
            victims.append((pid, ours))
        time.sleep(chance.random() * 0.03)
        for pid, _ in victims:
            os.kill(pid, signal.SIGKILL)
        for pid, ours in victims:
            os.waitpid(pid, 0)
            with open(ours, "rb") as stream:
                sys.stdout.write(stream.read().decode())
    """
    witness_code = """
    memtally.configure(workspace=".")
    for n in range(10**9):
        numbered_read(f"witness {sys.argv[1]} {n}", 400 if n % 10 == 0 else 1)
        if os.path.exists("stop"):
            break
        time.sleep(0.005)
    print(n + 1)
    """
    stop = threading.Event()
    sealer = sealing(workspace, stop, 0.2)
    with reaped([child(witness_code, n) for n in range(2)] + [child(killed_code, rounds, seed)]) as children:
        try:
            acknowledged = finish(children[2]).split()
            (workspace / "stop").touch()
            witnessed = [int(finish(each)) for each in children[:2]]
        finally:
            stop.set()
            sealer.join()
    found = Counter(name for name, _ in sessions(workspace))
    damaged = found.pop(None, 0)
    assert len(acknowledged) > rounds, f"seed {seed}"
    assert {name for name in acknowledged if found[name] != 1} == set(), f"seed {seed}"
    assert [name for name, times in found.items() if times > 1] == [], f"seed {seed}"
    for which, number in enumerate(witnessed):
        assert all(found[f"witness {which} {n}"] == 1 for n in range(number)), f"seed {seed}"
    # what else is there is what a killed reader had written and could not acknowledge any more
    assert 0 <= sum(found.values()) - len(acknowledged) - sum(witnessed) <= 2 * rounds
    assert damaged <= 2 * rounds, f"seed {seed}"
    coverage = build_report(workspace).coverage
    assert (coverage.damaged_lines, coverage.duplicate_events) == (damaged, 0)
    assert coverage.events == sum(found.values()) + coverage.recovered_events


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools_threads_and_coroutines_across_seals(workspace: Path, method: str) -> None:
    """Workers that come and go, each with threads and coroutines that read: all there, once, none hangs."""
    script = workspace / "pool.py"
    script.write_text(
        PRELUDE
        + textwrap.dedent(
            f"""
            import asyncio, multiprocessing, warnings
            warnings.simplefilter("ignore", DeprecationWarning)

            @memtally.instrument_read("KnowledgeRef")
            async def expand(slug):
                await asyncio.sleep(0)
                return "content"

            async def gathered(number):
                with memtally.session(str(number)):
                    await asyncio.gather(*(expand(f"a{{n}}") for n in range(5)))

            def work(number):
                if {method!r} != "fork":
                    memtally.configure(workspace=".")
                threads = [threading.Thread(target=numbered_read, args=(number, 20)) for _ in range(4)]
                for thread in threads: thread.start()
                asyncio.run(gathered(number))
                for thread in threads: thread.join()

            if __name__ == "__main__":
                memtally.configure(workspace=".")
                with multiprocessing.get_context({method!r}).Pool(4, maxtasksperchild=5) as pool:
                    pool.map(work, range(40), chunksize=1)
                numbered_read("end")
            """
        )
    )
    stop = threading.Event()
    sealer = sealing(workspace, stop, 0.05)
    try:
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100)
    finally:
        stop.set()
        sealer.join()
    assert (done.returncode, done.stderr) == (0, "")
    assert Counter(name for name, _ in sessions(workspace)) == {str(n): 9 for n in range(40)} | {"end": 1}
    assert build_report(workspace).coverage.sources["KnowledgeRef"].events == 200


def test_a_reader_sees_whole_figures_while_all_goes_on(workspace: Path) -> None:
    """Reports made while four processes write large lines and the log is sealed: never fewer, never damaged."""
    code = """
    from memtally.ledger.writer import LogWriter
    writer = LogWriter(".memtally/usage.jsonl")
    for n in range(int(sys.argv[2])):
        assert writer.append(line(int(sys.argv[1]) * 100_000 + n, 200 if n % 5 else 300_000))
    """
    stop = threading.Event()
    sealer = sealing(workspace, stop, 0.02)
    before, reports = 0, 0
    events = 300
    with reaped([child(code, number, events) for number in range(4)]) as children:
        try:
            while any(each.poll() is None for each in children):
                coverage = build_report(workspace).coverage
                assert (coverage.damaged_lines, coverage.duplicate_events) == (0, 0)
                assert coverage.events >= before
                before, reports = coverage.events, reports + 1
            for each in children:
                finish(each)
        finally:
            stop.set()
            sealer.join()
    assert reports > 3
    assert build_report(workspace).coverage.events == 4 * events


def test_a_writer_for_each_line(workspace: Path) -> None:
    """32 threads that each open the log for one line of 2 KB: 32 events."""
    path = str(workspace / ".memtally" / "usage.jsonl")
    texts = [json.dumps({"session_id": str(n), "p": "x" * 2_000}).encode() + b"\n" for n in range(32)]
    threads = [threading.Thread(target=LogWriter(path).append, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert Counter(name for name, _ in sessions(workspace)) == {str(n): 1 for n in range(32)}


def test_a_fork_inside_an_append(workspace: Path) -> None:
    """A signal handler that forks in the middle of a write: the parent's line is there once, the child goes on."""
    code = """
    from memtally.ledger.writer import LogWriter
    writer = LogWriter(".memtally/usage.jsonl")
    real, forked = os.write, []
    def write(descriptor, data):
        if sys._getframe(1).f_code.co_name == "_write_all" and not forked:
            forked.append(os.fork())
        return real(descriptor, data)
    os.write = write
    writer.append(line(1, 200))
    if forked == [0]:
        ok = writer.append(line(2, 200))
        os._exit(0 if ok else 1)
    assert os.waitpid(forked[0], 0)[1] == 0
    assert writer.append(line(3, 200))
    """
    with reaped([child(code)]) as [process]:
        finish(process)
    assert Counter(name for name, _ in sessions(workspace)) == {"1": 1, "2": 1, "3": 1}


def test_reads_while_the_interpreter_ends(workspace: Path) -> None:
    """Reads in exit handlers, in finalizers of module objects and in a daemon thread end quietly."""
    code = """
    import atexit
    memtally.configure(workspace=".")
    atexit.register(numbered_read, "registered after")
    class Late:
        def __del__(self):
            numbered_read("finalizer")
    late = Late()
    def work():
        n = 0
        while True:
            numbered_read(f"daemon {n}"); n += 1
    threading.Thread(target=work, daemon=True).start()
    numbered_read("last")
    """
    with reaped([child(code)]) as [process]:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")
    found = Counter(name for name, _ in sessions(workspace))
    assert found["last"] == found["registered after"] == 1
    assert set(found.values()) == {1}
    assert None not in found
