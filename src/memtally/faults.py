"""Faults of recording: said once for each kind, counted, and kept for ``memtally status``.

A fault never raises and never blocks. Its first occurrence writes one warning to the ``memtally``
logger and one line to ``.memtally/health.jsonl``; later ones are added up and written when their number
reaches a power of ten and when the process ends. What a killed process had only counted is lost;
that the fault occurred is not. Messages carry no content of any record.
"""

from __future__ import annotations

import atexit
import os
import threading
import time

__all__ = ["HEALTH_FILE", "bind", "counts", "flush", "note", "read_health", "reset"]

HEALTH_FILE = "health.jsonl"
_MAX_BYTES = 1_048_576

_lock = threading.Lock()
_directory: str | None = None
_counts: dict[str, int] = {}
_written: dict[str, int] = {}
_messages: dict[str, str] = {}


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
    if before == 0 or len(str(now)) > len(str(before)):
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


def flush() -> None:
    """Append what has been counted since the last time to the workspace's health file."""
    directory = _directory
    if directory is None:
        return
    import json  # noqa: PLC0415 - only once something is wrong

    lines = []
    held = _lock.acquire(timeout=0.2)  # two threads must not both write what one has counted
    try:
        for kind, total in list(_counts.items()):
            new = total - _written.get(kind, 0)
            if new > 0:
                _written[kind] = total
                entry = {
                    "at": time.time(),
                    "pid": os.getpid(),
                    "fault": kind,
                    "count": new,
                    "message": _messages[kind],
                }
                lines.append(json.dumps(entry) + "\n")
    finally:
        if held:
            _lock.release()
    if not lines:
        return
    try:
        flags = (
            os.O_WRONLY
            | os.O_APPEND
            | os.O_CREAT
            | getattr(os, "O_NOFOLLOW", 0)
            | getattr(os, "O_NONBLOCK", 0)
        )
        descriptor = os.open(os.path.join(directory, HEALTH_FILE), flags, 0o600)
        try:
            if os.fstat(descriptor).st_size < _MAX_BYTES:
                os.write(descriptor, "".join(lines).encode())
        finally:
            os.close(descriptor)
    except OSError:
        pass  # the folder that cannot be written is, as a rule, the very fault


def read_health(directory: str) -> dict[str, dict[str, object]]:
    """The faults kept in a ``.memtally`` folder: for each kind its count, last time and message."""
    import json  # noqa: PLC0415

    found: dict[str, dict[str, object]] = {}
    try:
        with open(os.path.join(directory, HEALTH_FILE), "rb") as stream:
            lines = stream.read(2 * _MAX_BYTES).split(b"\n")
    except OSError:
        return found
    for line in lines:
        try:
            entry = json.loads(line)
            kind, count, at = str(entry["fault"]), int(entry["count"]), float(entry["at"])
            message = str(entry["message"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue
        kept = found.setdefault(kind, {"count": 0, "last": 0.0, "message": message})
        kept["count"] = int(str(kept["count"])) + count
        kept["last"] = max(float(str(kept["last"])), at)
    return found


def reset() -> None:
    """Forget what this process has counted (for tests, and in a forked child)."""
    global _lock
    _lock = threading.Lock()
    _counts.clear()
    _written.clear()
    _messages.clear()


atexit.register(flush)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=reset)
