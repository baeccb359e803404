"""Have what a hook could only estimate counted exactly, in a process of its own that nobody waits for."""

from __future__ import annotations

import os
import sys
import time

from memtally._counts import want

__all__ = ["MARKER", "count_in_background", "counting_lock_path"]

MARKER = "tokens-none"
"""A file in the cache folder that says that no vocabulary was found, and when."""

_RETRY_SECONDS = 86_400.0


def counting_lock_path(directory: str) -> str:
    """What the counting process locks, so that there is one at a time."""
    return os.path.join(directory, "cache", "tokens-lock")


def count_in_background(directory: str, paths: list[str]) -> None:
    """Leave the files' names and start the counting, unless it goes on already or has no vocabulary.

    Never raises ``OSError``: where this fails, figures stay estimates by formula, and say so.
    """
    try:
        if _has_no_vocabulary(directory):
            return
        want(directory, paths)
        if _is_counting(directory):
            return
        quiet = os.open(os.devnull, os.O_RDWR)
        try:
            os.posix_spawn(
                sys.executable,
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "memtally",
                    "tokens",
                    "count",
                    "--wanted",
                    "--workspace",
                    os.path.dirname(directory),
                ],
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, quiet, number) for number in (0, 1, 2)],
                setsid=True,  # a host that ends its hook's group must not end this
            )
        finally:
            os.close(quiet)
    except (OSError, AttributeError, NotImplementedError):  # AttributeError: not on this system
        pass


def _has_no_vocabulary(directory: str) -> bool:
    try:
        noticed = os.stat(os.path.join(directory, "cache", MARKER)).st_mtime
    except OSError:
        return False
    return 0 <= time.time() - noticed < _RETRY_SECONDS


def _is_counting(directory: str) -> bool:
    from memtally.ledger.locking import lock, unlock  # noqa: PLC0415 - loaded with the writer

    try:
        descriptor = os.open(
            counting_lock_path(directory), os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600
        )
    except OSError:
        return True  # where no lock can be had, none is counted
    try:
        held = lock(descriptor, 0.0)
        if held:
            unlock(descriptor)
        return not held
    finally:
        os.close(descriptor)
