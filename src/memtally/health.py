"""``.memtally/health.jsonl``: the faults of recording, and the events that wait, beyond a process's life.

One JSON line an entry: a fault with how often it occurred since the process's last line of it, or how many
events wait in a process's memory. A file that has grown large is added up to one line a fault. No content of
any record. Everything here may raise ``OSError``; nothing waits longer than the file's lock allows.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterable
from typing import Any

from memtally._files import open_regular
from memtally.ledger.layout import within
from memtally.ledger.locking import lock, unlock

__all__ = ["HEALTH_FILE", "append", "entry", "read_faults", "read_waiting"]

HEALTH_FILE = "health.jsonl"
_MAX_BYTES = 1_048_576
_LOCK_SECONDS = 0.2


def entry(**fields: object) -> dict[str, object]:
    """An entry of this process, now: ``fault``, ``count`` and ``message``, or ``waiting``."""
    pid = os.getpid()
    return {"at": time.time(), "pid": pid, "host": _host(), "started": _started(pid)} | fields


def _host() -> str:
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


def append(directory: str, entries: list[dict[str, object]]) -> bool:
    """Append entries under the file's lock; whether they are in it. The folder must be there already."""
    if not _is_inside(directory):
        return False
    path = os.path.join(directory, HEALTH_FILE)
    for _ in range(3):
        descriptor = _open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            try:
                locked = lock(descriptor, time.monotonic() + _LOCK_SECONDS)
            except OSError:
                locked = False  # a file system without locks
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return False
            if not os.path.samestat(status, os.stat(path, follow_symlinks=False)):
                continue  # added up by another process meanwhile
            if locked and status.st_size >= _MAX_BYTES:
                _add_up(path, descriptor)
            elif status.st_size < 2 * _MAX_BYTES:
                return _write(descriptor, _lines(entries), status.st_size if locked else None)
        finally:
            # closing alone would leave it to a child that was forked meanwhile
            unlock(descriptor)
            os.close(descriptor)
    return False


def _is_inside(directory: str) -> bool:
    return os.path.isdir(directory) and within(directory, os.path.dirname(os.path.abspath(directory)))


def _write(descriptor: int, data: bytes, size: int | None) -> bool:
    """Whether all was written; a part is taken back where the file's size before it is certain."""
    whole = os.write(descriptor, data) == len(data)
    if not whole and size is not None:
        os.ftruncate(descriptor, size)
    return whole


def _open(path: str, flags: int) -> int:
    # neither a link nor a pipe in the file's place may lead anywhere or hang
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o600)


def _add_up(path: str, descriptor: int) -> None:
    """Replace the file by one with one line a fault, and one for each process in which events wait."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    found = _entries(os.read(descriptor, 2 * _MAX_BYTES))
    kept = [{"fault": kind, **said} for kind, said in _by_fault(found).items()]
    kept += [entry for entry in _by_process(found).values() if entry["waiting"] > 0][-1_000:]
    temporary = f"{path}.{os.getpid()}"
    copy = _open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        whole = _write(copy, _lines(kept), None)
    except OSError:
        whole = False  # a full disk: the file grows on for a while
    finally:
        os.close(copy)
    if whole:
        os.replace(temporary, path)
    else:
        os.unlink(temporary)


def _lines(entries: Iterable[object]) -> bytes:
    # a newline first: what somebody's torn line has left there must not take this one with it
    return ("\n" + "".join(json.dumps(entry) + "\n" for entry in entries)).encode()


def _entries(data: bytes) -> list[dict[str, Any]]:
    """The well-formed entries among some lines, oldest first."""
    found: list[dict[str, Any]] = []
    for line in data.split(b"\n"):
        try:
            raw = json.loads(line)
            entry: dict[str, Any] = {"at": float(raw["at"])}
            if "waiting" in raw:
                entry |= {n: _count(raw[n]) for n in ("waiting", "pid")} | {"host": str(raw["host"])}
                entry["started"] = str(raw.get("started"))
            else:
                entry |= {n: str(raw[n]) for n in ("fault", "message")} | {"count": _count(raw["count"])}
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue
        found.append(entry)
    return found


def _count(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
        return value
    raise ValueError("no count")


def _by_fault(entries: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for entry in entries:
        if "fault" in entry:
            kept = found.setdefault(entry["fault"], {"count": 0, "at": 0.0, "message": entry["message"]})
            kept["count"] += entry["count"]
            kept["at"] = max(kept["at"], entry["at"])
    return found


def _by_process(entries: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    return {(entry["host"], entry["pid"]): entry for entry in entries if "waiting" in entry}


def _read(directory: str) -> list[dict[str, Any]]:
    path = os.path.join(directory, HEALTH_FILE)
    try:
        if not _is_inside(directory) or os.path.islink(path):
            return []
        with open(open_regular(path), "rb") as stream:
            return _entries(stream.read(3 * _MAX_BYTES))
    except OSError:
        return []


def read_faults(directory: str) -> dict[str, dict[str, Any]]:
    """The faults kept in a ``.memtally`` folder: each ``count``, ``at`` (the last) and ``message``."""
    return _by_fault(_read(directory))


def read_waiting(directory: str) -> list[dict[str, Any]]:
    """The processes in whose memory events wait: ``host``, ``pid``, ``at``, ``waiting`` (at least so many).

    ``alive`` says whether the process still runs; ``None`` where it is another machine's.
    """
    found = [entry for entry in _by_process(_read(directory)).values() if entry["waiting"] > 0]
    return [e | {"alive": _runs(e["pid"], e["started"]) if e["host"] == _host() else None} for e in found]


def _started(pid: int) -> str:
    """When a process was started, in a unit that tells it from a later one of its number; "" if unknown."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:  # Linux; the name in it may hold anything but this
            return stream.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


def _runs(pid: int, started: str) -> bool | None:
    if os.path.exists("/proc/self/stat"):
        return _started(pid) == started
    if os.name != "posix":  # pragma: no cover - on Windows signal 0 ends the process
        return None
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass  # somebody else's
    return True
