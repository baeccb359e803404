"""Appending: whole lines, shared by threads and processes, through every fault that can be made here."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from memtally import faults, health
from memtally.ledger import waiting as waiting_module
from memtally.ledger import writer as writer_module
from memtally.ledger.layout import segments
from memtally.ledger.writer import LogWriter

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files and signals")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where a log will be."""
    return tmp_path / ".memtally" / "usage.jsonl"


def numbers(*paths: Path | str) -> list[int]:
    """The numbers in some files of ``{"n": N}`` lines, each line whole."""
    return [json.loads(line)["n"] for path in paths for line in Path(path).read_bytes().splitlines()]


def entry(number: int, padding: int = 0) -> bytes:
    """One line that carries its number."""
    return json.dumps({"n": number, "p": "x" * padding}).encode() + b"\n"


def run(code: str, *arguments: object, **options: object) -> subprocess.Popen[str]:
    """A child that has the writer at hand; its parent waits for it."""
    prelude = "import os, sys, json\nfrom memtally.ledger.writer import LogWriter\nentry = lambda n, p=0: json.dumps({'n': n, 'p': 'x' * p}).encode() + b'\\n'\n"
    return subprocess.Popen(
        [sys.executable, "-c", prelude + textwrap.dedent(code), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )


def finish(child: subprocess.Popen[str], code: int = 0) -> str:
    """Wait for a child, never longer than a minute; its output."""
    try:
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == code, err
    return out


def test_modes_and_gitignore(log: Path) -> None:
    """The folder is 0700, the log 0600, and git keeps only the configuration."""
    assert LogWriter(str(log)).append(entry(1))
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    subprocess.run(["git", "init", "-q", log.parent.parent], check=True)
    (log.parent / "config.toml").touch()
    listed = subprocess.run(
        ["git", "-C", log.parent.parent, "ls-files", "-o", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert sorted(listed.stdout.split()) == [".memtally/.gitignore", ".memtally/config.toml"]


def test_a_torn_tail_costs_only_itself(log: Path) -> None:
    """A file that does not end in a newline gets one before the next line."""
    log.parent.mkdir()
    log.write_bytes(entry(1) + b'{"n":')
    LogWriter(str(log)).append(entry(2))
    assert log.read_bytes() == entry(1) + b'{"n":\n' + entry(2)


def test_somebody_elses_torn_tail_is_noticed_later(log: Path) -> None:
    """The check is made again whenever the file is not as this writer left it."""
    writer = LogWriter(str(log))
    writer.append(entry(1))
    with log.open("ab") as stream:
        stream.write(b'{"n":2')
    writer.append(entry(3))
    assert log.read_bytes() == entry(1) + b'{"n":2\n' + entry(3)


@pytest.mark.parametrize("change", ["rename", "remove", "remove folder", "truncate", "replace"])
def test_the_path_is_the_log(log: Path, change: str) -> None:
    """After a rename, removal, truncation or replacement the next line is in what the path names."""
    writer = LogWriter(str(log))
    writer.append(entry(1))
    if change == "rename":
        log.rename(log.with_name("old.jsonl"))
    elif change == "remove":
        log.unlink()
    elif change == "remove folder":
        import shutil

        shutil.rmtree(log.parent)
    elif change == "truncate":
        os.truncate(log, 0)
    else:
        other = log.with_name("other")
        other.write_bytes(entry(9))
        other.replace(log)
    assert writer.append(entry(2))
    assert numbers(log) == ([9, 2] if change == "replace" else [2])


@pytest.mark.parametrize("obstacle", ["directory", "fifo", "file for folder", "link out"])
def test_what_cannot_be_a_log_is_never_written_and_never_hangs(
    tmp_path: Path, log: Path, obstacle: str
) -> None:
    """The line waits in memory, is said once, and goes out when the obstacle has gone."""
    outside = tmp_path / "outside"
    outside.mkdir()
    if obstacle == "file for folder":
        log.parent.write_text("in the way")
    elif obstacle == "link out":
        workspace = tmp_path / "inner"
        workspace.mkdir()
        log = workspace / ".memtally" / "usage.jsonl"
        log.parent.symlink_to(outside)
    else:
        log.parent.mkdir()
        os.mkfifo(log) if obstacle == "fifo" else log.mkdir()
    writer = LogWriter(str(log), root=str(log.parent.parent))
    assert not writer.append(entry(1))
    assert not writer.append(entry(2))
    assert writer.waiting == 2
    assert list(outside.iterdir()) == []
    assert faults.counts()["log_unwritable"] == 2
    target = log.parent if obstacle in ("file for folder", "link out") else log
    target.rmdir() if obstacle == "directory" else target.unlink()
    assert writer.append(entry(3))
    assert numbers(log) == [1, 2, 3]
    assert writer.waiting == 0


def test_a_symbolic_link_in_the_logs_place_is_not_followed(tmp_path: Path, log: Path) -> None:
    """A link to somebody else's file gets no byte."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    log.parent.mkdir()
    log.symlink_to(victim)
    assert not LogWriter(str(log)).append(entry(1))
    assert victim.read_text() == "mine"


def test_a_full_disk_that_recovers(log: Path) -> None:
    """A short write is taken back, the event waits, and both it and the next are whole afterwards."""
    child = run(
        """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        writer = LogWriter(sys.argv[1])
        writer.append(entry(1, 100))
        size = os.path.getsize(sys.argv[1])
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, hard))
        assert not writer.append(entry(2, 100))
        assert os.path.getsize(sys.argv[1]) == size, "the torn part was taken back"
        assert writer.waiting == 1
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert writer.append(entry(3, 100))
        """,
        log,
    )
    finish(child)
    assert numbers(log) == [1, 2, 3]


def test_memory_is_bounded_and_what_is_given_up_is_counted(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the bound the oldest waiting events are given up, and the count says how many."""
    monkeypatch.setattr(waiting_module, "MOST_LINES", 5)
    log.parent.mkdir()
    log.mkdir()
    writer = LogWriter(str(log))
    for number in range(8):
        assert not writer.append(entry(number))
    assert writer.waiting == 5
    assert faults.counts()["events_lost"] == 3
    log.rmdir()
    assert writer.flush()
    assert numbers(log) == [3, 4, 5, 6, 7]


def test_waiting_for_a_lock_is_bounded(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock held by somebody for ever delays a line by the bound, loses nothing and is counted."""
    import fcntl

    monkeypatch.setattr(writer_module, "LOCK_TIMEOUT", 0.2)
    writer = LogWriter(str(log))
    writer.append(entry(1))
    with log.open("rb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        before = time.monotonic()
        assert writer.append(entry(2))
        waited = time.monotonic() - before
    assert numbers(log) == [1, 2]
    assert faults.counts()["lock_timeout"] == 1
    assert waited >= 0.2


def test_a_read_in_a_signal_handler_inside_an_append(log: Path) -> None:
    """The handler's event neither deadlocks nor gets lost."""
    writer = LogWriter(str(log))
    write, done = os.write, []

    def interrupted(descriptor: int, data: bytes) -> int:
        if not done:
            done.append(1)
            assert not writer.append(entry(2))  # what a signal handler would do in the middle of it
        return write(descriptor, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer_module.os, "write", interrupted)
        assert writer.append(entry(1))
    assert numbers(log) == [1, 2]


def test_threads_share_a_writer(log: Path) -> None:
    """Eight threads, 200 lines each, lines of very different sizes: all there, all whole."""
    writer = LogWriter(str(log))

    def work(thread: int) -> None:
        for number in range(200):
            writer.append(entry(thread * 200 + number, (number % 20) ** 3))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(numbers(log)) == list(range(1_600))


def test_processes_share_a_log_across_seals(log: Path) -> None:
    """Eight processes, 300 lines each, a seal every 64 KiB: every line once, in one segment or another."""
    code = """
        writer = LogWriter(sys.argv[1], seal_bytes=65536)
        for n in range(300):
            assert writer.append(entry(int(sys.argv[2]) * 300 + n, (n % 30) ** 2))
    """
    children = [run(code, log, number) for number in range(8)]
    for child in children:
        finish(child)
    files = segments(str(log.parent))
    assert len(files) > 3
    assert sorted(numbers(*files)) == list(range(2_400))


def test_sealing_never_replaces_a_file(log: Path) -> None:
    """A segment takes the next free number, counted from the highest, and the live log begins anew."""
    log.parent.mkdir()
    (log.parent / "usage-7.jsonl").write_bytes(entry(70))
    writer = LogWriter(str(log), seal_bytes=1)
    writer.append(entry(1))
    writer.append(entry(2))
    assert [Path(p).name for p in segments(str(log.parent))] == [
        "usage-7.jsonl",
        "usage-8.jsonl",
        "usage-9.jsonl",
    ]
    assert numbers(*segments(str(log.parent))) == [70, 1, 2]


def test_fork_while_another_thread_appends(log: Path) -> None:
    """Children forked in the middle of appends write their own lines, hang nowhere, repeat nothing."""
    child = run(
        """
        import threading, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        writer = LogWriter(sys.argv[1])
        stop = threading.Event()
        def busy():
            n = 10_000
            while not stop.is_set():
                writer.append(entry(n, 500)); n += 1
            print(n - 10_000, flush=True)
        thread = threading.Thread(target=busy); thread.start()
        for n in range(30):
            pid = os.fork()
            if pid == 0:
                ok = writer.append(entry(n)) and writer.append(entry(1000 + n))
                os._exit(0 if ok else 1)
            assert os.waitpid(pid, 0)[1] == 0
        stop.set(); thread.join()
        """,
        log,
    )
    busy = int(finish(child))
    found = numbers(log)
    assert sorted(found) == [*range(30), *range(1_000, 1_030), *range(10_000, 10_000 + busy)]


@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 15)"])
def test_an_appended_line_survives_any_end(log: Path, end: str) -> None:
    """The line is in the kernel when append returns: no end of the process takes it back."""
    child = run(f"LogWriter(sys.argv[1]).append(entry(1)); {end}", log)
    child.communicate(timeout=60)
    assert numbers(log) == [1]


def test_kill_9_at_random_moments(log: Path) -> None:
    """What a killed writer had acknowledged is there once, and no neighbour is damaged."""
    acknowledged: list[int] = []
    witness = LogWriter(str(log))
    for round_ in range(12):
        child = run(
            """
            writer = LogWriter(sys.argv[1])
            for n in range(100_000):
                writer.append(entry(int(sys.argv[2]) * 100_000 + n, 3_000))
                sys.stdout.write(f"{n}\\n"); sys.stdout.flush()
            """,
            log,
            round_ + 1,
        )
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(0.002 * round_)
        child.send_signal(signal.SIGKILL)
        out, _ = child.communicate(timeout=60)
        acknowledged += [(round_ + 1) * 100_000 + int(n) for n in ["0", *out.split("\n")[:-1]]]
        witness.append(entry(round_))
    found = []
    for text in log.read_bytes().split(b"\n"):
        try:
            found.append(json.loads(text)["n"])
        except ValueError:
            continue  # the line that was being written when its writer died
    assert len(found) == len(set(found))
    assert set(acknowledged) <= set(found)
    assert set(range(12)) <= set(found)


def test_close_counts_what_is_lost(log: Path) -> None:
    """What never could be written is counted as lost when the process ends."""
    log.parent.mkdir()
    log.mkdir()
    writer = LogWriter(str(log))
    writer.append(entry(1))
    writer.close()
    writer.close()
    assert faults.counts()["events_lost"] == 1
    log.rmdir()
    assert writer.append(entry(2))
    assert numbers(log) == [2]  # what was called lost is not written after all


def test_fsync_writes_the_same_line(log: Path) -> None:
    """Durability against power loss changes nothing but the wait."""
    assert LogWriter(str(log), fsync=True).append(entry(1))
    assert numbers(log) == [1]


def test_a_stuck_lock_holder_costs_one_wait_not_one_a_read(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a time-out the lock is tried but not waited for, until some time has passed."""
    import fcntl

    waits: list[float] = []
    real = writer_module.lock

    def counted(descriptor: int, deadline: float) -> bool:
        waits.append(deadline - time.monotonic())
        return real(descriptor, min(deadline, time.monotonic() + 0.05))

    monkeypatch.setattr(writer_module, "lock", counted)
    writer = LogWriter(str(log))
    writer.append(entry(0))
    with log.open("rb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        for number in (1, 2, 3):
            assert writer.append(entry(number))
    assert [wait > 1.0 for wait in waits] == [True, True, False, False]
    assert numbers(log) == [0, 1, 2, 3]


def test_a_path_that_never_holds_still_is_given_up(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the path names another file at every look, the event waits instead of spinning for ever."""
    monkeypatch.setattr(writer_module, "LOCK_TIMEOUT", 0.05)
    writer = LogWriter(str(log))
    log.parent.mkdir()
    monkeypatch.setattr(writer_module.os, "stat", lambda *a, **k: os.lstat(log.parent))
    assert not writer.append(entry(1))
    assert writer.waiting == 1


def test_closing_in_a_signal_handler_inside_an_append(log: Path) -> None:
    """The usual SIGTERM handler, which shuts down and leaves, ends however the signal falls."""
    child = run(
        """
        import signal
        writer = LogWriter(sys.argv[1])
        real = os.write
        def write(descriptor, data):
            if sys._getframe(1).f_code.co_name == "_write_all":
                os.kill(os.getpid(), signal.SIGTERM)
            return real(descriptor, data)
        os.write = write
        signal.signal(signal.SIGTERM, lambda *a: (writer.close(), print("closed", flush=True), os._exit(7)))
        writer.append(entry(1))
        """,
        log,
    )
    assert finish(child, 7) == "closed\n"


@pytest.mark.parametrize("alarm", ["Exception", "TimeoutError", "BaseException"])
def test_exceptions_out_of_signal_handlers(log: Path, alarm: str) -> None:
    """A storm of alarms that raise, wherever they fall: no lock is left, no line doubled or lost, no fault made up."""
    child = run(
        f"""
        import logging, signal, time
        from memtally import faults
        logging.disable()
        class Alarm({alarm}): pass
        def alarm(*_): raise Alarm
        writer = LogWriter(sys.argv[1])
        n, acknowledged = 0, []
        writer.append(entry(0))  # the standard library's look at a path takes a TimeoutError for the system's
        def storm():
            global n
            signal.setitimer(signal.ITIMER_REAL, 0.0001 + n % 7 * 0.00003, 0.1)
            while True:
                n += 1
                writer.append(entry(n))
                acknowledged.append(n)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            signal.signal(signal.SIGALRM, alarm)
            try:
                try:
                    storm()
                finally:
                    signal.signal(signal.SIGALRM, signal.SIG_IGN)
            except Alarm:
                pass
        before = time.monotonic()
        assert writer.append(entry(10**9))
        assert time.monotonic() - before < 1.5
        assert faults.counts() == {{}}, faults.counts()
        print(n, *acknowledged)
        """,
        log,
    )
    last, *acknowledged = map(int, finish(child).split())
    found = numbers(log)
    assert found[-1] == 10**9
    assert len(found) == len(set(found))
    assert {0, *acknowledged} <= set(found) <= {*range(last + 1), 10**9}


def test_fsync_really_syncs(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line is forced to the disk when that was asked for, and none when it was not."""
    synced: list[int] = []
    monkeypatch.setattr(writer_module.os, "fdatasync", synced.append)
    LogWriter(str(log)).append(entry(1))
    assert synced == []
    writer = LogWriter(str(log), fsync=True)
    writer.append(entry(2))
    writer.append(entry(3))
    assert len(synced) == 2


def test_a_torn_write_without_the_lock_is_not_taken_back(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the lock proves that nothing of anybody else's follows: without it the file is never shortened."""
    import fcntl

    monkeypatch.setattr(writer_module, "LOCK_TIMEOUT", 0.05)
    writer = LogWriter(str(log))
    writer.append(entry(1))
    real = os.write

    def torn(descriptor: int, data: bytes) -> int:
        if len(data) > 5:
            return real(descriptor, bytes(data[:5]))
        raise OSError(28, "No space left on device")

    with log.open("rb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writer_module.os, "write", torn)
            patch.setattr(writer_module.os, "ftruncate", lambda *_: pytest.fail("the file was shortened"))
            assert not writer.append(b"2345678\n")
    *torn, last = log.read_bytes().removeprefix(entry(1)).split(b"\n")
    assert all(b"2345678".startswith(piece) for piece in [*torn, last])
    assert writer.append(entry(3))
    assert log.read_bytes() == entry(1) + b"\n".join([*torn, last]) + b"\n2345678\n" + entry(3)


def test_a_line_cut_short_without_the_lock_is_begun_anew(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What others may have written behind a torn piece is not split: the whole line follows on a line of its own."""
    import fcntl

    monkeypatch.setattr(writer_module, "LOCK_TIMEOUT", 0.05)
    writer = LogWriter(str(log))
    writer.append(entry(1))
    real, cut = os.write, [3, 2]

    def sometimes_short(descriptor: int, data: memoryview) -> int:
        if not cut:
            return real(descriptor, data)
        written = real(descriptor, bytes(data[: cut.pop(0)]))
        with log.open("ab") as other:
            other.write(b"\n" + entry(9))  # somebody else, in between
        return written

    with log.open("rb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with monkeypatch.context() as patch:
            patch.setattr(writer_module.os, "write", sometimes_short)
            assert writer.append(entry(2))
    whole = [line + b"\n" for line in log.read_bytes().split(b"\n")]
    assert [whole.count(entry(n)) for n in (1, 2, 9)] == [1, 1, 2]


def test_a_seal_that_cannot_remove_the_old_name_leaves_no_second(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where unlinking fails, the log goes on under its own name alone."""
    writer = LogWriter(str(log), seal_bytes=1)
    real = os.unlink

    def refuse(path: str) -> None:
        if str(path).endswith("usage.jsonl"):
            raise PermissionError(1, "Operation not permitted")
        real(path)

    monkeypatch.setattr(writer_module.os, "unlink", refuse)
    for number in (1, 2, 3):
        assert writer.append(entry(number))
    assert [Path(p).name for p in segments(str(log.parent))] == ["usage.jsonl"]
    assert numbers(log) == [1, 2, 3]
    assert faults.counts()["seal_failed"] == 3


def test_an_exception_right_after_the_locking_lets_the_lock_go(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt between taking the lock and writing keeps nobody waiting, and loses nothing."""
    import fcntl

    writer = LogWriter(str(log))
    writer.append(entry(1))
    with monkeypatch.context() as patch:

        def interrupted(_: str, **__: bool) -> None:
            raise KeyboardInterrupt

        patch.setattr(writer_module.os, "stat", interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer.append(entry(2))
    with log.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises where it is still held
    assert writer.append(entry(3))
    assert numbers(log) == [1, 2, 3]


def test_faults_counted_by_many_threads_are_kept_once(tmp_path: Path) -> None:
    """What the health file adds up to is what was counted, however many threads write it."""
    faults.bind(str(tmp_path))

    def work() -> None:
        for _ in range(250):
            faults.note("some_fault", "said once")
            faults.flush()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert faults.counts() == {"some_fault": 2_000}
    assert health.read_faults(str(tmp_path))["some_fault"]["count"] == 2_000


def test_an_interrupt_before_the_write_loses_no_line_of_the_same_length(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is just as long as the line that could not be written yet is no proof that it was."""
    LogWriter(str(log)).append(entry(1))
    writer = LogWriter(str(log))
    writer.append(entry(2))
    log.write_bytes(entry(3))
    real = os.stat

    def interrupted(path: str, **_: bool) -> os.stat_result:
        monkeypatch.setattr(writer_module.os, "stat", real)
        raise KeyboardInterrupt

    monkeypatch.setattr(writer_module.os, "stat", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writer.append(entry(4))
    assert writer.append(entry(5))
    assert numbers(log) == [3, 4, 5]


def test_a_line_put_down_while_another_thread_closes(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing gives up nothing that could be written: a line that comes in between is written."""
    writer = LogWriter(str(log))
    writer.append(entry(1))
    drain = writer._drain

    def late(deadline: float) -> bool:
        done = drain(deadline)
        writer._lines.append(entry(2))  # what a thread does that is about to wait for the mutex
        return done

    monkeypatch.setattr(writer, "_drain", late)
    writer.close()
    monkeypatch.setattr(writer, "_drain", drain)
    assert writer.flush()
    assert numbers(log) == [1, 2]
    assert faults.counts() == {}
