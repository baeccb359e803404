"""Any mutation of a valid log costs at most the events whose bytes it touched, and both ways of decoding agree."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conftest import SHARED, SOAK
from memtally.events import UsageEvent, encode_event
from memtally.ledger import decode as decode_module
from memtally.ledger.decode import decode_line
from memtally.ledger.reader import ReadCounts, iter_lines, read_events
from test_events import usage_events
from test_reader import line

EXAMPLES = 200 * SOAK

Byte = tuple[int, int | None]
"""A byte, and the number of the event it came from; ``None`` for a newline and for what was put in."""


@st.composite
def mutated_logs(draw: st.DrawFn) -> tuple[list[UsageEvent], bytes, set[int]]:
    """Some events, a log of them after flips, cuts and splices, and which of them are untouched."""
    events = draw(st.lists(usage_events, min_size=2, max_size=6, unique_by=lambda event: event.id))
    lines = [encode_event(event) for event in events]
    log: list[Byte] = [(b, n if b != 10 else None) for n, text in enumerate(lines) for b in text]
    for _ in range(draw(st.integers(1, 4))):
        if not log:
            break
        kind = draw(st.sampled_from(["flip", "cut", "splice", "overwrite", "swap"]))
        start = draw(st.integers(0, len(log) - 1))
        stop = min(len(log), start + draw(st.integers(1, 300)))
        if kind == "flip":
            log[start] = (log[start][0] ^ 1 << draw(st.integers(0, 7)), None)
        elif kind == "cut":
            del log[start:stop]
        elif kind == "overwrite":
            log[start:stop] = [(draw(st.sampled_from([0, 10, 34, 255])), None)] * (stop - start)
        elif kind == "splice":
            place = draw(st.integers(0, len(log)))
            log[place:place] = [(byte, None) for byte, _ in log[start:stop]]
        else:
            place = draw(st.integers(0, len(log) - 1))
            piece = [(byte, None) for byte, _ in log[start:stop]]
            del log[start:stop]
            log[place:place] = piece
    untouched = {
        number for number, text in enumerate(lines) if _stands_whole(log, number, text.removesuffix(b"\n"))
    }
    return events, bytes(byte for byte, _ in log), untouched


def _stands_whole(log: list[Byte], number: int, text: bytes) -> bool:
    """Whether all bytes of an event are there, one behind the other."""
    places = [place for place, (_, owner) in enumerate(log) if owner == number]
    if len(places) != len(text) or places[-1] - places[0] + 1 != len(text):
        return False
    return bytes(log[place][0] for place in places) == text


def read(data: bytes) -> tuple[list[UsageEvent], ReadCounts]:
    """The events in some bytes, and what reading counted."""
    counts = ReadCounts()
    return list(read_events((text for _, text in iter_lines(io.BytesIO(data))), counts)), counts


@settings(max_examples=EXAMPLES, deadline=None)
@given(mutated_logs())
def test_a_mutation_costs_at_most_the_events_it_touched(
    case: tuple[list[UsageEvent], bytes, set[int]],
) -> None:
    """Every untouched event is found with its content; damage is counted wherever something was lost."""
    events, data, untouched = case
    found, counts = read(data)
    for number in untouched:
        assert events[number] in found
    lost = [event for event in events if event not in found]
    changed = [event for event in found if event not in events]
    assert len(found) - counts.recovered_events <= data.count(b"\n") + 1
    # an event that is gone was cut out whole, or leaves a damaged line or an altered event behind
    if lost and not changed and not counts.damaged_lines:
        assert all(event.id.encode() not in data for event in lost)


def tolerant(text: bytes) -> tuple[list[UsageEvent], bool]:
    """The same line by the tolerant way alone."""

    class Refuses:
        def decode(self, _: bytes) -> Any:
            raise ValueError("not by this way")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode_module, "_decoder", Refuses())
        return decode_line(text)


def odd_lines() -> Iterator[bytes]:
    """Lines that two decoders might see differently."""
    for name in (
        "file_bytes",
        "input_tokens",
        "kind",
        "slug",
        "partial",
        "session_id",
        "occurred_at",
        "id",
        "records",
    ):
        for value in (
            *(None, True, False, 0, 1, -1, 1.0, 1.5, 1e3, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1),
            *("", "x", "1", [], {}, [1], [[]], [None], "\x7f", "\ud800", "\U0001f600", "\u0000"),
        ):
            record: dict[str, object] = {"kind": "k", "slug": "s"}
            fields: dict[str, object] = {"id": "i", "event": "use", "records": [record]}
            (record if name in ("file_bytes", "kind", "slug", "partial") else fields)[name] = value
            yield json.dumps(fields).encode()
    for text in (
        '{"id":"a","id":"b","event":"use"}',
        '{"id":"a","event":"use","event":"resident_exposure"}',
        '{"id":"a","event":"use","records":[{"kind":"k","slug":"s","slug":"t"}]}',
        '{"id":"a","event":"use"} ',
        ' {"id":"a","event":"use"}\t\r',
        '{"id":"a","event":"use",}',
        '{"id":"a\tb","event":"use"}',
        '{"id":"a","event":"use","x":1e400}',
        '{"id":"a","event":"use","x":-0}',
        '{"id":"a","event":"use","file_bytes":01}',
        '{"id":"a","event":"use","x":"\\u00e9\\/\\b"}',
        '{"id":"a","event":"use","x":"\\x41"}',
        '{"id":"a","event":"use","\\u0069d":"b"}',
        '{"id":"a","event":"use","input_tokens":1.0}',
        '{"id":"a","event":"use","input_tokens":1e2}',
        '{"id":"a","event":"use","input_tokens":-0}',
        '{"id":"a","event":"use","x":' + "9" * 400 + "}",
        '{"id":"a","event":"use","x":' + "9" * 5_000 + "}",
        '{"id":"a","event":"use","x":' + "[" * 900 + "]" * 900 + "}",
        '{"id":"a","event":"use","x":' + "[" * 2_000 + "]" * 2_000 + "}",
        '{"id":"a","event":"use","x":NaN}',
        '{"id":"a","event":"use","x":Infinity}',
        '\ufeff{"id":"a","event":"use"}',
        '{"id":"a","event":"use"}\u00a0',
    ):
        yield text.encode("utf-8", "surrogatepass")


ODD_LINES = list(odd_lines())


@pytest.mark.parametrize("text", ODD_LINES, ids=range(len(ODD_LINES)))
def test_odd_lines_are_read_alike_by_both_ways(text: bytes) -> None:
    """A line that is odd but whole means the same whichever decoder takes it."""
    assert decode_line(text) == tolerant(text)


@settings(max_examples=EXAMPLES, deadline=None)
@given(mutated_logs())
@example(([], line(1) + b"\n", set()))
def test_both_ways_read_any_line_alike(case: tuple[list[UsageEvent], bytes, set[int]]) -> None:
    """The fast and the tolerant way give the same events and the same verdict, on the same damaged logs."""
    for text in case[1].split(b"\n"):
        assert decode_line(text) == tolerant(text)


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data is not beside this checkout")
def test_both_ways_read_the_conformance_files_alike() -> None:
    """Every file of JSONTestSuite, as a line, as a field of an event, and as one that is passed over."""
    files = sorted((SHARED / "conformance" / "JSONTestSuite" / "test_parsing").iterdir())
    assert len(files) > 300
    for file in files:
        for text in file.read_bytes().split(b"\n"):
            for whole in (
                text,
                b'{"id":"a","event":"use","x":' + text + b"}",
                b'{"id":"a","event":"use","source":' + text + b"}",
                b'{"id":"a","event":"use","records":' + text + b"}",
            ):
                assert decode_line(whole) == tolerant(whole), file.name


@given(st.lists(usage_events.map(encode_event) | st.binary(max_size=80), max_size=8), st.integers(1, 64))
def test_the_blocks_of_reading_do_not_show(pieces: list[bytes], block: int) -> None:
    """Offsets and lines are those of the bytes, whatever size the blocks have."""
    data = b"".join(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memtally.ledger.reader._BLOCK", block)
        lines = list(iter_lines(io.BytesIO(data)))
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert [text for _, text in lines] == expected
    assert [data[offset : offset + len(text)] for offset, text in lines] == expected
