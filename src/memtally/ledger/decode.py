"""From one line of a log to its events, whatever state the line is in.

A canonical line takes the fast way, a typed decode. Any other line takes the tolerant way, with equal
results: escaped lone surrogates, OTLP/JSON, and in a damaged line every whole event that stands in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import date
from typing import Annotated, Any, NoReturn, TypeVar

import msgspec

from memtally.errors import InvalidValueError
from memtally.events import RecordSnapshot, UsageEvent, normal_slug, well_formed
from memtally.ledger import otlp

__all__ = [
    "MAX_TIME",
    "MIN_TIME",
    "KnownRecord",
    "SizedRecord",
    "SizedTail",
    "Tail",
    "decode_line",
    "decode_sized_tails",
    "decode_tails",
    "event_from_fields",
    "parse_time",
    "shape_of",
    "what_is_wrong",
]

_T = TypeVar("_T")
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _Record(msgspec.Struct, gc=False):
    kind: _Text
    slug: _Text
    file_bytes: _Count | None = None
    file_tokens_estimate: _Count | None = None
    injected_bytes: _Count | None = None
    injected_tokens_estimate: _Count | None = None
    content_hash: str | None = None
    partial: bool | None = None


class KnownRecord(_Record, gc=False, forbid_unknown_fields=True):
    """A record without fields that are not known."""


class Tail(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """What stands in a canonical line from ``"event"`` on, and nothing else."""

    event: _Text
    source: str | None = None
    actor: str | None = None
    host: str | None = None
    tokenizer: str | None = None
    records: list[KnownRecord] = []


class SizedRecord(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A record with its two sizes and no other figure."""

    kind: _Text
    slug: _Text
    file_bytes: _Count
    file_tokens_estimate: _Count


class SizedTail(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The most frequent form of a tail: every record has its two sizes and no other figure."""

    event: _Text
    source: _Text
    records: list[SizedRecord]
    tokenizer: _Text | None = None


class _Line(msgspec.Struct, gc=False):
    id: _Text
    event: _Text
    occurred_at: Any = None
    session_id: str | None = None
    segment_id: str | None = None  # the session's name in older logs
    source: str | None = None
    actor: str | None = None
    host: str | None = None
    tokenizer: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    input_tokens: _Count | None = None
    records: list[_Record] = []


_decoder = msgspec.json.Decoder(_Line)
_tail_decoder = msgspec.json.Decoder(Tail)
_sized_decoder = msgspec.json.Decoder(SizedTail)
# ValueError holds UnicodeDecodeError; the others come from what stands in OTLP where it should not
_BAD = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError, OSError)


def decode_line(line: bytes) -> tuple[list[UsageEvent], bool]:
    """The events of one line (without its ``\\n``), and whether the line is damaged.

    A blank line has no events and is not damaged. An OTLP line may have many, or none of ours.
    """
    if _is_utf8(line):  # msgspec does not look at the bytes of what it passes over
        try:
            return [_event(_decoder.decode(line))], False
        except _BAD:
            pass
    line = line.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r")
    if not line:
        return [], False
    try:
        value = _loads(line.decode("utf-8"))
    except _BAD:
        return _salvage(line), True
    return _events_of(value)


def _events_of(value: object) -> tuple[list[UsageEvent], bool]:
    """The events of one JSON value, and whether anything of ours in it is damaged."""
    if not isinstance(value, dict) or not otlp.is_otlp(value):
        try:
            return [_event(msgspec.convert(value, _Line))], False
        except _BAD:
            return [], True
    found, damaged = [], False
    for item in otlp.events(value):
        try:  # one odd record of a batch costs itself, not the batch
            found.append(_event(msgspec.convert(otlp.fields(*item), _Line)))
        except _BAD:
            damaged = True
    return found, damaged


def decode_tails(tails: Sequence[bytes]) -> Sequence[Tail | None]:
    """What some lines' tails (``,"event":...``) say, in order; ``None`` for a strange one."""
    return _decode_each(_tail_decoder, tails)


def decode_sized_tails(tails: Sequence[bytes]) -> Sequence[SizedTail | None]:
    """The same for tails of the most frequent form; ``None`` for any other."""
    return _decode_each(_sized_decoder, tails)


def _decode_each(decoder: msgspec.json.Decoder[_T], tails: Sequence[bytes]) -> Sequence[_T | None]:
    try:
        found: Sequence[_T] = decoder.decode_lines(b"".join([b"{" + tail[1:] for tail in tails]))
    except _BAD:
        found = []
    # one that lacks its end would need "event" as a field inside it, which none has: so each line has
    # its own value at least, and with as many values as lines just that one
    if len(found) == len(tails):
        return found
    return [_decode_one(decoder, tail) for tail in tails]


def _decode_one(decoder: msgspec.json.Decoder[_T], tail: bytes) -> _T | None:
    try:
        return decoder.decode(b"{" + tail[1:])
    except _BAD:
        return None


def shape_of(tail: Tail) -> UsageEvent:
    """The event that a tail describes, without what its head says."""
    return UsageEvent(
        "",
        None,
        well_formed(tail.event),
        well_formed(tail.source or "unknown"),
        _snapshots(tail.records),
        actor=well_formed(tail.actor or "agent"),
        host=tail.host,
        tokenizer=_well_formed(tail.tokenizer),
    )


def _snapshots(listed: Sequence[_Record]) -> tuple[RecordSnapshot, ...]:
    records: list[RecordSnapshot] = []
    seen: set[tuple[str, str]] = set()
    for record in listed:
        kind, slug = well_formed(record.kind), normal_slug(record.slug)
        if (kind, slug) in seen:
            continue  # a record appears in one read operation at most once
        seen.add((kind, slug))
        records.append(
            RecordSnapshot(
                kind,
                slug,
                record.file_bytes,
                record.file_tokens_estimate,
                record.injected_bytes,
                record.injected_tokens_estimate,
                record.content_hash,
                record.partial is True,
            )
        )
    return tuple(records)


def _event(line: _Line) -> UsageEvent:
    return UsageEvent(
        well_formed(line.id).lower(),
        parse_time(line.occurred_at),
        well_formed(line.event),
        well_formed(line.source or "unknown"),
        _snapshots(line.records),
        session_id=well_formed(line.session_id or line.segment_id or "") or None,
        trace_id=line.trace_id,
        span_id=line.span_id,
        input_tokens=line.input_tokens,
        actor=well_formed(line.actor or "agent"),
        host=line.host,
        tokenizer=_well_formed(line.tokenizer),
    )


def _well_formed(text: str | None) -> str | None:
    return None if text is None else well_formed(text)


def what_is_wrong(line: bytes) -> str:
    """Why a damaged line is damaged, in a few words without any of its content."""
    if b"\0" in line:
        return f"NUL at byte {line.index(0)}"
    if line.startswith((b"<<<<<<<", b"=======", b">>>>>>>", b"|||||||")):
        return "a conflict marker of git"
    try:
        text = line.decode("utf-8")
        value, end = _json.raw_decode(text, len(text) - len(text.removeprefix("\ufeff").lstrip(" \t\r")))
        if text[end:].strip(" \t\r"):
            return f"more than one value, the first ends at byte {len(text[:end].encode())}"
        msgspec.convert(value, _Line)
    except msgspec.ValidationError as error:
        return "a record in its OTLP is malformed" if otlp.is_otlp(value) else f"no event: {error}"
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" starting at")
        return f"not JSON at byte {len(error.doc[: error.pos].encode())}: {what}"
    except UnicodeDecodeError as error:
        return f"not UTF-8 at byte {error.start}"
    except RecursionError:
        return "nested too deep"
    except _BAD:
        return "a number that is none"
    return "no event"


def event_from_fields(fields: object) -> UsageEvent:
    """An event from the fields of a line, checked as the line's would be; else ``InvalidValueError``."""
    try:
        return _event(msgspec.convert(fields, _Line))
    except _BAD as error:
        raise InvalidValueError("event", type(fields).__name__, str(error), "see the log's format") from error


# -- damaged lines -----------------------------------------------------------------------------------

_CANDIDATE = re.compile(r'\{\s*"')
_FIRST_WINDOW = 512
_BUDGET = 64  # characters looked at, as a multiple of the line's length: keeps hostile lines linear


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _integer(digits: str) -> int | float:
    # int() refuses thousands of digits; in a field of ours infinity is refused too, elsewhere it is nobody's
    return int(digits) if len(digits) < 400 else float("inf")


_json = json.JSONDecoder(parse_constant=_refuse, parse_int=_integer)


def _loads(text: str) -> Any:
    value, end = _json.raw_decode(text)
    if text[end:].strip(" \t\r"):
        raise ValueError("more than one value")
    return value


def _salvage(line: bytes) -> list[UsageEvent]:
    """Every whole event that stands in a damaged line, in order."""
    text = line.decode("utf-8", "surrogateescape")
    intact = _is_utf8(line)
    found: list[UsageEvent] = []
    position, budget = 0, _BUDGET * len(text) + 65_536
    while budget > 0 and (candidate := _CANDIDATE.search(text, position)):
        start = candidate.start()
        value, length, cost = _value_at(text, start)
        budget -= cost
        if length == 0:
            position = start + 1
            continue
        # what is whole and no event is somebody's JSON: there is nothing of ours inside it
        position = start + length
        if intact or _is_clean(text[start:position]):
            # a byte broken inside it: which record it names is not certain
            found += _events_of(value)[0]
    return found


def _value_at(text: str, start: int) -> tuple[object, int, int]:
    """The JSON value that begins at a place, its length (0 for none), and how much was looked at.

    Looks through a window that grows: an error's position costs the decoder the text before it, and
    most candidates fail at once.
    """
    size, cost = _FIRST_WINDOW, 0
    while True:
        window = text[start : start + size]
        try:
            value, length = _json.raw_decode(window)
        except json.JSONDecodeError as error:
            # an unterminated string is reported where it begins, and was looked at to the end
            cost += 16 + (len(window) if error.msg.startswith("Unterminated") else min(error.pos, size))
            cut_off = error.msg.startswith("Unterminated") or error.pos > len(window) - 16
            if not cut_off or start + size >= len(text):
                return None, 0, cost
            size *= 2
        except (ValueError, RecursionError):
            return None, 0, cost + len(window)
        else:
            return value, length, cost + length


def _is_utf8(line: bytes) -> bool:
    if line.isascii():
        return True
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _is_clean(text: str) -> bool:
    return not any("\udc80" <= character <= "\udcff" for character in text)


# -- times -------------------------------------------------------------------------------------------

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?\s?(?:[Zz]|([+-])(\d\d):?(\d\d))?", re.ASCII
)
_EPOCH = date(1970, 1, 1).toordinal()
MIN_TIME = (date(1, 1, 1).toordinal() - _EPOCH) * 86_400_000_000
MAX_TIME = (date(9999, 12, 31).toordinal() - _EPOCH + 1) * 86_400_000_000 - 1


def parse_time(value: object) -> int | None:
    """An RFC 3339 time as microseconds since the epoch, UTC; ``None`` when it is no time at all.

    Fractions beyond microseconds are cut off; a time without an offset is read as UTC.
    """
    if not isinstance(value, str):
        return None
    match = _TIME.fullmatch(value)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, off_hours, off_minutes = match.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH
    except ValueError:
        return None
    if int(hour) > 23 or int(minute) > 59 or int(second) > 60:  # 60: a leap second
        return None
    seconds = days * 86_400 + int(hour) * 3_600 + int(minute) * 60 + int(second)
    if sign:
        if int(off_hours) > 23 or int(off_minutes) > 59:
            return None
        offset = int(off_hours) * 3_600 + int(off_minutes) * 60
        seconds -= offset if sign == "+" else -offset
    microseconds = seconds * 1_000_000 + int((fraction or "")[:6].ljust(6, "0"))
    # an offset can carry it out of the years that can be written down
    return microseconds if MIN_TIME <= microseconds <= MAX_TIME else None
