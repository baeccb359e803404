"""Logs for tests of counting: canonical lines, odd ones, damaged ones, in as many forms as there are."""

from __future__ import annotations

import json
import random

from memtally.events import EXPOSURE, USE, RecordSnapshot, UsageEvent, encode_event, format_time

__all__ = ["NOW", "random_log"]

NOW = 1_770_000_000_000_000
"""Microseconds since the epoch; what lies more than a day behind it is in the future."""

_SLUGS = ("a", "b", "c-1", "c-2", "é", "e\u0301", "~/own", 'q"uote')
_SOURCES = ("MemoryRead", "MemoryRead", "KnowledgeRef", "MemoryQuery", "Weird_1", "ResidentInjection")
_TEXT_IDS = ("x", "toolu_01", "019B76DA-CDA7-76A3-BCC2-66E3F8B3E021", "é" * 20)


def random_log(
    randomly: random.Random,
    events: int,
    *,
    jitter: int = 0,
    odd: float = 0.1,
    start: int = NOW - 40_000_000_000,
) -> bytes:
    """A log of about so many events; ``jitter``: how far ids and times may be out of order, in seconds."""
    stamp = start
    steady = [_record(randomly) for _ in range(4)]
    lines: list[bytes] = []
    for _ in range(events):
        stamp += randomly.randrange(1, 3_000_000)
        at = stamp + randomly.randrange(-jitter * 1_000_000, 1) if jitter else stamp
        event = _event(randomly, at, steady)
        line = encode_event(event)
        if randomly.random() < odd:
            line = _odd(randomly, event, line, lines)
        lines.append(line)
    return b"".join(lines)


def _record(randomly: random.Random) -> RecordSnapshot:
    size = randomly.choice([None, 0, 7, 1_000, 123_456])
    return RecordSnapshot(
        randomly.choice(["decision", "knowledge"]),
        randomly.choice(_SLUGS),
        size,
        randomly.choice([None, 0, 250, 31_000]),
        randomly.choice([None, None, None, 40]),
        randomly.choice([None, None, None, 10]),
        randomly.choice([None, None, "abc"]),
        randomly.random() < 0.1,
    )


def _sized(randomly: random.Random, slug: str) -> RecordSnapshot:
    return RecordSnapshot("decision", slug, randomly.randrange(9_999), randomly.randrange(9_999))


def _event(randomly: random.Random, stamp: int, steady: list[RecordSnapshot]) -> UsageEvent:
    kind = randomly.choice([USE, USE, USE, EXPOSURE])
    form = randomly.random()
    if form < 0.4:
        records = (randomly.choice(steady),)
    elif form < 0.7:
        records = (_sized(randomly, randomly.choice("abc")),)
    elif form < 0.9:
        records = tuple(_sized(randomly, slug) for slug in "abc")
    else:
        records = tuple({r.key: r for r in (_record(randomly) for _ in range(3))}.values())
    at: int | None = stamp
    if randomly.random() < 0.02:
        at = randomly.choice([None, NOW + 90_000_000_000, NOW + 86_400_000_000, 0, -62_135_596_800_000_000])
    traced = randomly.random() < 0.1
    return UsageEvent(
        _id(randomly, stamp),
        at,
        kind if randomly.random() < 0.97 else "noticed",
        "MemoryRead" if form < 0.8 else randomly.choice(_SOURCES),
        records,
        session_id=randomly.choice(["s1", "s2", None, "9f0b0446-f31a-4b00-a982-5407c9419650", "s é", 'a"b']),
        trace_id=f"{randomly.getrandbits(128):032x}" if traced else None,
        span_id=f"{randomly.getrandbits(64):016x}" if traced else None,
        input_tokens=randomly.choice([None] * 9 + [0, 12]),
        actor=randomly.choice(["agent"] * 8 + ["maintenance", "user"]),
        host=randomly.choice([None] * 9 + ["codex"]),
        tokenizer="o200k_base" if form < 0.9 else randomly.choice([None, "bytes/4"]),
    )


def _id(randomly: random.Random, stamp: int) -> str:
    if randomly.random() < 0.02:
        return randomly.choice(_TEXT_IDS) + str(randomly.randrange(50))
    version = "7" if randomly.random() < 0.9 else "5"
    digits = f"{stamp // 1000:012x}" if version == "7" else f"{randomly.getrandbits(48):012x}"
    digits += f"{version}{randomly.getrandbits(12):03x}{0x8000 | randomly.getrandbits(14):04x}"
    digits += f"{randomly.getrandbits(48):012x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _odd(randomly: random.Random, event: UsageEvent, line: bytes, before: list[bytes]) -> bytes:
    """The line in another form, damaged, in company, or one of those before again."""
    fields = json.loads(line)
    kind = randomly.randrange(17)
    if kind == 0 and before:  # the same again
        return randomly.choice(before)
    if kind == 1 and before:  # one id, another content
        other = UsageEvent(json.loads(line)["id"], event.occurred_at, USE, "KnowledgeRef", event.records)
        return line + encode_event(other)
    if kind == 2:
        return line[: randomly.randrange(len(line))] + randomly.choice([b"", b"\n"])
    if kind == 3:
        place = randomly.randrange(len(line))
        return line[:place] + bytes([line[place] ^ 1 << randomly.randrange(8)]) + line[place + 1 :]
    if kind == 4:
        return line.rstrip(b"\n") + b"\r\n"
    if kind == 5:
        return line.rstrip(b"\n") + line
    if kind == 6:
        return b"\n \n\xef\xbb\xbf" + line
    if kind == 7:
        return b"\0" * 9 + line + b"<<<<<<< HEAD\n"
    if kind == 8:
        return json.dumps(fields | {"extra": [1, {"event": "use"}]}).encode() + b"\n"
    if kind == 9:
        fields["segment_id"] = fields.pop("session_id")
        return json.dumps(fields).encode() + b"\n"
    if kind == 10 and event.occurred_at is not None:
        text = format_time(event.occurred_at).removesuffix("Z")
        fields["occurred_at"] = text + randomly.choice(["+00:00", "+02:00", "123Z", ""])
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    if kind == 11:
        return line.replace(b'"id":"', b'"id":"\\u0030', 1).replace(b"Z", b"z", 1)
    if kind == 12:
        return line.replace(b"T", randomly.choice([b"T2", b"T9", b" "]), 1)
    if kind == 13:
        return json.dumps(fields | {"records": fields["records"] * 2}, separators=(",", ":")).encode() + b"\n"
    if kind == 14:
        return line.replace(
            b'"file_bytes":', randomly.choice([b'"file_bytes":0', b'"file_bytes": ', b'"file_bytes":-'])
        )
    if kind == 15:
        return line.replace(fields["id"].encode(), fields["id"].upper().encode())
    return line.replace(b"}]}", b'}],"source":"Late"}')
