"""Append whole lines to a usage log that any number of threads and processes share.

Under one lock on the log itself: check that the path still names the open file (else reopen), see that
the file ends in a newline (else start with one), write the line by one ``os.write``, unlock. A reader
needs no lock. What cannot be written waits in memory, bounded, and goes out with the next event.

``append()`` never raises ``OSError``, and waits at most ``LOCK_TIMEOUT`` seconds for other threads and
processes together. What the disk itself takes for a write has no bound that a process could set.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from weakref import WeakSet

from memtally import faults
from memtally.errors import is_the_systems
from memtally.ledger.layout import ensure_directory, next_segment, within
from memtally.ledger.locking import lock, unlock
from memtally.ledger.waiting import Line, WaitingLines

__all__ = ["LOCK_TIMEOUT", "SEAL_BYTES", "LogWriter"]

LOCK_TIMEOUT = 2.0
"""Seconds that one append waits. Where another process then holds the lock still, the line is written without
it (one O_APPEND write); where another thread is still writing, the line waits in memory. Both are counted."""

IMPATIENCE = 10.0
"""Seconds after such a time-out in which an append tries, but does not wait."""

SEAL_BYTES = 256 * 1_048_576
ATTEMPTS = 5
"""So often a file that was replaced meanwhile is opened anew when the deadline has passed, and a line that
was cut short without the lock is begun anew."""

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
        self._holder: int | None = None
        self._descriptor = -1
        self._inode = (-1, -1)
        self._end = -1  # where this writer left the file; anything else means look at its last byte
        self._lines = WaitingLines()
        self._impatient_until = 0.0
        self._said = 0  # how many were last said to wait
        _writers.add(self)

    @property
    def waiting(self) -> int:
        """Lines that could not be written yet."""
        return len(self._lines)

    def append(self, line: bytes) -> bool:
        """Append one line (with its ``\\n``); whether it, and all that waited, is in the file now."""
        self._lines.append(line)
        return self.flush()

    def flush(self) -> bool:
        """Write what waits, if it can be written; whether nothing waits any more."""
        if self._holder == threading.get_ident():
            return False  # a signal handler inside an append: the append below it, or the next, writes it
        deadline = self._deadline()
        if not self._free_before(deadline):
            self._impatient_until = time.monotonic() + IMPATIENCE  # a hung disk costs one wait
            faults.note(
                "writer_busy", f"{self.path}: another thread was writing for too long; an event waits"
            )
            self._shed(newest=True)
            self._say_what_waits()
            return False
        # "with" rather than acquire(timeout): an exception out of a signal handler cannot come between
        # taking or letting go and the rest, and leave the mutex locked for ever
        with self._mutex:
            self._holder = threading.get_ident()
            try:
                return self._drain(deadline)
            finally:
                self._holder = None

    def seal(self) -> str | None:
        """Give the log its number now; the segment's path, or ``None`` where there is nothing to seal.

        Raises ``OSError`` where it is not possible, ``TimeoutError`` where others write for too long.
        """
        self.flush()
        if not self._free_before(time.monotonic() + LOCK_TIMEOUT):
            raise TimeoutError(f"another append was going on for over {LOCK_TIMEOUT:g} s")
        with self._mutex:
            self._holder = threading.get_ident()
            try:
                return self._seal_now()
            finally:
                self._close_descriptor()
                self._holder = None

    def _deadline(self) -> float:
        now = time.monotonic()
        # who blocks the log for ever costs one wait, not one for each read
        return now if now < self._impatient_until else now + LOCK_TIMEOUT

    def close(self) -> None:
        """Write what waits and close the file; what cannot be written now is given up, and counted.

        The writer can be used again.
        """
        if self._holder == threading.get_ident():
            return  # a signal handler inside an append, which needs the file
        deadline = self._deadline()
        if self._free_before(deadline):
            with self._mutex:
                self._holder = threading.get_ident()
                try:
                    # what another thread puts down behind this is that thread's to write
                    if not self._drain(deadline):
                        self._give_up()
                finally:
                    self._close_descriptor()
                    self._holder = None

    def _free_before(self, deadline: float) -> bool:
        """Wait until no other thread writes; false where one still does at the deadline."""
        while self._mutex.locked():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.0005)
        return True

    def _give_up(self) -> None:
        if number := self._lines.clear():
            faults.note(
                "events_lost",
                f"{self.path}: events that could not be written were lost when recording ended",
                count=number,
            )
            self._say_what_waits()

    # -- under the mutex -------------------------------------------------------------------------

    def _drain(self, deadline: float) -> bool:
        try:
            self._lines.take_out_landed()
            while self._lines:
                self._write(self._lines.batch(), deadline)
                self._lines.take_out_landed()
        except OSError as error:
            if not is_the_systems(error):
                raise
            faults.note(
                "log_unwritable",
                f"{self.path}: cannot be written ({error.strerror or error}); events wait in memory, "
                f"see memtally status",
                error,
            )
            self._close_descriptor()
            self._shed()
            self._say_what_waits()
            return False
        if self._said:
            self._say_what_waits()
        return True

    def _say_what_waits(self) -> None:
        """Let ``memtally status`` know: at each doubling of the number, and when nothing waits any more."""
        number = len(self._lines)
        if number.bit_length() != self._said.bit_length():
            change, self._said = number - self._said, number  # before it is told, for that may take a while
            faults.add_waiting(change)

    def _shed(self, *, newest: bool = False) -> None:
        if given_up := self._lines.shed(newest=newest):
            faults.note(
                "events_lost",
                f"{self.path}: more events wait than fit in memory; some were given up",
                count=given_up,
            )

    def _write(self, lines: list[Line], deadline: float) -> None:
        data = lines[0][0] if len(lines) == 1 else b"".join([line for [line] in lines])
        locked, start = False, -1
        try:
            locked, start = self._lock_current_file(deadline)
            if start != self._end and start > 0 and _byte_at(self._descriptor, start - 1) != b"\n":
                data = b"\n" + data  # somebody's torn line ends here, and costs only itself
            self._end = self._write_all(data, start, locked)
            if self._fsync:
                os.fdatasync(self._descriptor) if hasattr(os, "fdatasync") else os.fsync(self._descriptor)
            self._lines.landed(lines)
            if locked and 0 < self._seal_bytes <= self._end:
                try:
                    self._seal_locked()
                except OSError as error:
                    faults.note("seal_failed", f"{self.path}: could not be sealed; it goes on growing", error)
        except BaseException as error:
            interrupted = locked and start >= 0 and not is_the_systems(error)
            if interrupted and _size(self._descriptor) == start + len(data):
                self._lines.landed(lines)  # right behind the write: no line must be written twice
            raise
        finally:
            # also when an exception out of a signal handler came right after the locking
            if self._descriptor >= 0:
                unlock(self._descriptor)

    def _write_all(self, data: bytes, start: int, locked: bool) -> int:
        """Write all of it, however the system cuts it up; the file's size behind it, or -1 if unknown."""
        written = torn = 0
        try:
            while written < len(data):
                if written and not locked:
                    # others may have written behind the torn piece: leave it, and begin anew
                    torn += 1
                    if torn == ATTEMPTS:
                        raise OSError(errno.EIO, "the file takes no whole line")
                    data, written = b"\n" + data.lstrip(b"\n"), 0
                taken = os.write(self._descriptor, memoryview(data)[written:] if written else data)
                if taken == 0:
                    raise OSError(errno.EIO, "the file takes no bytes")
                written += taken
        except OSError:
            self._end = -1
            if locked and written:
                self._take_back(start, written)
            raise
        return start + len(data) if locked else -1

    def _take_back(self, start: int, written: int) -> None:
        """Undo a half-written line, where lock and size prove that nothing of anybody else's follows it."""
        try:
            if _size(self._descriptor) == start + written:
                os.ftruncate(self._descriptor, start)
        except OSError as error:
            if not is_the_systems(error):
                raise
            # the next writer starts with a newline

    def _lock_current_file(self, deadline: float) -> tuple[bool, int]:
        """Open and lock the file that the path names now; whether it could be locked, and its size."""
        attempts = 0
        while True:
            if self._descriptor < 0:
                self._open()
            try:
                locked = lock(self._descriptor, deadline)
            except OSError as error:
                if not is_the_systems(error):
                    raise
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
                return locked, found.st_size
            # renamed, sealed or removed under our feet: what the path names now is the log
            self._close_descriptor()
            attempts += 1
            if attempts >= ATTEMPTS and time.monotonic() > deadline:
                raise OSError(errno.EBUSY, "the file is replaced faster than it can be opened")

    def _open(self) -> None:
        directory = os.path.dirname(self.path)
        ensure_directory(directory)
        if self._root is not None and not within(directory, self._root):
            raise OSError(errno.EPERM, f"{directory} leads out of the workspace")
        descriptor = os.open(self.path, _FLAGS, 0o600)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "not a regular file")
        self._descriptor, self._inode, self._end = descriptor, (status.st_dev, status.st_ino), -1

    def _close_descriptor(self) -> None:
        # forget the number before it is free again: a fork in between must not see a stale one
        descriptor, self._descriptor, self._end = self._descriptor, -1, -1
        if descriptor >= 0:
            try:
                os.close(descriptor)
            except OSError as error:
                if not is_the_systems(error):
                    raise

    def _seal_now(self) -> str | None:
        try:
            size = os.stat(self.path, follow_symlinks=False).st_size
        except FileNotFoundError:
            size = 0
        if size == 0:
            return None  # opening it would create it
        locked, size = self._lock_current_file(time.monotonic() + LOCK_TIMEOUT)
        if not locked:
            raise TimeoutError("it cannot be locked")
        return self._seal_locked() if size else None  # another may have sealed it meanwhile

    def _seal_locked(self) -> str:
        """Give the log its number. ``link`` never replaces a file, so no segment is ever lost."""
        segment = next_segment(os.path.dirname(self.path))
        os.link(self.path, segment)
        try:
            os.unlink(self.path)
        except OSError:
            os.unlink(segment)  # or each further append would add a name
            raise
        self._close_descriptor()  # which also unlocks it
        return segment

    def _after_fork_in_child(self) -> None:
        # The descriptor shares the parent's lock: close it, and never unlock through it. What waits is
        # the parent's to write. Another thread may have held the mutex: take a new one.
        self._mutex = threading.Lock()
        self._holder = None
        self._close_descriptor()
        self._lines.clear()
        self._said = 0


def _size(descriptor: int) -> int:
    try:
        return os.fstat(descriptor).st_size
    except OSError as error:
        if not is_the_systems(error):
            raise
        return -1


def _byte_at(descriptor: int, offset: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(descriptor, 1, offset)
    os.lseek(descriptor, offset, os.SEEK_SET)  # O_APPEND writes at the end wherever this points
    return os.read(descriptor, 1)


def _after_fork_in_child() -> None:
    for writer in _writers:
        writer._after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
