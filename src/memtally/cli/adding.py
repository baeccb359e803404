"""``memtally add use|exposure``: append from any language, by options or by JSON lines on stdin."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import click

from memtally import events
from memtally._content import decode_text
from memtally._files import open_regular
from memtally._script_estimate import script_estimate
from memtally.cli.options import workspace_option
from memtally.cli.output import note
from memtally.context import (
    check_actor,
    check_defaults,
    check_session_id,
    current_actor,
    current_session_id,
    disabled,
)
from memtally.errors import InvalidValueError, MemtallyError
from memtally.events import EXPOSURE, USE, RecordSnapshot, UsageEvent
from memtally.ledger.decode import parse_time
from memtally.ledger.layout import led_out
from memtally.ledger.writer import SEAL_BYTES, LogWriter
from memtally.tokens import SCRIPT_ESTIMATE
from memtally.workspace import find_workspace

__all__ = ["add"]

_FIELDS = {
    "id",
    "event",
    "trace_id",
    "span_id",
    "occurred_at",
    "session_id",
    "input_tokens",
    "source",
    "actor",
    "host",
    "tokenizer",
    "records",
    "kind",
    "slug",
}
_RECORD_FIELDS = {
    "kind",
    "slug",
    "file_bytes",
    "file_tokens_estimate",
    "injected_bytes",
    "injected_tokens_estimate",
    "content_hash",
    "partial",
}


_NAMES = {USE: "use", EXPOSURE: "exposure"}


@click.group()
def add() -> None:
    """Append a use or an exposure to the workspace's log.

    Name the records as KIND/SLUG, or give JSON lines on stdin: the fields of the log's own lines, of
    which only the record is required. Either every line is appended or none.
    """


def _command(name: str, event: str, default_source: str, text: str) -> None:
    @add.command(name, help=text)
    @click.argument("records", nargs=-1, metavar="[KIND/SLUG]...")
    @workspace_option
    @click.option("--source", default=default_source, show_default=True, help="The route.")
    @click.option("--session", "session_id", metavar="ID", help="The conversation (or MEMTALLY_SESSION_ID).")
    @click.option("--actor", metavar="NAME", help=f"One of {', '.join(events.ACTORS)} (or MEMTALLY_ACTOR).")
    @click.option("--event-id", metavar="ID", help="The host's own id of it: counts once, however often.")
    @click.option("--occurred-at", metavar="TIME", help="An RFC 3339 time; now by default.")
    @click.option("--host", metavar="NAME", help="The host that read it, such as codex.")
    @click.option("--file", "file", metavar="FILE", help="The record's file, to measure; for one record.")
    def command(records: tuple[str, ...], workspace: str | None, file: str | None, **given: Any) -> None:
        check_defaults(None, None)  # a misspelt MEMTALLY_ACTOR would count maintenance as use
        common = {
            "source": given["source"],
            "session_id": given["session_id"],
            "actor": given["actor"],
            "id": given["event_id"],
            "occurred_at": given["occurred_at"],
            "host": given["host"],
        }
        common = {name: value for name, value in common.items() if value is not None}
        if records:
            if file is not None and led_out(file, str(find_workspace(workspace).root)):
                raise MemtallyError(f"--file {file!r}: leads out of the workspace; name the file itself")
            made = [_event(event, {**common, "records": [_named(r, file, len(records)) for r in records]})]
        elif sys.stdin is None or sys.stdin.isatty():
            raise click.UsageError("no record: name it as KIND/SLUG, or give JSON lines on stdin")
        else:
            made = [_event(event, {**common, **line}, where) for where, line in _stdin_lines()]
        _append(made, workspace)


_command("use", USE, "MemoryRead", "Append a use: records were explicitly read into a context.")
_command("exposure", EXPOSURE, "ResidentInjection", "Append an exposure: always-on records were placed.")


def _named(name: str, file: str | None, number: int) -> dict[str, Any]:
    kind, slash, slug = name.partition("/")
    if not (kind and slash and slug):
        raise InvalidValueError(
            "record", name, "no record's name", "write KIND/SLUG, such as decision/adopt-otlp"
        )
    if file is None:
        return {"kind": kind, "slug": slug}
    if number != 1:
        raise click.UsageError("--file measures one record; name one, or give JSON lines on stdin")
    try:
        with open(open_regular(file), "rb") as stream:
            data = stream.read()
    except OSError as error:
        raise MemtallyError(f"--file {file!r}: cannot be read ({error.strerror}); check the path") from None
    return {"kind": kind, "slug": slug, "file_bytes": len(data), "file_tokens_estimate": _tokens(data)}


def _tokens(data: bytes) -> int:
    return script_estimate(decode_text(data))


def _stdin_lines() -> list[tuple[str, dict[str, Any]]]:
    lines = []
    for number, line in enumerate(sys.stdin.buffer, 1):
        where = f"stdin line {number}"
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise MemtallyError(f"{where}: not JSON; give one object a line; nothing was appended") from None
        if not isinstance(value, dict):
            raise MemtallyError(f"{where}: no object; give one object a line; nothing was appended")
        lines.append((where, value))
    return lines


def _event(event: str, fields: dict[str, Any], where: str = "") -> UsageEvent:
    try:
        return _checked(event, fields)
    except InvalidValueError as error:
        raise MemtallyError(f"{where}: {error}; nothing was appended") if where else error from None


def _checked(event: str, fields: dict[str, Any]) -> UsageEvent:
    for name in fields:
        if name not in _FIELDS:
            raise InvalidValueError("field", name, "no such field", f"use {', '.join(sorted(_FIELDS))}")
    if fields.get("event", event) != event:
        raise InvalidValueError(
            "event", fields["event"], f"this is add {_NAMES[event]}", "give it to the other one"
        )
    listed = fields.get("records")
    if listed is not None and ("kind" in fields or "slug" in fields):
        raise InvalidValueError(
            "records", type(listed).__name__, "the record is named twice", "give records, or kind and slug"
        )
    if listed is None:
        listed = [{name: fields[name] for name in ("kind", "slug") if name in fields}]
    if not isinstance(listed, list) or not listed or not all(isinstance(r, dict) for r in listed):
        raise InvalidValueError(
            "records", type(listed).__name__, "no list of records", 'write [{"kind": "...", "slug": "..."}]'
        )
    first: dict[tuple[str, str], RecordSnapshot] = {}
    for record in map(_snapshot, listed):
        first.setdefault(record.key, record)  # one read operation reads a record once
    snapshots = tuple(first.values())
    stamp = parse_time(fields["occurred_at"]) if "occurred_at" in fields else time.time_ns() // 1000
    if stamp is None:
        raise InvalidValueError(
            "occurred_at", fields["occurred_at"], "no RFC 3339 time", "write 2026-05-11T13:10:47Z"
        )
    measured = any(
        r.file_tokens_estimate is not None or r.injected_tokens_estimate is not None for r in snapshots
    )
    return UsageEvent(
        events.event_id_from(_text("id", fields["id"])) if "id" in fields else events.new_event_id(),
        stamp,
        event,
        events.check_source(fields.get("source"), event),
        snapshots,
        session_id=check_session_id(fields.get("session_id")) or current_session_id(),
        input_tokens=events.check_count("input_tokens", fields.get("input_tokens")),
        actor=check_actor(fields.get("actor")) or current_actor(),
        trace_id=_hex("trace_id", fields.get("trace_id"), 32),
        span_id=_hex("span_id", fields.get("span_id"), 16),
        host=_optional("host", fields.get("host")),
        tokenizer=_optional("tokenizer", fields.get("tokenizer")) or (SCRIPT_ESTIMATE if measured else None),
    )


def _snapshot(fields: dict[str, Any]) -> RecordSnapshot:
    for name in fields:
        if name not in _RECORD_FIELDS:
            raise InvalidValueError(
                "records field", name, "no such field", f"use {', '.join(sorted(_RECORD_FIELDS))}"
            )
    count = {
        name: events.check_count(name, fields.get(name))
        for name in ("file_bytes", "file_tokens_estimate", "injected_bytes", "injected_tokens_estimate")
    }
    partial = fields.get("partial", False)
    if not isinstance(partial, bool):
        raise InvalidValueError("partial", partial, "no truth value", "write true or false")
    return RecordSnapshot(
        events.check_kind(fields.get("kind")),
        events.check_slug(fields.get("slug")),
        content_hash=_optional("content_hash", fields.get("content_hash")),
        partial=partial,
        **count,
    )


def _optional(name: str, value: object) -> str | None:
    return None if value is None else _text(name, value)


def _hex(name: str, value: object, digits: int) -> str | None:
    if value is None:
        return None
    text = _text(name, value).lower()
    if len(text) != digits or text.strip("0123456789abcdef"):
        raise InvalidValueError(
            name, value, f"not {digits} hexadecimal digits", "leave it out if there is none"
        )
    return text


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidValueError(name, value, "no text", "write it as a non-empty string")
    return events.well_formed(value)


def _append(made: list[UsageEvent], workspace: str | None) -> None:
    if disabled():
        note("MEMTALLY_DISABLED is set: nothing was appended")
        return
    place = find_workspace(workspace)
    new = "" if place.directory.exists() else " (a new workspace)"
    try:
        config = place.ensure()
    except OSError as error:
        raise MemtallyError(
            f"{place.directory}: cannot be created ({error.strerror}); check its owner"
        ) from None
    writer = LogWriter(
        str(place.log_path),
        root=str(place.root),
        seal_bytes=SEAL_BYTES if config.seal_bytes is None else config.seal_bytes,
    )
    # one append for all: either every line is in the log or none
    if made and not writer.append(b"".join(map(events.encode_event, made))):
        raise MemtallyError(f"{place.log_path}: cannot be written; nothing was appended; see memtally status")
    note(f"{len(made)} event{'' if len(made) == 1 else 's'} appended to {place.log_path}{new}")
