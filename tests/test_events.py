"""Events: their values, their ids and the exact bytes of their line."""

from __future__ import annotations

import json
import os
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtally.errors import InvalidValueError
from memtally.events import (
    EXPOSURE,
    USE,
    RecordSnapshot,
    UsageEvent,
    check_count,
    check_kind,
    check_slug,
    check_source,
    encode_event,
    event_id_from,
    format_time,
    new_event_id,
    normal_slug,
)
from memtally.ledger.decode import decode_line

# The example line of the design, byte for byte.
EXAMPLE = (
    b'{"id":"019e1729-5daf-7580-b765-095156c4009a","occurred_at":"2026-05-11T13:10:47.471344Z",'
    b'"session_id":"s1","event":"use","source":"MemoryRead","tokenizer":"o200k_base","records":'
    b'[{"kind":"decision","slug":"adopt-otlp","file_bytes":2381,"file_tokens_estimate":596}]}\n'
)


def test_line_is_the_designs_example_byte_for_byte() -> None:
    """An event encodes to the documented line: keys in order, nothing optional that is absent."""
    event = UsageEvent(
        "019e1729-5daf-7580-b765-095156c4009a",
        1_778_505_047_471_344,  # date -u -d 2026-05-11T13:10:47 +%s is 1778505047
        USE,
        "MemoryRead",
        (RecordSnapshot("decision", "adopt-otlp", 2381, 596),),
        session_id="s1",
        tokenizer="o200k_base",
    )
    assert encode_event(event) == EXAMPLE


def test_every_optional_field_has_its_place() -> None:
    """Optional fields stand where the documented order puts them."""
    event = UsageEvent(
        "i",
        0,
        EXPOSURE,
        "AutoRecall",
        (RecordSnapshot("rule", "r", None, None, 7, 3, "sha256:x", True),),
        trace_id="t" * 32,
        span_id="s" * 16,
        input_tokens=9,
        actor="subagent",
        host="codex",
        tokenizer="bytes/4",
    )
    assert list(json.loads(encode_event(event))) == [
        "id",
        "occurred_at",
        "session_id",
        "trace_id",
        "span_id",
        "input_tokens",
        "event",
        "source",
        "actor",
        "host",
        "tokenizer",
        "records",
    ]
    assert json.loads(encode_event(event))["records"] == [
        {
            "kind": "rule",
            "slug": "r",
            "file_bytes": None,
            "file_tokens_estimate": None,
            "injected_bytes": 7,
            "injected_tokens_estimate": 3,
            "content_hash": "sha256:x",
            "partial": True,
        }
    ]


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (951_782_400_000_001, "2000-02-29T00:00:00.000001Z"),
    ],
)
def test_times_have_six_fraction_digits_and_z(microseconds: int, text: str) -> None:
    """Times are RFC 3339 in UTC with six fraction digits."""
    assert format_time(microseconds) == text


def test_new_ids_are_version_7_of_now_and_rise() -> None:
    """Ids are valid version 7 UUIDs of the present time, distinct and in order."""
    import time

    before = time.time_ns() // 1_000_000
    ids = [new_event_id() for _ in range(2_000)]
    after = time.time_ns() // 1_000_000
    parsed = [uuid.UUID(i) for i in ids]
    assert {p.version for p in parsed} == {7}
    assert {p.variant for p in parsed} == {uuid.RFC_4122}
    assert all(before <= p.int >> 80 <= after + 1 for p in parsed)
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


def test_given_ids_keep_uuids_and_hash_other_text() -> None:
    """A UUID stays what it is; any other id becomes the same version 5 UUID every time."""
    assert event_id_from("019E1729-5DAF-7580-B765-095156C4009A") == "019e1729-5daf-7580-b765-095156c4009a"
    assert event_id_from("019e17295daf7580b765095156c4009a") == "019e1729-5daf-7580-b765-095156c4009a"
    namespace = uuid.UUID("8f1d7f0c-5c1c-5e0f-a3a5-d2a94e0a6b31")
    assert event_id_from("toolu_01ABC") == str(uuid.uuid5(namespace, "toolu_01ABC"))
    with pytest.raises(InvalidValueError, match="event_id"):
        event_id_from("")


@pytest.mark.parametrize("kind", ["decision", "my-kind", "k2", "a_b"])
def test_kinds_are_lower_case_words(kind: str) -> None:
    """Any lower-case word is a kind."""
    assert check_kind(kind) == kind


@pytest.mark.parametrize("kind", ["", "Decision", "a b", "décision", "-a", "2k", "a/b", None, 3])
def test_other_kinds_are_refused(kind: object) -> None:
    """What is no lower-case word is refused by name."""
    with pytest.raises(InvalidValueError, match="kind="):
        check_kind(kind)


def test_slugs_are_nfc_and_keep_their_case() -> None:
    """The two ways to write café are one slug; Foo and foo are two."""
    assert normal_slug("cafe\u0301") == "caf\u00e9" == normal_slug("caf\u00e9")
    assert check_slug("Foo") != check_slug("foo")


def test_lone_surrogates_stay_distinct_and_encodable() -> None:
    """Names that UTF-8 cannot carry are written out, and two of them stay two."""
    slugs = {check_slug("\ud800x"), check_slug("\udcb2"), check_slug("\udcb3")}
    assert len(slugs) == 3
    for slug in slugs:
        slug.encode("utf-8")


@pytest.mark.parametrize("slug", ["", " ", "\n", None, 7])
def test_empty_slugs_are_refused(slug: object) -> None:
    """A record without a name is a mistake of the caller's."""
    with pytest.raises(InvalidValueError, match="slug="):
        check_slug(slug)


@pytest.mark.parametrize(
    "source", ["MemoryQuery", "KnowledgeQuery", "VectorSearch", "", "memoryRead", "Memory Read", 4]
)
def test_searches_and_malformed_sources_are_refused(source: object) -> None:
    """A search is no use, and a source is one CamelCase word."""
    with pytest.raises(InvalidValueError, match="source="):
        check_source(source)


def test_uses_and_exposures_do_not_exchange_sources() -> None:
    """A use's source is refused for an exposure and the other way round, each with what to call."""
    with pytest.raises(InvalidValueError, match="record_exposure"):
        check_source("ResidentInjection", USE)
    with pytest.raises(InvalidValueError, match="record_use"):
        check_source("MemoryRead", EXPOSURE)
    assert check_source("HostsOwn", USE) == check_source("HostsOwn", EXPOSURE) == "HostsOwn"


@pytest.mark.parametrize("value", [-1, 2**63, True, 1.5, "1"])
def test_impossible_counts_are_refused(value: object) -> None:
    """Sizes are whole numbers that 63 bits can hold."""
    with pytest.raises(InvalidValueError, match="file_bytes="):
        check_count("file_bytes", value)


def test_error_messages_are_one_printable_line() -> None:
    """A hostile value cannot break the message into lines or move a cursor."""
    with pytest.raises(InvalidValueError) as caught:
        check_kind("a\n\x1b[2J\u202e" * 100)
    assert "\n" not in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 250


text = st.text(min_size=1, max_size=20)
counts = st.none() | st.integers(0, 2**63 - 1)
snapshots = st.builds(
    RecordSnapshot,
    st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True),
    text.map(normal_slug),
    counts,
    counts,
    counts,
    counts,
    st.none() | st.text(st.characters(max_codepoint=127), max_size=20),
    st.booleans(),
)
ids = st.uuids().map(str)
usage_events = st.builds(
    UsageEvent,
    ids,
    st.integers(0, 4_102_444_800_000_000),
    st.sampled_from([USE, EXPOSURE]),
    st.from_regex(r"[A-Z][A-Za-z]{0,8}", fullmatch=True),
    st.lists(snapshots, max_size=4, unique_by=lambda r: r.key).map(tuple),
    session_id=st.none() | text.map(normal_slug),
    trace_id=st.none() | st.from_regex(r"[0-9a-f]{32}", fullmatch=True),
    span_id=st.none() | st.from_regex(r"[0-9a-f]{16}", fullmatch=True),
    input_tokens=counts,
    actor=st.sampled_from(["agent", "subagent", "user", "maintenance"]),
    host=st.none() | st.just("claude-code"),
    tokenizer=st.none() | st.just("o200k_base"),
)


@given(usage_events)
def test_any_event_survives_its_line(event: UsageEvent) -> None:
    """Encoding and decoding gives the same event, whatever text its names hold."""
    line = encode_event(event)
    assert line.count(b"\n") == 1
    assert line.endswith(b"}\n")
    assert json.loads(line)["id"] == event.id
    found, damaged = decode_line(line[:-1])
    assert not damaged
    assert found == [event]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_makes_no_id_of_its_parent() -> None:
    """What randomness the parent has in store is not the child's, too."""
    new_event_id()  # there is some in store now
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, "".join(new_event_id()[19:] for _ in range(40)).encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    theirs = {text[at : at + 17] for at in range(0, len(text), 17)}
    mine = {new_event_id()[19:] for _ in range(100)}
    assert len(theirs) == 40
    assert len(mine) == 100
    assert theirs.isdisjoint(mine)
