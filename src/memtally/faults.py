"""Faults of recording: said once for each kind, counted, and kept for ``memtally status``.

A fault never raises and never blocks. Its first occurrence writes one warning to the ``memtally``
logger and one line to ``.memtally/health.jsonl``; later ones are added up and written when their number
reaches a power of ten and when the process ends. What a killed process had only counted is lost;
that the fault occurred is not. What cannot be written is tried again with the next fault and at the end.
Messages carry no content of any record.

Beside the faults stands how many events wait in the memory of which process.
"""

from __future__ import annotations

import atexit
import os
import threading

__all__ = ["add_waiting", "bind", "counts", "flush", "note", "reset"]

_lock = threading.Lock()
_directory: str | None = None
_counts: dict[str, int] = {}
_written: dict[str, int] = {}
_messages: dict[str, str] = {}
_waiting = 0
_waiting_written = 0


def bind(directory: str | None, *, replace: bool = True) -> None:
    """Name the ``.memtally`` folder that keeps this process's faults; ``replace=False`` if none is named."""
    global _directory
    if replace or _directory is None:
        _directory = directory


def note(kind: str, message: str, error: BaseException | None = None, *, count: int = 1) -> None:
    """Count a fault; say it in the log when it is the first of its kind in this process."""
    try:
        _note(kind, message, error, count)
    except Exception:  # a fault in reporting a fault: there is nowhere left to say it
        pass


def _note(kind: str, message: str, error: BaseException | None, count: int) -> None:
    if not message.isprintable():  # the name of a folder may hold anything
        message = message.encode("unicode_escape").decode()
    # a fork may happen while another thread holds the lock: never wait for long
    held = _lock.acquire(timeout=0.2)
    try:
        before = _counts.get(kind, 0)
        now = _counts[kind] = before + count
        _messages.setdefault(kind, message)
    finally:
        if held:
            _lock.release()
    if before == 0:
        import logging  # noqa: PLC0415 - only once something is wrong; a hook starts without it

        logging.getLogger("memtally").warning("memtally: %s", message)
        if error is not None:
            # types and lines only: the message of somebody else's exception may hold content
            logging.getLogger("memtally").debug("memtally: %s came from %s", kind, _origin(error))
    if before == 0 or len(str(now)) > len(str(before)) or kind not in _written:
        flush()


def _origin(error: BaseException) -> str:
    trace, last = error.__traceback__, ""
    while trace is not None:
        last = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__} at {last}"


def counts() -> dict[str, int]:
    """How often each kind of fault occurred in this process."""
    return dict(_counts)


def add_waiting(change: int) -> None:
    """Tell how many more (or fewer) events wait in this process's memory than was told before."""
    global _waiting
    held = _lock.acquire(timeout=0.2)
    try:
        _waiting += change
    finally:
        if held:
            _lock.release()
    flush()


def flush() -> None:
    """Append what is new since the last time to the workspace's health file, if that can be written."""
    global _waiting_written
    directory = _directory
    if directory is None or (_counts == _written and _waiting == _waiting_written):
        return
    from memtally import health  # noqa: PLC0415 - only once something is wrong; a hook starts without it

    held = _lock.acquire(timeout=0.2)  # two threads must not both write what one has counted
    try:
        totals, waiting = dict(_counts), _waiting
        new = {kind: total - _written.get(kind, 0) for kind, total in totals.items()}
        entries = [
            health.entry(fault=kind, count=n, message=_messages[kind]) for kind, n in new.items() if n > 0
        ]
        if waiting != _waiting_written:
            entries.append(health.entry(waiting=waiting))
        if entries and health.append(directory, entries):
            _written.update(totals)
            _waiting_written = waiting
    except OSError:
        pass  # the folder that cannot be written is, as a rule, the very fault
    finally:
        if held:
            _lock.release()


def reset() -> None:
    """Forget what this process has counted (for tests, and in a forked child)."""
    global _lock, _waiting, _waiting_written
    _lock = threading.Lock()
    _waiting = _waiting_written = 0
    _counts.clear()
    _written.clear()
    _messages.clear()


atexit.register(flush)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=reset)
