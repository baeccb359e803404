"""One advisory lock on an open file, with a bound on waiting. Standard library only."""

from __future__ import annotations

import sys
import time

from memtally.errors import is_the_systems

__all__ = ["lock", "unlock"]

_TRIES = 20
"""One behind the other they take some microseconds, as an append does; a pause takes forty times that."""
_FIRST_PAUSE = 0.0002
_LONGEST_PAUSE = 0.010

if sys.platform == "win32":  # pragma: no cover - written from the documentation, not tried
    import msvcrt
    import os

    def _try_lock(descriptor: int) -> bool:
        os.lseek(descriptor, 0x7FFF_FFFF, os.SEEK_SET)  # a byte far beyond the text: readers are not blocked
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def unlock(descriptor: int) -> None:
        """Release the lock; nothing where it was not held, or the file system has none."""
        try:
            os.lseek(descriptor, 0x7FFF_FFFF, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        except OSError:
            pass

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(descriptor: int) -> None:
        """Release the lock; nothing where it was not held, or the file system has none."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        except OSError as error:
            if not is_the_systems(error):
                raise


def lock(descriptor: int, deadline: float) -> bool:
    """Take the exclusive lock, before a time on the monotonic clock; whether it was taken.

    Raises ``OSError`` where the file system has no locks.
    """
    for _ in range(_TRIES):
        if _try_lock(descriptor):
            return True
    pause = _FIRST_PAUSE
    while time.monotonic() < deadline:
        time.sleep(pause)
        if _try_lock(descriptor):
            return True
        pause = min(pause * 1.5, _LONGEST_PAUSE)
    return False
