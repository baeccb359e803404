"""memtally's events inside OTLP/JSON, as log records and as spans. Pure; no OpenTelemetry needed.

An OTLP object becomes dictionaries in the shape of the log's own lines; what is not ours is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memtally.events import format_time

__all__ = ["event_from_attributes", "events", "is_otlp"]

_EVENTS = {"memtally.use": "use", "memtally.resident_exposure": "resident_exposure"}
_FIELDS = {
    "log.record.uid": "id",
    "session.id": "session_id",
    "memtally.source": "source",
    "memtally.actor": "actor",
    "memtally.host": "host",
    "memtally.tokenizer": "tokenizer",
    "memtally.input_tokens": "input_tokens",
    "memtally.records": "records",
}


def is_otlp(value: object) -> bool:
    """Whether a JSON value is an OTLP logs or traces object."""
    return isinstance(value, dict) and ("resourceLogs" in value or "resourceSpans" in value)


def events(value: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Our events in an OTLP object, as the fields of the log's lines.

    Raises ``ValueError`` when the object's structure is broken.
    """
    for resource, scope, items, name, time in (
        ("resourceLogs", "scopeLogs", "logRecords", "eventName", "timeUnixNano"),
        ("resourceSpans", "scopeSpans", "spans", "name", "startTimeUnixNano"),
    ):
        for outer in _list(value.get(resource)):
            for middle in _list(outer.get(scope)):
                for item in _list(middle.get(items)):
                    event = _EVENTS.get(str(item.get(name)))
                    if event is not None:
                        yield _event(event, item, item.get(time))


def _event(event: str, item: Mapping[str, Any], nanoseconds: object) -> dict[str, Any]:
    attributes = {str(a.get("key")): _any_value(a.get("value")) for a in _list(item.get("attributes"))}
    stamp = int(str(nanoseconds)) if nanoseconds not in (None, "", 0, "0") else None
    return event_from_attributes(
        event,
        attributes,
        stamp,
        str(item.get("traceId") or "") or None,
        str(item.get("spanId") or "") or None,
    )


def event_from_attributes(
    event: str,
    attributes: Mapping[str, Any],
    time_unix_nano: int | None,
    trace_id: str | None,
    span_id: str | None,
) -> dict[str, Any]:
    """The fields of a log line, from the attributes that OpenTelemetry carried."""
    made: dict[str, Any] = {"event": event, "trace_id": trace_id, "span_id": span_id}
    for name, field in _FIELDS.items():
        if attributes.get(name) is not None:
            made[field] = attributes[name]
    if time_unix_nano is not None:
        made["occurred_at"] = format_time(time_unix_nano // 1000)
    return made


def _any_value(value: object) -> Any:
    if not isinstance(value, dict):
        return None
    if "intValue" in value:
        return int(str(value["intValue"]))  # 64-bit integers travel as strings
    if "arrayValue" in value:
        return [_any_value(v) for v in _list((value["arrayValue"] or {}).get("values"))]
    if "kvlistValue" in value:
        pairs = _list((value["kvlistValue"] or {}).get("values"))
        return {str(pair.get("key")): _any_value(pair.get("value")) for pair in pairs}
    for name in ("stringValue", "boolValue", "doubleValue"):
        if name in value:
            return value[name]
    return None


def _list(value: object) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError("broken OTLP structure")
    return value
