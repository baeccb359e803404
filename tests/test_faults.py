"""Faults of the machine, made for real: full and read-only disks, other users, what waits and what is given up."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import reaped
from memtally import faults, health
from memtally.ledger import waiting as waiting_module
from memtally.ledger import writer as writer_module
from memtally.ledger.writer import LogWriter
from test_processes import PRELUDE
from test_writer import entry, numbers

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files and mounts")

Run = Callable[..., subprocess.CompletedProcess[str]]
_UNSHARE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


def _can(command: str) -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run([*_UNSHARE, "sh", "-c", command], capture_output=True, timeout=60, check=False)
    return tried.returncode == 0


mounts = pytest.mark.skipif(
    not _can("mount -t tmpfs none /mnt"), reason="no right to mount file systems here"
)
remounts = pytest.mark.skipif(
    not _can("mount -t tmpfs none /mnt && mount -o remount,ro /mnt"), reason="no right to remount them here"
)


def run_with_mounts(code: str, workspace: Path) -> subprocess.CompletedProcess[str]:
    """Python in a mount namespace of its own, where ``mount()`` changes nothing for others."""
    helper = """
import subprocess
def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)
"""
    process = subprocess.Popen(
        [*_UNSHARE, sys.executable, "-c", PRELUDE + helper + textwrap.dedent(code)],
        cwd=workspace,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=100)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its children too
        process.wait()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def said(code: str, run: Run, **more: Any) -> str:
    """What ``memtally status`` says of one thing."""
    return next(row for row in run("status", **more).stdout.splitlines() if row.strip().startswith(code))


# -- disks -------------------------------------------------------------------------------------------


@mounts
def test_a_disk_that_fills_and_is_freed(workspace: Path) -> None:
    """Reads go on while a real disk of 256 KB is full; freed, it gets every event, whole and once."""
    done = run_with_mounts(
        """
        import json
        os.mkdir("disk")
        mount("-t", "tmpfs", "-o", "size=256k", "none", "disk")
        with open("disk/filler", "wb") as stream:
            stream.write(b"x" * 210_000)
        memtally.configure(workspace="disk")
        log = "disk/.memtally/usage.jsonl"
        for n in range(300):
            numbered_read(n, 1 + n % 5)
        exporter = memtally.pipeline._pipeline.workspace_logger.exporter
        waiting = exporter._writer.waiting
        in_file = [json.loads(text)["session_id"] for text in open(log)]
        assert waiting + len(in_file) == 300 and waiting > 50 and in_file, (waiting, len(in_file))
        assert memtally.faults.counts()["log_unwritable"] > 50
        os.unlink("disk/filler")
        numbered_read(300)
        assert exporter._writer.waiting == 0
        assert [json.loads(text)["session_id"] for text in open(log)] == [str(n) for n in range(301)]
        memtally.shutdown()
        told = memtally.health.read_faults("disk/.memtally")["log_unwritable"]
        assert told["count"] == memtally.faults.counts()["log_unwritable"], told
        assert memtally.health.read_waiting("disk/.memtally") == []
        """,
        workspace,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("memtally:") == 1  # said once


@mounts
def test_several_writers_on_a_full_disk(workspace: Path) -> None:
    """Four processes meet the full disk at once: nobody's torn line costs another's; freed, all is there."""
    done = run_with_mounts(
        """
        import json, glob
        from memtally.ledger.writer import LogWriter
        os.mkdir("disk")
        mount("-t", "tmpfs", "-o", "size=4m", "none", "disk")
        with open("disk/filler", "wb") as stream:
            stream.write(b"x" * 4_000_000)
        pids = []
        for which in range(4):
            pid = os.fork()
            if pid == 0:
                writer = LogWriter("disk/.memtally/usage.jsonl")
                for n in range(200):
                    writer.append(line(which * 200 + n, 200 + 997 * (n % 3)))
                while not writer.flush():
                    time.sleep(0.01)
                os._exit(0 if writer.waiting == 0 else 1)
            pids.append(pid)
        time.sleep(1)
        assert os.statvfs("disk").f_bavail <= 1
        os.unlink("disk/filler")
        for pid in pids:
            assert os.waitpid(pid, 0)[1] == 0
        found = sorted(int(json.loads(text)["session_id"]) for text in open("disk/.memtally/usage.jsonl"))
        assert found == list(range(800)), len(found)
        """,
        workspace,
    )
    assert done.returncode == 0, done.stderr


@remounts
def test_a_disk_that_turns_read_only(workspace: Path) -> None:
    """While it is read-only events wait; when it is writable again they are written with the next one."""
    done = run_with_mounts(
        """
        import json
        os.mkdir("disk")
        mount("-t", "tmpfs", "none", "disk")
        memtally.configure(workspace="disk")
        numbered_read(0)
        writer = memtally.pipeline._pipeline.workspace_logger.exporter._writer
        writer._close_descriptor()  # what is open for writing forbids the change
        mount("-o", "remount,ro", "disk")
        for n in range(1, 6):
            numbered_read(n)
        assert writer.waiting == 5
        status = subprocess.run([sys.executable, "-m", "memtally", "status", "--workspace", "disk"],
                                capture_output=True, text=True, timeout=60)
        assert "NO" in next(row for row in status.stdout.splitlines() if "writable" in row), status
        mount("-o", "remount,rw", "disk")
        numbered_read(6)
        assert [json.loads(text)["session_id"] for text in open("disk/.memtally/usage.jsonl")] == list("0123456")
        """,
        workspace,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("left", ["log", "folder", "closed folder", "workspace", "configuration"])
def test_what_another_user_left(open_folder: Path, tmp_path: Path, left: str) -> None:
    """What root left behind, after sudo, costs its new user no start, no read, and one warning."""
    workspace = open_folder
    code = f"""
        import memtally.health
        memtally.configure(workspace={str(tmp_path)!r})
        numbered_read("first")  # whatever is imported is imported before
        memtally.shutdown()
        {"os.setgid(12_345); os.setuid(12_345)" if os.geteuid() == 0 else ""}
        memtally.configure(workspace=".")
        for n in range(3):
            numbered_read(n)
        print(sorted(memtally.faults.counts().items()))
        """
    directory = workspace / ".memtally"
    if left == "workspace":
        workspace.chmod(0o555)
    else:
        directory.mkdir()
        (directory / "config.toml").write_text('workspace_id = "w"\n')
        directory.chmod({"folder": 0o555, "closed folder": 0o000}.get(left, 0o777))
    if left == "log":
        (directory / "usage.jsonl").touch()
        (directory / "usage.jsonl").chmod(0o444)
    if left == "configuration":
        (directory / "config.toml").chmod(0o000)
    try:
        done = subprocess.run(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
            cwd=workspace,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        workspace.chmod(0o755)
        if directory.exists():
            directory.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert len(re.findall("cannot be (written|prepared)", done.stderr)) == 1
    told = health.read_faults(str(directory))
    if left == "configuration":
        assert "('log_unwritable', 1)" in done.stdout  # at the start; the reads themselves are in the log
        assert len((directory / "usage.jsonl").read_bytes().splitlines()) == 3
    else:
        counted = 4 if left in ("closed folder", "workspace") else 3  # the start is counted too
        assert f"('log_unwritable', {counted})" in done.stdout
    if left == "log":  # where the folder can be written, the loss outlives the process
        assert told["events_lost"]["count"] == 3


# -- what waits --------------------------------------------------------------------------------------


def test_status_tells_what_waits_where_and_what_was_lost_with_a_process(run: Run, workspace: Path) -> None:
    """Five events in a living process wait; killed, they are lost; written in time, nothing is said."""
    code = """
    memtally.configure(workspace=".")
    os.mkdir(".memtally/usage.jsonl")
    for n in range(5):
        numbered_read(n)
    print("ready", flush=True)
    sys.stdin.readline()
    os.rmdir(".memtally/usage.jsonl")
    numbered_read(5)
    print("written", flush=True)
    sys.stdin.readline()
    """

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    with reaped([start()]) as [process]:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        # told at each doubling: at the fourth of the five
        assert f"at least 4 events in the memory of process {process.pid}: not in the log yet" in said(
            "waiting", run
        )
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "written\n"
        assert said("waiting", run).split() == ["waiting", "none"]
    (workspace / ".memtally" / "usage.jsonl").unlink()
    with reaped([start()]) as [process]:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        assert f"at least 4 events LOST with process {process.pid}" in said("waiting", run)


def test_what_waits_elsewhere_is_not_called_lost(run: Run, workspace: Path) -> None:
    """Of a process on another machine, or in another container, it is not known whether it runs."""
    (workspace / ".memtally").mkdir()
    entry = {"at": 1.0, "pid": 2**22 + 1, "host": "elsewhere", "waiting": 3}
    (workspace / ".memtally" / "health.jsonl").write_text(json.dumps(entry) + "\n")
    assert "at least 3 events waiting, or lost, in process 4194305 on elsewhere" in said("waiting", run)


def test_a_thread_that_hangs_in_a_write_costs_others_one_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a disk that hangs the others wait once, then put their events down at once, within the bound."""
    monkeypatch.setattr(writer_module, "LOCK_TIMEOUT", 0.2)
    monkeypatch.setattr(waiting_module, "MOST_LINES", 50)
    log = tmp_path / ".memtally" / "usage.jsonl"
    writer, hanging, go_on = LogWriter(str(log)), threading.Event(), threading.Event()
    real = os.write

    def hang(descriptor: int, data: Any) -> int:
        hanging.set()
        go_on.wait(30)
        return real(descriptor, data)

    waits: list[float] = []
    free_before = writer._free_before

    def counted(deadline: float) -> bool:
        waits.append(deadline - time.monotonic())
        return free_before(deadline)

    monkeypatch.setattr(writer, "_free_before", counted)
    with monkeypatch.context() as patch:
        patch.setattr(writer_module.os, "write", hang)
        thread = threading.Thread(target=writer.append, args=(entry(0),))
        thread.start()
        assert hanging.wait(10)
        for number in range(1, 61):
            assert not writer.append(entry(number))
        go_on.set()
        thread.join(30)
    assert [wait > 0.1 for wait in waits[1:]] == [True] + [False] * 59
    assert faults.counts() == {"writer_busy": 60, "events_lost": 11}
    assert writer.append(entry(99))
    assert numbers(log) == [*range(50), 99]  # the oldest stay, for the one in front is being written


# -- the health file ---------------------------------------------------------------------------------


def test_counts_that_could_not_be_written_are_written_later(tmp_path: Path) -> None:
    """A health file that cannot be written keeps nothing back from the time when it can."""
    blocked = tmp_path / health.HEALTH_FILE
    blocked.mkdir()
    faults.bind(str(tmp_path))
    for _ in range(7):
        faults.note("some_fault", "said once")
    assert health.read_faults(str(tmp_path)) == {}
    blocked.rmdir()
    faults.flush()
    faults.flush()
    assert health.read_faults(str(tmp_path))["some_fault"]["count"] == 7


def test_a_health_file_that_has_grown_is_added_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight processes' worth of faults through a file of 4 KB: every count is kept, and so is what waits."""
    monkeypatch.setattr(health, "_MAX_BYTES", 4_096)

    def work(which: int) -> None:
        for number in range(100):
            entries = [health.entry(fault=f"fault {number % 3}", count=2, message="m")]
            entries.append({**health.entry(waiting=number), "pid": which})
            for _ in range(1_000):  # three attempts in a row may meet another's adding up
                if health.append(str(tmp_path), entries):
                    break

    threads = [threading.Thread(target=work, args=(which,)) for which in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    found = health.read_faults(str(tmp_path))
    assert {kind: said["count"] for kind, said in found.items()} == {
        "fault 0": 8 * 34 * 2, "fault 1": 8 * 33 * 2, "fault 2": 8 * 33 * 2,
    }  # fmt: skip
    waiting = health.read_waiting(str(tmp_path))
    assert sorted((e["pid"], e["waiting"]) for e in waiting) == [(which, 99) for which in range(1, 9)]
    assert (tmp_path / health.HEALTH_FILE).stat().st_size < 10_000
    assert list(tmp_path.glob("health*")) == [tmp_path / health.HEALTH_FILE]
    assert stat.S_IMODE((tmp_path / health.HEALTH_FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize("place", ["fifo", "link"])
def test_what_is_no_health_file_is_left_alone(tmp_path: Path, place: str) -> None:
    """A pipe or a link in its place gets nothing and holds up nobody; faults are said and counted all the same."""
    path, victim = tmp_path / health.HEALTH_FILE, tmp_path / "victim"
    victim.write_text("mine")
    os.mkfifo(path) if place == "fifo" else path.symlink_to(victim)
    faults.bind(str(tmp_path))
    faults.note("some_fault", "said once")
    assert (faults.counts(), victim.read_text()) == ({"some_fault": 1}, "mine")
    assert health.read_faults(str(tmp_path)) == {}


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where flock is not supported, lines are appended without, said once; faults are kept all the same."""

    def unsupported(*_: object) -> bool:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(writer_module, "lock", unsupported)
    monkeypatch.setattr(health, "lock", unsupported)
    log = tmp_path / "usage.jsonl"
    faults.bind(str(tmp_path))
    writer = LogWriter(str(log))
    assert all(writer.append(entry(n)) for n in range(3))
    assert numbers(log) == [0, 1, 2]
    assert faults.counts() == {"no_locks": 3}
    assert health.read_faults(str(tmp_path))["no_locks"]["count"] == 1


def test_an_interrupted_line_in_the_health_file_costs_only_itself(tmp_path: Path) -> None:
    """What a killed process has left of its line does not take the next one with it."""
    (tmp_path / health.HEALTH_FILE).write_text('{"at": 1, "pid": 1, "fa')
    assert health.append(str(tmp_path), [health.entry(fault="f", count=500, message="m")])
    assert health.read_faults(str(tmp_path))["f"]["count"] == 500


@pytest.mark.parametrize("how", ["short", "full"])
def test_adding_up_on_a_full_disk_keeps_the_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The grown file stays as it is until its sum could be written whole, and no copy is left behind."""
    monkeypatch.setattr(health, "_MAX_BYTES", 1_000)
    for _ in range(10):
        health.append(str(tmp_path), [health.entry(fault="f", count=2_000, message="m")])
    before = health.read_faults(str(tmp_path))["f"]["count"]
    real = os.write

    def refuse(descriptor: int, data: bytes) -> int:
        if how == "full":
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data[:10])

    with monkeypatch.context() as patch:
        patch.setattr(health.os, "write", refuse)
        for _ in range(5):
            try:
                assert not health.append(str(tmp_path), [health.entry(fault="f", count=1, message="m")])
            except OSError:
                pass
    assert health.read_faults(str(tmp_path))["f"]["count"] == before
    assert list(tmp_path.glob("health*")) == [tmp_path / health.HEALTH_FILE]


def test_a_child_forked_in_the_middle_of_a_fault_keeps_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that lives on has the descriptor, but not the lock: the parent's next fault is kept at once."""
    children: list[int] = []
    real = health._write

    def forking(descriptor: int, data: bytes, size: int | None) -> bool:
        children.append(os.fork())
        if children[-1] == 0:
            time.sleep(60)
            os._exit(0)
        return real(descriptor, data, size)

    try:
        with monkeypatch.context() as patch:
            patch.setattr(health, "_write", forking)
            health.append(str(tmp_path), [health.entry(fault="f", count=1, message="m")])
        with (tmp_path / health.HEALTH_FILE).open("rb") as stream:
            assert health.lock(stream.fileno(), 0.0)  # without waiting: the child still lives
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def test_faults_belong_to_the_workspace_they_happened_in(run_python: Run, run: Run, workspace: Path) -> None:
    """What the first workspace's writer leaves behind is told there, not in the one configured next."""
    done = run_python(
        PRELUDE
        + textwrap.dedent(
            """
            os.makedirs("a/.memtally/usage.jsonl")
            os.mkdir("b")
            memtally.configure(workspace="a")
            for n in range(5):
                numbered_read(n)
            os.rmdir("a/.memtally/usage.jsonl")
            memtally.configure(workspace="b")
            numbered_read(5)
            """
        )
    )
    assert done.returncode == 0, done.stderr
    assert len((workspace / "a" / ".memtally" / "usage.jsonl").read_bytes().splitlines()) == 5
    assert health.read_faults(str(workspace / "a" / ".memtally"))["log_unwritable"]["count"] == 5
    assert health.read_waiting(str(workspace / "a" / ".memtally")) == []
    assert health.read_faults(str(workspace / "b" / ".memtally")) == {}


def test_by_name_in_a_fresh_workspace_faults_are_kept(run_python: Run, workspace: Path) -> None:
    """Recording by environment name, where the folder is made with the first event, keeps its faults too."""
    done = run_python(
        PRELUDE
        + textwrap.dedent(
            """
            from opentelemetry._logs import get_logger_provider
            from opentelemetry.sdk._configuration import _initialize_components
            _initialize_components()
            numbered_read(0)
            get_logger_provider().force_flush()
            os.rename(".memtally/usage.jsonl", ".memtally/usage-1.jsonl")
            os.mkdir(".memtally/usage.jsonl")
            for n in range(3):
                numbered_read(n)
            get_logger_provider().shutdown()
            """
        ),
        OTEL_LOGS_EXPORTER="memtally",
        OTEL_TRACES_EXPORTER="none",
        OTEL_METRICS_EXPORTER="none",
    )
    assert done.returncode == 0, done.stderr
    assert health.read_faults(str(workspace / ".memtally"))["events_lost"]["count"] == 3


def test_seals_at_once_make_no_empty_segment(tmp_path: Path) -> None:
    """Four who seal at the same time: one segment for what was there, none empty, no error."""
    log = tmp_path / ".memtally" / "usage.jsonl"
    errors: list[BaseException] = []

    def seal(barrier: threading.Barrier) -> None:
        barrier.wait()
        try:
            LogWriter(str(log)).seal()
        except OSError as error:
            errors.append(error)

    for number in range(40):
        LogWriter(str(log)).append(entry(number))
        barrier = threading.Barrier(4)
        threads = [threading.Thread(target=seal, args=(barrier,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    segments = list(log.parent.glob("usage-*.jsonl"))
    assert errors == []
    assert sorted(numbers(*segments)) == list(range(40))
    assert all(segment.stat().st_size for segment in segments)


@pytest.mark.parametrize("place", ["link", "directory", "link out"])
def test_status_knows_where_no_event_could_be_written(
    run: Run, workspace: Path, tmp_path: Path, place: str
) -> None:
    """A link or a folder in the log's place is not called writable."""
    directory = workspace / ".memtally"
    if place == "link out":
        (tmp_path / "outside").mkdir()
        directory.symlink_to(tmp_path / "outside")
    else:
        directory.mkdir()
    if place == "link":
        (directory / "other").touch()
        (directory / "usage.jsonl").symlink_to("other")
    elif place == "directory":
        (directory / "usage.jsonl").mkdir()
    assert said("writable", run).split() == ["writable", "NO"]


def test_what_otlp_drops_is_counted(workspace: Path) -> None:
    """Behind an exporter that hangs, the queue's losses are counted exactly at the end, and the log has all."""
    from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult

    import memtally
    from memtally_exporters import otlp

    go_on, handed = threading.Event(), []

    class Hangs(LogRecordExporter):
        def export(self, batch: Any) -> LogRecordExportResult:
            handed.append(len(batch))
            go_on.wait(30)
            return LogRecordExportResult.FAILURE

        def shutdown(self) -> None:
            """Nothing to close."""

        def force_flush(self, timeout_millis: int = 0) -> bool:
            """Nothing to flush."""
            return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(otlp, "otlp_exporter", Hangs)
        patch.setattr("memtally.pipeline.OTLP_EXIT_SECONDS", 0.2)
        memtally.configure(workspace=".", otlp=True)
        for number in range(5_000):
            memtally.record_use("MemoryRead", memtally.MemoryRecord("decision", f"r{number}"))
        memtally.shutdown()
    counts = faults.counts()
    assert counts["otlp_dropped"] == 5_000 - sum(handed)
    assert 0 < sum(handed) <= 1_024
    assert len((workspace / ".memtally" / "usage.jsonl").read_bytes().splitlines()) == 5_000
    go_on.set()
