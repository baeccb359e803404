"""What must hold of any bytes in a log. Used by the fuzzer and, on the corpus, by the tests."""

from __future__ import annotations

import io
from typing import Any
from unittest import mock

from memtally.events import USE, RecordSnapshot, UsageEvent, encode_event
from memtally.ledger import decode
from memtally.ledger.bulk import ID_AT
from memtally.ledger.decode import decode_line, what_is_wrong
from memtally.ledger.reader import ReadCounts, iter_lines, read_events
from memtally.ledger.seen import SeenEvents
from memtally.report.counting import PieceCounter
from memtally.report.each import add_each
from memtally.report.tally import Tally

__all__ = ["check"]

NEIGHBOURS = [
    UsageEvent(
        f"00000000-0000-7000-8000-00000000000{n}", 1, USE, "MemoryRead", (RecordSnapshot("k", "s", n, n),)
    )
    for n in (1, 2)
]


class _Refuses:
    def decode(self, _: bytes) -> Any:
        raise ValueError("the tolerant way is to be taken")


def check(data: bytes) -> None:
    """Raise ``AssertionError`` where one of the reader's promises does not hold for these bytes."""
    before, behind = map(encode_event, NEIGHBOURS)
    whole = before + data + b"\n" + behind
    counts = ReadCounts()
    events = list(read_events((line for _, line in iter_lines(io.BytesIO(whole))), counts))
    assert events[0] == NEIGHBOURS[0], "what stands before costs nothing"
    assert events[-1] == NEIGHBOURS[1], "what stands behind costs nothing"
    damaged = recovered = 0
    for line in data.split(b"\n"):
        found, is_damaged = decode_line(line)
        with mock.patch.object(decode, "_decoder", _Refuses()):
            assert decode_line(line) == (found, is_damaged), "both ways of decoding agree"
        if is_damaged:
            damaged, recovered = damaged + 1, recovered + len(found)
            assert what_is_wrong(line).isprintable(), "what is said of a line is one line of text"
        for event in found:
            again, is_damaged = decode_line(encode_event(event).removesuffix(b"\n"))
            assert (again, is_damaged) == ([event], False), "an event survives its own line"
    assert (counts.damaged_lines, counts.recovered_events) == (damaged, recovered), "damage is counted once"
    _check_figures(events)
    _check_bulk(whole, events, counts)


def _check_figures(events: list[UsageEvent]) -> None:
    forwards = add_each(lambda: events, Tally)
    backwards = add_each(lambda: events[::-1], Tally)
    twice = add_each(lambda: events * 2, Tally)
    for other in (backwards, twice):
        assert other.cells == forwards.cells, "figures depend neither on order nor on repetition"
        assert other.counted == forwards.counted
        assert other.conflicts == forwards.conflicts
    assert twice.duplicates == forwards.duplicates + len(events)
    seen = SeenEvents()
    met = [seen.meet(event) for event in events]
    assert met.count("duplicate") == forwards.duplicates
    assert met.count("conflict") == forwards.conflicts


def _check_bulk(whole: bytes, events: list[UsageEvent], counts: ReadCounts) -> None:
    plain, counter = Tally(), PieceCounter(Tally())
    for event in events:
        plain.add(event)
    counted = counter.add(whole)
    counter.finish()
    assert counter.tally == plain, "many lines at a time count like one by one"
    assert counter.counts == counts
    ids = [*(event_id[ID_AT].decode() for event_id in counted.ids), *counted.others]
    assert sorted(ids) == sorted(event.id for event in events)
