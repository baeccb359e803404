"""memtally's events inside OTLP/JSON, as log records and as spans. Pure; no OpenTelemetry needed.

An OTLP object becomes dictionaries in the shape of the log's own lines; what is not ours is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memtally.events import format_time

__all__ = ["event_from_attributes", "events", "fields", "is_otlp"]

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


def events(value: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], object]]:
    """Our records and spans in an OTLP object: the event, the item as it stands, its time.

    What is broken in the structure around them holds nothing that could be read.
    """
    for resource, scope, items, name, time in (
        ("resourceLogs", "scopeLogs", "logRecords", "eventName", "timeUnixNano"),
        ("resourceSpans", "scopeSpans", "spans", "name", "startTimeUnixNano"),
    ):
        for outer in _objects(value.get(resource)):
            for middle in _objects(outer.get(scope)):
                for item in _objects(middle.get(items)):
                    event = _EVENTS.get(str(item.get(name)))
                    if event is not None:
                        yield event, item, item.get(time)


def fields(event: str, item: Mapping[str, Any], nanoseconds: object) -> dict[str, Any]:
    """The fields of a log line, from one OTLP record or span. Raises ``ValueError`` for broken values."""
    attributes = {str(a.get("key")): _any_value(a.get("value")) for a in _objects(item.get("attributes"))}
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
    if time_unix_nano is not None and 0 <= time_unix_nano < 2**64:
        made["occurred_at"] = format_time(time_unix_nano // 1000)
    return made


def _any_value(value: object) -> Any:
    if not isinstance(value, dict):
        return None
    if "intValue" in value:
        return int(str(value["intValue"]))  # 64-bit integers travel as strings
    if "arrayValue" in value:
        return [_any_value(v) for v in _objects(_object(value["arrayValue"]).get("values"))]
    if "kvlistValue" in value:
        pairs = _objects(_object(value["kvlistValue"]).get("values"))
        return {str(pair.get("key")): _any_value(pair.get("value")) for pair in pairs}
    for name in ("stringValue", "boolValue", "doubleValue"):
        if name in value:
            return value[name]
    return None


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
