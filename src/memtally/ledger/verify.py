"""What is wrong in a log, and where: every line that a report does not count as it stands.

The rules are the report's, so that the two agree: a damaged line here is one of its ``damaged_lines``, a
duplicate one of its ``duplicate_events``, a conflict one of its ``conflicting_events``. Nothing of a record's
content is in what is said. An event of an unknown kind is a newer writer's, and not wrong.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from memtally.events import EXPOSURE, USE, UsageEvent, is_search_source
from memtally.ledger.decode import decode_line, what_is_wrong
from memtally.ledger.layout import is_segment, within
from memtally.ledger.reader import MAX_LINE, OpenLogs
from memtally.ledger.seen import SeenEvents

__all__ = ["PROBLEMS", "Finding", "Problem", "Verification", "folder_findings"]

Problem = Literal["damaged", "duplicate", "conflict", "search", "undated", "future", "ignored", "two-names"]
PROBLEMS: dict[Problem, str] = {
    "damaged": "no whole event, or something beside it",
    "duplicate": "an event that was met before; it counts once",
    "conflict": "an event with the id of another; the earlier of the two counts",
    "search": "a search recorded as a use; not counted",
    "undated": "a use at no time; counted, without a say in any date",
    "future": "a time more than a day from now; counted, without a say in any date",
    "ignored": "a file that a link leads out of the workspace; not read",
    "two-names": "one file under two names, left by a seal that was interrupted; read once",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    ``offset`` (bytes from 0), ``line`` (from 1) and ``length`` (bytes, at most ``MAX_LINE``) say where in the
    ``file``; ``None`` when it is about the whole file. ``recovered``: whole events found in a damaged line.
    """

    file: str
    problem: Problem
    detail: str
    offset: int | None = None
    line: int | None = None
    length: int | None = None
    recovered: int = 0


@dataclass(slots=True)
class Verification:
    """One pass over open logs; ``lines`` and ``events`` are what it has met so far.

    ``latest``: microseconds since the epoch after which a time is called future.
    """

    logs: OpenLogs
    latest: int
    lines: int = 0
    events: int = 0
    _seen: SeenEvents = field(default_factory=SeenEvents)

    def findings(self) -> Iterator[Finding]:
        """What is wrong, file by file, line by line. Raises ``LogReadError`` where the disk fails."""
        for number, (path, _) in enumerate(self.logs.files):
            for index, (offset, line) in enumerate(self.logs.lines(number), 1):
                self.lines += 1
                events, damaged = decode_line(line)
                self.events += len(events)
                if damaged:
                    detail = what_is_wrong(line) if len(line) < MAX_LINE else f"{MAX_LINE} bytes or more"
                    yield Finding(path, "damaged", detail, offset, index, len(line), len(events))
                for event in events:
                    for problem in self._problems(event):
                        yield Finding(path, problem, f"id {event.id}", offset, index, len(line))

    def _problems(self, event: UsageEvent) -> Iterator[Problem]:
        met = self._seen.meet(event)
        if met != "new":
            yield met
        elif event.event not in (USE, EXPOSURE):
            return
        elif event.event == USE and is_search_source(event.source):
            yield "search"
        elif event.occurred_at is None:
            yield "undated"
        elif event.occurred_at > self.latest:
            yield "future"


def folder_findings(directory: str) -> Iterator[Finding]:
    """What is wrong with the files of a ``.memtally`` folder as a whole."""
    try:
        names = sorted(filter(is_segment, os.listdir(directory)))
    except OSError:
        return
    workspace = os.path.dirname(os.path.abspath(directory))
    first_names: dict[tuple[int, int], str] = {}
    for name in names:
        path = os.path.join(directory, name)
        if not within(path, workspace):
            yield Finding(path, "ignored", "a link leads it out of the workspace")
            continue
        try:
            status = os.stat(path)
        except OSError:
            continue  # sealed meanwhile; what is there and unreadable, opening has said
        first = first_names.setdefault((status.st_dev, status.st_ino), name)
        if first != name:
            yield Finding(path, "two-names", f"the same file as {first}")
