"""``memtally hook HOST``: one payload from stdin into the log, silently, whatever happens."""

from __future__ import annotations

import sys

__all__ = ["run_hook"]


def run_hook(host: str) -> int:
    """Record the payload on stdin; always 0, for a host takes other codes for a verdict on its tool call."""
    try:
        if sys.stdin is None or sys.stdin.isatty():
            said: str | None = f"memtally hook {host}: reads one payload of the host from stdin"
        else:
            from memtally.hosts.hooking import record_payload  # noqa: PLC0415 - a failing import is no exit code

            said = record_payload(host, sys.stdin.buffer.read())
        if said is not None:
            print(said, file=sys.stderr)
    except BaseException:  # also an interrupt: the host is not to be told of it
        pass
    return 0
