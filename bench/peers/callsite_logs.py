"""Ways to record a read as one line of a log: memtally's and its stages, OpenTelemetry's, plain ones."""

# ruff: noqa: PLC0415 - each subject imports only what it needs
from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from callsite import CONTENT, SESSION, Subject, bare, count_lines

Read = Callable[[str, str], str]


def memtally_read(folder: Path) -> Subject:
    """The decorated read, persisted before it returns."""
    import memtally

    _configure(folder)
    read = memtally.instrument_read("MemoryRead")(bare)
    return Subject(read, persisted=count_lines(folder / ".memtally" / "usage.jsonl"))


def memtally_record_use(folder: Path) -> Subject:
    """The same by a call of ``record_use``."""
    import memtally

    _configure(folder)

    def read(kind: str, slug: str) -> str:
        text = bare(kind, slug)
        memtally.record_use("MemoryRead", memtally.MemoryRecord(kind, slug, text))
        return text

    return Subject(read, persisted=count_lines(folder / ".memtally" / "usage.jsonl"))


def _configure(folder: Path) -> None:
    import memtally
    from memtally.tokens import estimator

    memtally.configure(workspace=folder, session_id=SESSION)
    estimator().wait(10)


def memtally_encode(folder: Path) -> Subject:
    """The stage that makes the line of an event, with a new id; nothing is written."""
    from memtally.events import encode_event, new_event_id

    events = sample_events()

    def read(kind: str, slug: str) -> str:
        event = events[slug]
        event.id, event.occurred_at = new_event_id(), time.time_ns() // 1000
        encode_event(event)
        return bare(kind, slug)

    return Subject(read)


def memtally_append(folder: Path) -> Subject:
    """The stage that appends a line that is made already."""
    from memtally.events import encode_event
    from memtally.ledger.writer import LogWriter

    lines = {slug: encode_event(event) for slug, event in sample_events().items()}
    writer = LogWriter(str(folder / "usage.jsonl"))

    def read(kind: str, slug: str) -> str:
        writer.append(lines[slug])
        return bare(kind, slug)

    return Subject(read, persisted=count_lines(folder / "usage.jsonl"))


def sample_events() -> dict[str, Any]:
    from memtally.events import USE, RecordSnapshot, UsageEvent, new_event_id

    made = {}
    for slug, content in CONTENT.items():
        record = RecordSnapshot("decision", slug, len(content), len(content) // 4)
        made[slug] = UsageEvent(new_event_id(), time.time_ns() // 1000, USE, "MemoryRead", (record,))
        made[slug].session_id, made[slug].tokenizer = SESSION, "o200k_base"
    return made


def same_attributes() -> dict[str, Mapping[str, Any]]:
    """For each record the attributes that memtally's own event has."""
    from memtally.recording import event_attributes

    return {slug: event_attributes(event, SESSION) for slug, event in sample_events().items()}


def flat_attributes() -> dict[str, Mapping[str, Any]]:
    """The same with the record's figures beside the event's, and nothing nested."""
    flat = {}
    for slug, attributes in same_attributes().items():
        flat[slug] = {k: v for k, v in attributes.items() if not isinstance(v, list)}
        [record] = attributes["memtally.records"]
        flat[slug].update((f"memtally.record.{name}", value) for name, value in record.items())
    return flat


def emitting(exporter: Any, attributes: Mapping[str, Mapping[str, Any]]) -> Read:
    """A read that emits one log record by OpenTelemetry's SDK through the simple processor."""
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor

    provider = LoggerProvider()
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    logger = provider.get_logger("bench")

    def read(kind: str, slug: str) -> str:
        now = time.time_ns()
        logger.emit(
            LogRecord(
                timestamp=now,
                observed_timestamp=now,
                severity_number=SeverityNumber.INFO,
                event_name="memtally.use",
                attributes=attributes[slug],
            )
        )
        return bare(kind, slug)

    return read


def sdk(attributes: Callable[[], dict[str, Mapping[str, Any]]]) -> Callable[[Path], Subject]:
    """The SDK alone: its exporter does nothing."""

    def make(folder: Path) -> Subject:
        from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult

        class Nowhere(LogRecordExporter):
            def export(self, batch: Any) -> LogRecordExportResult:
                return LogRecordExportResult.SUCCESS

            def shutdown(self) -> None: ...

            def force_flush(self, timeout_millis: int = 0) -> bool:
                return True

        return Subject(emitting(Nowhere(), attributes()))

    return make


def otlp_json_file(attributes: Callable[[], dict[str, Mapping[str, Any]]]) -> Callable[[Path], Subject]:
    """The official exporter of OTLP's JSON to a file."""

    def make(folder: Path) -> Subject:
        from opentelemetry.exporter.otlp.json.file._log_exporter import FileLogExporter

        file = folder / "otlp.jsonl"
        return Subject(emitting(FileLogExporter(file), attributes()), persisted=count_lines(file))

    return make


def structlog_orjson(folder: Path) -> Subject:
    """structlog, rendered by orjson, into a file; no tracing."""
    import orjson
    import structlog

    file = folder / "structlog.jsonl"
    structlog.configure(
        processors=[
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.JSONRenderer(serializer=orjson.dumps),
        ],
        logger_factory=structlog.BytesLoggerFactory(file=file.open("ab")),
        cache_logger_on_first_use=True,
    )
    logger, attributes = structlog.get_logger(), flat_attributes()

    def read(kind: str, slug: str) -> str:
        logger.info("memtally.use", **attributes[slug])
        return bare(kind, slug)

    return Subject(read, persisted=count_lines(file))


def standard_logging(folder: Path) -> Subject:
    """The standard library's ``logging`` with a ``FileHandler``, the fields as JSON; no tracing."""
    file = folder / "logging.jsonl"
    handler = logging.FileHandler(file)
    handler.setFormatter(logging.Formatter('{"at":"%(asctime)s","event":%(message)s}'))
    logger, attributes = logging.getLogger("bench"), flat_attributes()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False

    def read(kind: str, slug: str) -> str:
        logger.info(json.dumps(attributes[slug]))
        return bare(kind, slug)

    return Subject(read, persisted=count_lines(file))


def by_hand(folder: Path) -> Subject:
    """What one writes without a library: open, ``json.dumps``, write, close."""
    file, attributes = folder / "by-hand.jsonl", flat_attributes()

    def read(kind: str, slug: str) -> str:
        with open(file, "a", encoding="utf-8") as stream:
            stream.write(json.dumps({"at": time.time(), **attributes[slug]}) + "\n")
        return bare(kind, slug)

    return Subject(read, persisted=count_lines(file))


def bare_append(folder: Path) -> Subject:
    """The least: one ``os.write`` of a line that is made already."""
    from memtally.events import encode_event

    file = folder / "bare.jsonl"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    lines = {slug: encode_event(event) for slug, event in sample_events().items()}

    def read(kind: str, slug: str) -> str:
        os.write(descriptor, lines[slug])
        return bare(kind, slug)

    return Subject(read, persisted=count_lines(file))


SUBJECTS: dict[str, Callable[[Path], Subject]] = {
    "memtally read": memtally_read,
    "memtally record_use": memtally_record_use,
    "memtally stage: id and line": memtally_encode,
    "memtally stage: append": memtally_append,
    "SDK emit, no-op exporter": sdk(same_attributes),
    "SDK emit, no-op exporter, flat": sdk(flat_attributes),
    "otlp-json-file": otlp_json_file(same_attributes),
    "otlp-json-file, flat": otlp_json_file(flat_attributes),
    "structlog with orjson": structlog_orjson,
    "logging.FileHandler": standard_logging,
    "by hand": by_hand,
    "os.write alone": bare_append,
}
