"""What ``memtally status`` finds out about recording that fails in silence."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from memtally._presets import project_folder
from memtally.hosts.hooking import config_folder_of
from memtally.ledger.decode import decode_line
from memtally.ledger.tailing import last_lines
from memtally.report._text import counted, one_line
from memtally.report.build import moment
from memtally.report.silence import silences
from memtally.report.tally import is_counted
from memtally.workspace import Workspace

__all__ = ["host_ran_since", "stopped_sources"]

_EVENTS = 50_000
"""Events at the end of the log that are looked at: habits change, and status must not take long."""


def stopped_sources(place: Workspace) -> dict[str, str]:
    """The sources that recorded until some day, and no more while others went on."""
    lines: list[bytes] = []
    for path in reversed(place.logs()):
        if os.path.basename(path).startswith("usage-import-"):
            continue  # found in old transcripts: nothing of it was recorded as it happened
        if len(lines) >= _EVENTS:
            break
        try:
            lines[:0] = last_lines(path, _EVENTS - len(lines))
        except (OSError, ValueError):
            continue  # what cannot be read is told elsewhere
    seen = set()
    ahead = datetime.now(UTC) + timedelta(days=1)
    for line in lines:
        for event in decode_line(line)[0]:
            at = moment(event.occurred_at)
            # a clock that runs ahead has no say in any date; maintenance has ways of its own
            if at is not None and at < ahead and is_counted(event) and event.actor != "maintenance":
                seen.add((f"{at.year:04d}-{at:%m-%d}", event.source))
    return {
        f"{one_line(one.source)} silent": (
            f"recorded on {one.seen} of {counted(one.span, 'active day')} until {one.last}, "
            f"on none of the {one.silent} since; does its read path still record?"
        )
        for one in silences(seen)
    }


def host_ran_since(place: Workspace, host: str, moment_of_install: float) -> bool:
    """Whether a host has kept a transcript of a session in this workspace since its hooks were installed."""
    if host != "claude-code":
        return False  # the others' histories do not lie in folders by workspace
    folder = os.path.join(
        config_folder_of(host, os.path.expanduser("~")), "projects", project_folder(str(place.root))
    )
    try:
        with os.scandir(folder) as entries:
            return any(
                entry.name.endswith(".jsonl") and entry.stat().st_mtime > moment_of_install
                for entry in entries
            )
    except OSError:
        return False
