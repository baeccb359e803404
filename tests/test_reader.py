"""Reading a log in any state: whole events are found, losses are counted, nothing is invented."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import SHARED
from memtally.errors import LogReadError
from memtally.events import UsageEvent, encode_event
from memtally.ledger import decode as decode_module
from memtally.ledger import reader as reader_module
from memtally.ledger.decode import decode_line, parse_time
from memtally.ledger.layout import segments
from memtally.ledger.reader import ReadCounts, iter_lines, open_logs, open_segments, read_events
from memtally.ledger.writer import LogWriter
from test_events import usage_events


def line(number: int, slug: str = "x", **fields: object) -> bytes:
    """A plain line as any other writer would write it, without the newline."""
    value: dict[str, object] = {
        "id": f"00000000-0000-7000-8000-{number:012d}",
        "occurred_at": "2026-05-11T13:10:47.471344537Z",
        "session_id": None,
        "event": "use",
        "source": "MemoryRead",
        "records": [{"kind": "decision", "slug": slug, "file_bytes": 1, "file_tokens_estimate": 1}],
    }
    value.update(fields)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def only_lines(data: bytes) -> Iterator[bytes]:
    """The lines of some bytes, without their offsets."""
    return (text for _, text in iter_lines(io.BytesIO(data)))


def read(data: bytes) -> tuple[list[int], ReadCounts]:
    """The numbers of the events in some bytes, and what reading counted."""
    counts = ReadCounts()
    events = list(read_events(only_lines(data), counts))
    return [int(event.id[-12:]) for event in events], counts


@pytest.mark.parametrize(
    ("data", "numbers", "damaged", "recovered"),
    [
        pytest.param(b"", [], 0, 0, id="empty file"),
        pytest.param(line(1) + b"\n" + line(2), [1, 2], 0, 0, id="no final newline"),
        pytest.param(b"\xef\xbb\xbf" + line(1) + b"\n", [1], 0, 0, id="BOM first"),
        pytest.param(line(1) + b"\n\xef\xbb\xbf" + line(2) + b"\n", [1, 2], 0, 0, id="BOM amid"),
        pytest.param(line(1) + b"\r\n" + line(2) + b"\r\n", [1, 2], 0, 0, id="CRLF"),
        pytest.param(b"\n\n" + line(1) + b"\n \t\n" + line(2), [1, 2], 0, 0, id="blank lines"),
        pytest.param(b"\0" * 400 + line(1) + b"\n", [1], 1, 1, id="NUL run before"),
        pytest.param(line(1) + b"\n" + b"\0" * 400 + b"\n" + line(2), [1, 2], 1, 0, id="NUL line"),
        pytest.param(line(1) + line(2) + b"\n" + line(3), [1, 2, 3], 1, 2, id="welded"),
        pytest.param(line(1)[:40] + b"\n" + line(2), [2], 1, 0, id="torn tail, then a line"),
        pytest.param(line(1)[:-70] + line(2) + b"\n", [2], 1, 1, id="torn inside the slug, then welded"),
        pytest.param(line(1)[:-30] + line(2) + b"\n", [2], 1, 1, id="torn inside a number, then welded"),
        pytest.param(line(1)[:20] + line(2)[:90] + line(3), [3], 1, 1, id="torn twice"),
        pytest.param(
            b"<<<<<<< HEAD\n" + line(1) + b"\n=======\n" + line(2) + b"\n>>>>>>> x\n",
            [1, 2],
            3,
            0,
            id="conflict markers",
        ),
        pytest.param(
            line(1).replace(b'"x"', b'"x\xff"') + b"\n" + line(2), [2], 1, 0, id="bad UTF-8 in a slug"
        ),
        pytest.param(b"\xff\xfe" + line(1) + b"\n", [1], 1, 1, id="bad UTF-8 before an event"),
        pytest.param(b"[" * 10_000 + b"\n" + line(1), [1], 1, 0, id="absurd nesting"),
        pytest.param(b'{"a":' * 20_000 + b"\n" + line(1), [1], 1, 0, id="absurd nesting of objects"),
        pytest.param(
            line(1, records=[{"kind": "k", "slug": "s", "file_bytes": -1}]), [], 1, 0, id="negative size"
        ),
        pytest.param(
            line(1).replace(b":1,", b":" + b"9" * 5_000 + b",") + b"\n" + line(2), [2], 1, 0, id="5000 digits"
        ),
        pytest.param(line(1).replace(b":1,", b":NaN,") + b"\n" + line(2), [2], 1, 0, id="NaN"),
        pytest.param(line(1).replace(b":1,", b":1e999,") + b"\n" + line(2), [2], 1, 0, id="infinite"),
        pytest.param(b'null\n[]\n"x"\n7\n{}\n' + line(1), [1], 5, 0, id="JSON, but no event"),
        pytest.param(line(1).replace(b'"id"', b'"no"'), [], 1, 0, id="no id"),
        pytest.param(
            b'{"log":' + line(1) + b"}", [], 1, 0, id="an event quoted inside other JSON is not ours"
        ),
        pytest.param(json.dumps({"m": line(1).decode()}).encode(), [], 1, 0, id="an event quoted as text"),
    ],
)
def test_damage_costs_at_most_itself(data: bytes, numbers: list[int], damaged: int, recovered: int) -> None:
    """Each kind of damage: which events survive, how many lines are damaged, how many were recovered."""
    found, counts = read(data)
    assert (found, counts.damaged_lines, counts.recovered_events) == (numbers, damaged, recovered)


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\r", "\x1c"])
def test_only_the_newline_ends_a_line(separator: str) -> None:
    """Other line separators, raw or escaped, are part of a slug."""
    raw = line(1, f"a{separator}b")
    escaped = json.dumps(json.loads(raw)).encode()
    found, counts = read(raw + b"\n" + escaped.replace(b"0001", b"0002") + b"\n")
    assert (found, counts.damaged_lines) == ([1, 2], 0)
    assert decode_line(raw)[0][0].records[0].slug == f"a{separator}b"


def test_escaped_lone_surrogates_are_kept_apart() -> None:
    """What another writer escaped is read: three events, three slugs, none damaged."""
    data = b"\n".join(
        line(n).replace(b'"x"', s) for n, s in enumerate([b'"\\ud800x"', b'"\\udcb2"', b'"\\udcb3"'], 1)
    )
    counts = ReadCounts()
    events = list(read_events(only_lines(data), counts))
    assert counts.damaged_lines == 0
    assert [e.records[0].slug for e in events] == ["\\ud800x", "\\udcb2", "\\udcb3"]


def test_older_logs_are_read_as_they_are() -> None:
    """``segment_id`` is the session, nine fraction digits are cut to microseconds."""
    old = line(1).replace(b'"session_id":null', b'"segment_id":"abc"')
    [event], damaged = decode_line(old)
    assert not damaged
    assert event.session_id == "abc"
    assert event.occurred_at == 1_778_505_047_471_344


def test_unknown_fields_events_and_sources_are_kept() -> None:
    """A newer writer never blinds an older reader."""
    [event], damaged = decode_line(line(1, event="archived", source="New", zzz={"a": [1]}))
    assert not damaged
    assert (event.event, event.source) == ("archived", "New")


def test_a_record_named_twice_in_one_event_counts_once() -> None:
    """One read operation holds a record at most once, also when two spellings name it."""
    records = [{"kind": "k", "slug": s} for s in ("caf\u00e9", "cafe\u0301", "caf\u00e9")]
    assert len(decode_line(line(1, records=records))[0][0].records) == 1


def test_large_integers_are_exact() -> None:
    """Sizes beyond 2**53 keep every digit."""
    [event], _ = decode_line(line(1, records=[{"kind": "k", "slug": "s", "file_bytes": 9007199254740993}]))
    assert event.records[0].file_bytes == 9007199254740993


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.2807476Z", 280_747),
        ("1970-01-01T00:00:00.0Z", 0),
        ("1970-01-01T00:00:00.123456789Z", 123_456),
        ("1970-01-01T08:00:00+08:00", 0),
        ("1969-12-31T19:00:00-05:00", 0),
        ("1970-01-01T00:00:00", 0),
        ("1970-01-01t00:00:00z", 0),
        ("1970-01-01 00:00:01", 1_000_000),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000_000),
        ("not a time", None),
        ("", None),
        ("2026-13-01T00:00:00Z", None),
        ("2026-02-30T00:00:00Z", None),
        ("2026-01-01T24:00:00Z", None),
        ("2026-01-01", None),
        ("2026-W01-1T00:00:00Z", None),
        ("\u0661970-01-01T00:00:00Z", None),
        ("9999-12-31T23:59:59-23:59", None),
        ("0001-01-01T00:00:00+01:00", None),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000_000),
        (1_778_505_047, None),
        (None, None),
    ],
)
def test_times_in_every_form_have_one_meaning(text: object, microseconds: int | None) -> None:
    """Fractions of any length, ``Z``, offsets and naive times; a naive time is UTC."""
    assert parse_time(text) == microseconds


def test_missing_and_unreadable_logs_are_named(tmp_path: Path) -> None:
    """An explicit log that is not there, or is a folder, is an error that says which and why."""
    with pytest.raises(LogReadError, match=r"gone\.jsonl: no such log"):
        open_logs([tmp_path / "gone.jsonl"])
    with pytest.raises(LogReadError, match="cannot be read"):
        open_logs([tmp_path])


@pytest.mark.parametrize("block", [1, 7, 64, 1_048_576])
def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    """Lines are whole wherever the blocks of the reading end."""
    monkeypatch.setattr(reader_module, "_BLOCK", block)
    data = line(1) + b"\n\n" + line(2, "\u3042" * 50) + b"\n" + line(3)
    assert read(data)[0] == [1, 2, 3]


def test_an_overlong_line_is_damaged_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line beyond the bound costs itself, not the memory and not its neighbours."""
    monkeypatch.setattr(reader_module, "MAX_LINE", 1_000)
    monkeypatch.setattr(reader_module, "_BLOCK", 256)
    data = line(1) + b"\n" + b"x" * 100_000 + b"\n" + line(2) + b"\n"
    found, counts = read(data)
    assert (found, counts.damaged_lines) == ([1, 2], 1)


@pytest.mark.parametrize("unit", [b'{"', b'{"a":[1,', b'x{"a":1,', b'{"a":', b'{"a{"', b'{"id":"'])
def test_hostile_lines_take_linear_time(unit: bytes) -> None:
    """What is looked at grows with the line: four times the line is far from sixteen times the work."""

    def work(copies: int) -> int:
        looked_at = 0
        whole = decode_module._value_at

        def counted(text: str, start: int) -> tuple[object, int, int]:
            nonlocal looked_at
            value, length, cost = whole(text, start)
            looked_at += cost
            return value, length, cost

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decode_module, "_value_at", counted)
            decode_line(unit * copies)
        return looked_at

    assert work(8_000) < 8 * work(2_000)


def test_a_large_hostile_line_ends() -> None:
    """A megabyte of openings is done with; when this was quadratic it took minutes."""
    assert decode_line(b'{"' * 500_000) == ([], True)


@settings(max_examples=60)
@given(st.lists(usage_events, min_size=2, max_size=5, unique_by=lambda e: e.id), st.data())
def test_a_cut_costs_only_the_event_it_cuts(events: list[UsageEvent], data: st.DataObject) -> None:
    """Bytes cut out of one line leave every other event, once, with its content."""
    encoded = [encode_event(event) for event in events]
    victim = data.draw(st.integers(0, len(events) - 1))
    start = data.draw(st.integers(0, len(encoded[victim]) - 1))
    stop = data.draw(st.integers(start + 1, len(encoded[victim])))
    encoded[victim] = encoded[victim][:start] + encoded[victim][stop:]
    found = list(read_events(only_lines(b"".join(encoded)), ReadCounts()))
    others = [event for n, event in enumerate(events) if n != victim]
    assert [event for event in found if event.id != events[victim].id and event in others] == others


@given(st.binary(max_size=300))
def test_arbitrary_bytes_never_raise(data: bytes) -> None:
    """Whatever stands in a file, reading ends and counts."""
    counts = ReadCounts()
    list(read_events(only_lines(data), counts))
    assert 0 <= counts.damaged_lines <= data.count(b"\n") + 1


def otlp_logs(*records: dict[str, object]) -> bytes:
    """One OTLP/JSON line."""
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": list(records)}]}]}).encode()


def otlp_attributes() -> list[dict[str, object]]:
    """The attributes of one use of decision/adopt-otlp, as OTLP/JSON spells them."""
    record = {"kind": {"stringValue": "decision"}, "slug": {"stringValue": "adopt-otlp"}}
    sizes = {"file_bytes": {"intValue": "9007199254740993"}}
    pairs = [{"key": key, "value": value} for key, value in (record | sizes).items()]
    texts = {"log.record.uid": "u-1", "session.id": "s", "memtally.source": "MemoryRead"}
    return [
        *({"key": key, "value": {"stringValue": value}} for key, value in texts.items()),
        {
            "key": "memtally.records",
            "value": {"arrayValue": {"values": [{"kvlistValue": {"values": pairs}}]}},
        },
    ]


def test_otlp_logs_and_spans_are_read_as_the_same_event() -> None:
    """The event of an OTLP log record equals that of a span with the same attributes."""
    ours = {
        "timeUnixNano": "1778505047471344000",
        "eventName": "memtally.use",
        "traceId": "a" * 32,
        "spanId": "b" * 16,
        "attributes": otlp_attributes(),
    }
    span = {
        "name": "memtally.use",
        "startTimeUnixNano": "1778505047471344000",
        "traceId": "a" * 32,
        "spanId": "b" * 16,
        "attributes": otlp_attributes(),
    }
    spans = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()
    (from_logs, damaged), (from_spans, _) = decode_line(otlp_logs(ours)), decode_line(spans)
    assert not damaged
    assert from_logs == from_spans
    [event] = from_logs
    assert (event.id, event.session_id, event.source) == ("u-1", "s", "MemoryRead")
    assert event.occurred_at == 1_778_505_047_471_344
    assert event.records[0].file_bytes == 9007199254740993


def test_otlp_that_is_not_ours_is_no_event_and_no_damage() -> None:
    """Other people's log records pass by."""
    assert decode_line(otlp_logs({"eventName": "browser.page_view"})) == ([], False)


def test_one_odd_record_of_an_otlp_batch_costs_itself() -> None:
    """Good, broken, good: the two good ones count and the line is damaged; welded and torn objects too."""
    good = {"eventName": "memtally.use", "timeUnixNano": "1", "attributes": otlp_attributes()}
    for broken in (
        {"eventName": "memtally.use", "attributes": []},
        {"eventName": "memtally.use", "attributes": [{"key": "log.record.uid", "value": {"intValue": "x"}}]},
        {
            "eventName": "memtally.use",
            "attributes": [{"key": "memtally.records", "value": {"arrayValue": "x"}}],
        },
        {"eventName": "memtally.use", "attributes": [{"key": "a", "value": {"kvlistValue": [1]}}]},
    ):
        found, damaged = decode_line(otlp_logs(good, broken, good))
        assert (len(found), damaged) == (2, True)
    assert len(decode_line(otlp_logs(good) + otlp_logs(good, good))[0]) == 3
    assert len(decode_line(otlp_logs(good)[:40] + otlp_logs(good))[0]) == 1


@pytest.mark.parametrize("stamp", ["9" * 26, "9" * 30, "-5", 0, "", None])
def test_impossible_otlp_times_are_no_time(stamp: object) -> None:
    """An event whose time OTLP cannot hold counts, undated."""
    [event], damaged = decode_line(
        otlp_logs({"eventName": "memtally.use", "timeUnixNano": stamp, "attributes": otlp_attributes()})
    )
    assert (event.occurred_at, damaged) == (None, False)


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data is not beside this checkout")
def test_the_protocols_own_examples_are_read() -> None:
    """opentelemetry-proto's example files, as one line each, hold no event of ours and no damage."""
    for name in ("logs.json", "events.json"):
        data = json.loads((SHARED / "ledgers" / "otlp-proto" / name).read_text("utf-8"))
        assert decode_line(json.dumps(data).encode()) == ([], False)


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data is not beside this checkout")
def test_json_test_suite_lines_are_skipped_and_counted() -> None:
    """Each file of JSONTestSuite as lines of a log: no crash, its neighbours survive, no event from it."""
    files = sorted((SHARED / "conformance" / "JSONTestSuite" / "test_parsing").iterdir())
    assert len(files) == 95 + 186 + 35
    for file in files:
        found, counts = read(line(1) + b"\n" + file.read_bytes() + b"\n" + line(2) + b"\n")
        assert found == [1, 2], file.name
        # an invalid file is damage; blank bytes are not
        if file.name.startswith("n_") and file.read_bytes().strip(b" \t\r\n\xef\xbb\xbf"):
            assert counts.damaged_lines >= 1, file.name


def test_a_pipe_can_be_read_twice(tmp_path: Path) -> None:
    """A log that comes through a pipe gives the same events on a second reading."""
    import threading

    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(line(1) + b"\n" + line(2),))
    writer.start()
    descriptor = os.open(fifo, os.O_RDONLY)
    writer.join(10)
    with open_logs([f"/dev/fd/{descriptor}"]) as logs:
        first = [event.id for event in logs.read(ReadCounts())]
        assert [event.id for event in logs.read(ReadCounts())] == first
    os.close(descriptor)
    assert len(first) == 2


def test_more_segments_than_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many segments each is read, twice if wanted, and one that was replaced meanwhile is said."""
    monkeypatch.setattr(reader_module, "_KEPT_OPEN", 3)
    paths = [tmp_path / f"usage-{number}.jsonl" for number in range(10)]
    for number, path in enumerate(paths):
        path.write_bytes(line(number) + b"\n")
    with open_logs(paths) as logs:
        for _ in range(2):
            assert [int(event.id[-12:]) for event in logs.read(ReadCounts())] == list(range(10))
        paths[0].unlink()
        paths[0].write_bytes(line(99) + b"\n")
        with pytest.raises(LogReadError, match=r"usage-0\.jsonl: changed while it was read"):
            list(logs.read(ReadCounts()))


def test_a_reader_finishes_on_what_it_began_with(tmp_path: Path) -> None:
    """A log that is sealed, goes on growing or is removed while it is read gives the figures of the start."""
    directory = tmp_path / ".memtally"
    writer = LogWriter(str(directory / "usage.jsonl"))
    writer.append(line(1) + b"\n")
    with open_segments(lambda: segments(str(directory))) as logs:
        writer.append(line(2) + b"\n")
        (directory / "usage.jsonl").rename(directory / "usage-1.jsonl")
        writer.append(line(3) + b"\n")
        (directory / "usage-1.jsonl").unlink()
        assert [event.id[-1] for event in logs.read(ReadCounts())] == ["1"]
        assert [event.id[-1] for event in logs.read(ReadCounts())] == ["1"]


def test_a_line_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    """Half a line under the writer's lock is no damage: the reader takes it when it is whole."""
    import fcntl
    import threading

    path = tmp_path / "usage.jsonl"
    whole = line(2) + b"\n"
    with path.open("ab", buffering=0) as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        stream.write(line(1) + b"\n" + whole[:50])

        def finish() -> None:
            stream.write(whole[50:])
            fcntl.flock(stream, fcntl.LOCK_UN)

        timer = threading.Timer(0.1, finish)
        timer.start()
        counts = ReadCounts()
        with open_logs([path]) as logs:
            assert [event.id[-1] for event in logs.read(counts)] == ["1", "2"]
        timer.join()
    assert counts.damaged_lines == 0


def test_a_line_that_is_never_finished_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the lock is held for ever, or half a line was left long ago, what is whole is read all the same."""
    import fcntl

    monkeypatch.setattr(reader_module, "_SETTLING_SECONDS", 0.05)
    path = tmp_path / "usage.jsonl"
    path.write_bytes(line(1) + b"\n" + line(2)[:50])
    for held in (True, False):
        counts = ReadCounts()
        with path.open("rb") as holder:
            if held:
                fcntl.flock(holder, fcntl.LOCK_EX)
            with open_logs([path]) as logs:
                assert [event.id[-1] for event in logs.read(counts)] == ["1"]
        assert counts.damaged_lines == 1


def test_a_seal_between_listing_and_opening_loses_nothing(tmp_path: Path) -> None:
    """The list is made again until it holds still: no segment is left out or taken twice."""
    directory = tmp_path / ".memtally"
    writer = LogWriter(str(directory / "usage.jsonl"))
    writer.append(line(1) + b"\n")
    seals = [1, 2]

    def listing() -> list[str]:
        found = segments(str(directory))
        if seals:  # somebody seals right after the list was made
            number = seals.pop(0)
            (directory / "usage.jsonl").rename(directory / f"usage-{number}.jsonl")
            writer.append(line(number + 1) + b"\n")
        return found

    with open_segments(listing) as logs:
        assert [event.id[-1] for event in logs.read(ReadCounts())] == ["1", "2", "3"]


def test_one_file_under_two_names_is_read_once(tmp_path: Path) -> None:
    """A process that died in the middle of sealing left two names: no event is met twice."""
    directory = tmp_path / ".memtally"
    LogWriter(str(directory / "usage.jsonl")).append(line(1) + b"\n")
    os.link(directory / "usage.jsonl", directory / "usage-1.jsonl")
    with open_segments(lambda: segments(str(directory))) as logs:
        assert len(list(logs.read(ReadCounts()))) == 1


def test_a_log_that_links_out_of_the_workspace_is_none_of_it(tmp_path: Path) -> None:
    """Somebody else's file is not read as this workspace's log."""
    (tmp_path / "elsewhere.jsonl").write_bytes(line(1))
    directory = tmp_path / "ws" / ".memtally"
    directory.mkdir(parents=True)
    (directory / "usage.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    assert segments(str(directory)) == []


def test_otlp_integers_as_numbers_are_exact() -> None:
    """A 64-bit integer that another exporter wrote as a number keeps its digits, like one written as text."""
    attributes = json.loads(json.dumps(otlp_attributes()).replace('"9007199254740993"', "9007199254740993"))
    assert any("9007199254740993" in json.dumps(each) for each in attributes)
    [event], damaged = decode_line(
        otlp_logs({"eventName": "memtally.use", "timeUnixNano": "1", "attributes": attributes})
    )
    assert (event.records[0].file_bytes, damaged) == (9007199254740993, False)
