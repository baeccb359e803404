"""The logs that benchmarks are made on have the shape they are said to have."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter

import pytest

from conftest import ROOT
from memtally.ledger.decode import decode_line

sys.path.insert(0, str(ROOT))
from bench.generate import SHAPES
from bench.generate import lines as generated


@pytest.mark.parametrize("shape", SHAPES)
def test_generated_logs_are_canonical_and_alike(shape: str) -> None:
    """The same seed gives the same bytes; ids and times go up; a tenth are exposures of twelve records."""
    made = list(generated(shape, 3_000))
    again = hashlib.sha256("".join(generated(shape, 3_000)).encode()).digest()
    assert hashlib.sha256("".join(made).encode()).digest() == again
    events = [json.loads(text) for text in made]
    assert all(decode_line(text.rstrip("\n").encode())[1] is False for text in made)
    assert sorted(event["id"] for event in events) == [event["id"] for event in events]
    assert sorted(event["occurred_at"] for event in events) == [event["occurred_at"] for event in events]
    kinds = Counter((event["event"], len(event["records"])) for event in events)
    assert set(kinds) == {("use", 1), ("resident_exposure", 12)}
    assert 200 < kinds["resident_exposure", 12] < 400
    assert len({(r["kind"], r["slug"]) for event in events for r in event["records"]}) > 250


def test_in_the_worst_log_hardly_two_lines_end_alike() -> None:
    """What the fast way rests on is missing there, and there only."""
    ends = {shape: {text[text.index(',"event":') :] for text in generated(shape, 3_000)} for shape in SHAPES}
    assert len(ends["typical"]) < 1_000
    assert len(ends["worst"]) > 2_990
