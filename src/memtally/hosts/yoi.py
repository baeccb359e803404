"""yoi's own usage log, the form that memtally's began with: its events, as they are."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from memtally.errors import MemtallyError
from memtally.hosts._imported import Imported, ReadingCounts, Resolve
from memtally.ledger.decode import decode_line

__all__ = ["occurrences", "yoi_logs"]

_FOLDERS = (".insomnia", ".yoi")


def yoi_logs(root: str, paths: Iterable[str]) -> list[str]:
    """The logs that are named, or those of a workspace. Raises ``MemtallyError`` for what is not there."""
    named = list(paths)
    folders = named or [os.path.join(root, folder, "memory", "_usage") for folder in _FOLDERS]
    found: list[str] = []
    for path in folders:
        if os.path.isdir(path):
            names = sorted(os.listdir(path))
            found += [os.path.join(path, name) for name in names if name.endswith(".jsonl")]
        elif os.path.isfile(path):
            found.append(path)
        elif named:
            raise MemtallyError(f"{path}: no such file; name a usage log, or its folder")
    return found


def occurrences(lines: Iterable[bytes], resolve: Resolve, counts: ReadingCounts) -> Iterator[Imported]:
    """The events of one log; whole ones of a damaged line, too."""
    for line in lines:
        counts.lines += 1
        events, damaged = decode_line(line)
        counts.unknown += damaged
        for event in events:
            yield Imported(event, common=True)
