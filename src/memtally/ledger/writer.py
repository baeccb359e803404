"""Append whole lines to a usage log that any number of threads and processes share.

Under one lock on the log itself: check that the path still names the open file (else reopen), see that
the file ends in a newline (else start with one), write the line by one ``os.write``, unlock. A reader
needs no lock. What cannot be written waits in memory, bounded, and goes out with the next event.

``append()`` never raises and waits at most ``LOCK_TIMEOUT`` seconds for another process.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import deque
from weakref import WeakSet

from memtally import faults
from memtally.ledger.layout import ensure_directory, within
from memtally.ledger.locking import lock, unlock

__all__ = ["LOCK_TIMEOUT", "SEAL_BYTES", "LogWriter"]

LOCK_TIMEOUT = 2.0
"""Seconds to wait for the lock; then the line is written without it (one O_APPEND write) and counted."""

IMPATIENCE = 10.0
"""Seconds after such a time-out in which the lock is tried, but not waited for."""

SEAL_BYTES = 256 * 1_048_576
BATCH_BYTES = 262_144
WAITING_LINES = 10_000
WAITING_BYTES = 8 * 1_048_576

_FLAGS = (
    os.O_RDWR
    | os.O_APPEND
    | os.O_CREAT
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a FIFO in the log's place must not hang the read path
    | getattr(os, "O_BINARY", 0)
)

_writers: WeakSet[LogWriter] = WeakSet()


class LogWriter:
    """Appends to one log file.

    ``path``: the log, in a folder that is created when missing. ``root``: the workspace that the log
    must not leave by symbolic links; ``None`` for no check. ``fsync``: also force each line to the disk
    (about 100 us and more). ``seal_bytes``: size at which the log is sealed; 0 for never.
    """

    def __init__(
        self, path: str, *, root: str | None = None, fsync: bool = False, seal_bytes: int = SEAL_BYTES
    ) -> None:
        self.path = path
        self._root = root
        self._fsync = fsync
        self._seal_bytes = seal_bytes
        self._mutex = threading.Lock()
        self._descriptor = -1
        self._inode = (-1, -1)
        self._end = -1  # where this writer left the file; anything else means look at its last byte
        self._waiting: deque[bytes] = deque()
        self._holder: int | None = None
        self._impatient_until = 0.0
        _writers.add(self)

    @property
    def waiting(self) -> int:
        """Events that could not be written yet."""
        return len(self._waiting)

    def append(self, line: bytes) -> bool:
        """Append one line (with its ``\\n``); whether it, and all that waited, is in the file now."""
        self._waiting.append(line)
        return self.flush()

    def flush(self) -> bool:
        """Write what waits, if it can be written; whether nothing waits any more."""
        if self._holder == threading.get_ident():
            return False  # a signal handler inside an append: the append below it, or the next, writes it
        if not self._free_within(LOCK_TIMEOUT):
            faults.note(
                "writer_busy", f"{self.path}: another thread was writing for too long; an event waits"
            )
            return False
        # "with" rather than acquire(timeout): an exception out of a signal handler cannot come between
        # the taking and the block, and leave the mutex locked for ever
        with self._mutex:
            self._holder = threading.get_ident()
            try:
                return self._drain()
            finally:
                self._holder = None

    def _free_within(self, seconds: float) -> bool:
        """Wait until no other thread writes; false where one does for longer than that."""
        deadline = time.monotonic() + seconds
        while self._mutex.locked():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.0005)
        return True

    def close(self) -> None:
        """Write what waits, if it can be written, and close the file. The writer can be used again."""
        if not self.flush() and self._holder != threading.get_ident():
            faults.note(
                "events_lost",
                f"{self.path}: events that could not be written were lost when the process ended",
                count=len(self._waiting),
            )
        # not from a signal handler inside an append: the append below it needs the file
        if self._holder != threading.get_ident() and self._free_within(LOCK_TIMEOUT):
            with self._mutex:
                self._close_descriptor()

    # -- under the mutex -------------------------------------------------------------------------

    def _drain(self) -> bool:
        try:
            while self._waiting:
                number, data = 1, self._waiting[0]
                if len(self._waiting) > 1:
                    number, data = self._batch()
                self._write(data)
                for _ in range(number):
                    self._waiting.popleft()
        except OSError as error:
            faults.note(
                "log_unwritable",
                f"{self.path}: cannot be written ({error.strerror or error}); events wait in memory, "
                f"see memtally status",
                error,
            )
            self._close_descriptor()
            self._shed()
            return False
        return True

    def _batch(self) -> tuple[int, bytes]:
        """The oldest waiting lines, up to a bound, as one piece."""
        lines: list[bytes] = []
        size = 0
        for line in list(self._waiting):
            size += len(line)
            if lines and size > BATCH_BYTES:
                break
            lines.append(line)
        return len(lines), b"".join(lines)

    def _shed(self) -> None:
        size, given_up = sum(map(len, self._waiting)), 0
        while len(self._waiting) > WAITING_LINES or size > WAITING_BYTES:
            size -= len(self._waiting.popleft())
            given_up += 1
        if given_up:
            faults.note(
                "events_lost",
                f"{self.path}: more events wait than fit in memory; the oldest were given up",
                count=given_up,
            )

    def _write(self, data: bytes) -> None:
        try:
            locked = self._lock_current_file()
            start = os.fstat(self._descriptor).st_size
            if start != self._end and start > 0 and _byte_at(self._descriptor, start - 1) != b"\n":
                data = b"\n" + data  # somebody's torn line ends here, and costs only itself
            try:
                self._write_all(data)
            except OSError:
                self._take_back(start, locked)
                raise
            self._end = start + len(data)
            if self._fsync:
                os.fdatasync(self._descriptor) if hasattr(os, "fdatasync") else os.fsync(self._descriptor)
            if locked and 0 < self._seal_bytes <= self._end:
                self._seal_locked()
        finally:
            # also when an exception out of a signal handler came right after the locking
            if self._descriptor >= 0:
                unlock(self._descriptor)

    def _write_all(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.write(self._descriptor, view)
            if written == 0:
                raise OSError("the file takes no bytes")
            view = view[written:]

    def _take_back(self, start: int, locked: bool) -> None:
        """Undo a half-written line, where the lock proves that nothing of anybody else's follows it."""
        self._end = -1
        if locked:
            try:
                os.ftruncate(self._descriptor, start)
            except OSError:
                pass  # the next writer starts with a newline

    def _lock_current_file(self) -> bool:
        """Open and lock the file that the path names now; whether it could be locked."""
        now = time.monotonic()
        # who holds the lock for ever costs one wait, not one for each read
        deadline = now if now < self._impatient_until else now + LOCK_TIMEOUT
        while True:
            if self._descriptor < 0:
                self._open()
            try:
                locked = lock(self._descriptor, max(0.0, deadline - time.monotonic()))
            except OSError:
                locked = False
                faults.note(
                    "no_locks", f"{self.path}: this file system has no locks; lines are appended without"
                )
            else:
                if not locked:
                    self._impatient_until = time.monotonic() + IMPATIENCE
                    faults.note(
                        "lock_timeout", f"{self.path}: locked for over {LOCK_TIMEOUT:g} s; written without"
                    )
            try:
                found = os.stat(self.path, follow_symlinks=False)
            except FileNotFoundError:
                found = None
            if found is not None and (found.st_dev, found.st_ino) == self._inode:
                return locked
            # renamed, sealed or removed under our feet: what the path names now is the log
            self._close_descriptor()
            if time.monotonic() > deadline + LOCK_TIMEOUT:
                raise OSError("the file is replaced faster than it can be opened")

    def _open(self) -> None:
        directory = os.path.dirname(self.path)
        ensure_directory(directory)
        if self._root is not None and not within(directory, self._root):
            raise OSError(f"{directory} leads out of the workspace")
        descriptor = os.open(self.path, _FLAGS, 0o600)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise OSError("not a regular file")
        self._descriptor, self._inode, self._end = descriptor, (status.st_dev, status.st_ino), -1

    def _close_descriptor(self) -> None:
        # forget the number before it is free again: a fork in between must not see a stale one
        descriptor, self._descriptor, self._end = self._descriptor, -1, -1
        if descriptor >= 0:
            try:
                os.close(descriptor)
            except OSError:
                pass

    def _seal_locked(self) -> None:
        """Give the full log its number. ``link`` never replaces a file, so no segment is ever lost."""
        directory = os.path.dirname(self.path)
        try:
            number = 1 + max(
                (int(name[6:-6]) for name in os.listdir(directory) if _is_sealed(name)), default=0
            )
            segment = os.path.join(directory, f"usage-{number}.jsonl")
            os.link(self.path, segment)
            try:
                os.unlink(self.path)
            except OSError:
                os.unlink(segment)  # or each further append would add a name
                raise
        except OSError as error:
            faults.note("seal_failed", f"{self.path}: could not be sealed; it goes on growing", error)
            return
        self._close_descriptor()  # which also unlocks it

    def _after_fork_in_child(self) -> None:
        # The descriptor shares the parent's lock: close it, and never unlock through it. What waits is
        # the parent's to write. Another thread may have held the mutex: take a new one.
        self._mutex = threading.Lock()
        self._holder = None
        self._close_descriptor()
        self._waiting.clear()


def _byte_at(descriptor: int, offset: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(descriptor, 1, offset)
    os.lseek(descriptor, offset, os.SEEK_SET)  # O_APPEND writes at the end wherever this points
    return os.read(descriptor, 1)


def _is_sealed(name: str) -> bool:
    return name.startswith("usage-") and name.endswith(".jsonl") and name[6:-6].isdecimal()


def _after_fork_in_child() -> None:
    for writer in _writers:
        writer._after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
