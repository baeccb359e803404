"""msgspec's typed decoder, many lines at a time: python msgspec_count.py FILE."""

import json
import sys
from collections import Counter

import msgspec

BLOCK = 4 * 1_048_576


class Record(msgspec.Struct):
    """One record of an event."""

    kind: str
    slug: str
    file_bytes: int | None = None
    file_tokens_estimate: int | None = None
    injected_bytes: int | None = None
    injected_tokens_estimate: int | None = None


class Event(msgspec.Struct):
    """One line of a log."""

    id: str
    occurred_at: str
    session_id: str | None
    event: str
    source: str
    records: list[Record]
    actor: str = "agent"
    tokenizer: str | None = None


decode = msgspec.json.Decoder(Event).decode_lines
events = 0
uses: Counter[tuple[str, str]] = Counter()
with open(sys.argv[1], "rb") as stream:
    while block := stream.read(BLOCK):
        for event in decode(block + stream.readline()):
            events += 1
            if event.event == "use":
                uses.update([(record.kind, record.slug) for record in event.records])
print(json.dumps({"events": events, "uses": uses.total()}))
