"""Usage logs to measure on, the same ones for the same seed.

``typical``: 300 records whose sizes change now and then, 90 % single uses, 10 % exposures of 12 records;
some 394 bytes an event. ``worst``: every event has sizes of its own, so that no two lines end alike. Ids
are version 7 in order; sessions of some forty events, of which a few run side by side.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from memtally.events import EXPOSURE, USE, RecordSnapshot, UsageEvent, encode_event, format_time

__all__ = ["SHAPES", "generate", "lines"]

SHAPES = ("typical", "worst")
RECORDS = 300
RESIDENT = 12
START = 1_767_225_600_000_000  # 2026-01-01
STEP = 10_000_000
"""Microseconds between two events, on average."""
_CHANGES = 1 / 10_000
"""Probability that an event is preceded by an edit of its first record."""
_KINDS = ("decision", "request", "knowledge", "workflow", "skill", "rule")
_SOURCES = ("MemoryRead", "MemoryRead", "KnowledgeRef", "WorkflowInvoke", "SkillInvoke")
_WORDS = (
    "adopt",
    "keep",
    "drop",
    "retry",
    "batch",
    "trace",
    "index",
    "cache",
    "route",
    "merge",
    "parse",
    "store",
    "agent",
    "token",
    "limit",
    "schema",
)


class _Record:
    def __init__(self, number: int, randomly: random.Random) -> None:
        self.kind = _KINDS[number % len(_KINDS)]
        self.slug = f"{randomly.choice(_WORDS)}-{randomly.choice(_WORDS)}-{number}"
        self.grow(randomly)

    def grow(self, randomly: random.Random) -> None:
        self.file_bytes = randomly.randrange(400, 9_000)
        self.tail_made: dict[str, str] = {}

    def snapshot(self) -> RecordSnapshot:
        return RecordSnapshot(self.kind, self.slug, self.file_bytes, self.file_bytes // 4)


def lines(shape: str, events: int, seed: int = 1) -> Iterator[str]:
    """The lines of a log, each with its ``\\n``."""
    randomly = random.Random(seed)
    records = [_Record(number, randomly) for number in range(RECORDS)]
    resident = records[:RESIDENT]
    exposure = ""
    sessions = [_uuid(randomly, 4) for _ in range(5)]
    stamp = START
    for _ in range(events):
        stamp += randomly.randrange(1, 2 * STEP)
        which = randomly.randrange(len(sessions))
        if randomly.random() < 1 / 40:
            sessions[which] = _uuid(randomly, 4)
        if randomly.random() < 0.1:
            changed = shape == "worst"
            if changed:
                for record in resident:
                    record.grow(randomly)
            if changed or not exposure:
                exposure = _tail(EXPOSURE, "ResidentInjection", resident)
            tail = exposure
        else:
            # some records are read far more often than others
            record = records[int(RECORDS * randomly.random() ** 2)]
            if shape == "worst" or randomly.random() < _CHANGES:
                record.grow(randomly)
                exposure = ""
            source = randomly.choice(_SOURCES)
            tail = record.tail_made.get(source) or record.tail_made.setdefault(
                source, _tail(USE, source, [record])
            )
        yield (
            f'{{"id":"{_uuid7(stamp, randomly)}","occurred_at":"{format_time(stamp)}",'
            f'"session_id":"{sessions[which]}"{tail}'
        )


def _tail(event: str, source: str, records: list[_Record]) -> str:
    made = UsageEvent("", 0, event, source, tuple(r.snapshot() for r in records), tokenizer="o200k_base")
    line = encode_event(made).decode()
    return line[line.index(',"event":') :]


def _uuid7(stamp: int, randomly: random.Random) -> str:
    milliseconds, rest = divmod(stamp, 1000)
    text = f"{milliseconds:012x}7{rest * 4096 // 1000:03x}{0x8000 | randomly.getrandbits(14):04x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{randomly.getrandbits(48):012x}"


def _uuid(randomly: random.Random, version: int) -> str:
    text = f"{randomly.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-{version}{text[13:16]}-a{text[17:20]}-{text[20:]}"


def generate(path: Path, shape: str, events: int, seed: int = 1) -> Path:
    """Write such a log, unless it is there already; whole or not at all."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        with part.open("w", encoding="utf-8", newline="\n", buffering=1_048_576) as stream:
            stream.writelines(lines(shape, events, seed))
        os.replace(part, path)
    return path


if __name__ == "__main__":
    shape, events, path = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    print(f"{generate(path, shape, events)}: {path.stat().st_size:,} bytes", file=sys.stderr)
