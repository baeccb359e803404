"""OTLP forwarding: a logger of memtally's own, batched in the background, bounded at exit.

Needs the ``otlp`` extra. Endpoint, protocol, headers and certificates come from the standard
``OTEL_EXPORTER_OTLP_*`` variables. It has no attribute limits: ids and slugs arrive whole.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote

from opentelemetry._logs import Logger, LogRecord
from opentelemetry.sdk._logs import ReadableLogRecord, ReadWriteLogRecord
from opentelemetry.sdk._logs.export import (
    BatchLogRecordProcessor,
    LogRecordExporter,
    LogRecordExportResult,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from memtally import faults, semconv
from memtally.errors import InvalidValueError, MemtallyError

__all__ = ["batching_logger", "otlp_exporter"]


def batching_logger(
    exporter: LogRecordExporter, resource: Resource, exit_seconds: float
) -> tuple[Logger, Callable[[], None]]:
    """A logger that forwards in the background, and the function that ends it within ``exit_seconds``."""
    forwarded = _Forwarded(exporter)
    processor = BatchLogRecordProcessor(forwarded)
    shutdown = _BoundedShutdown(processor.shutdown, exit_seconds)

    def close() -> None:
        shutdown()
        forwarded.settle()

    return _BatchingLogger(processor, resource, forwarded), close


class _Forwarded(LogRecordExporter):
    """Hands on to the real exporter, and counts what does not get through: the queue drops in silence.

    While the process lives, "at least" so many: how full the queue is can be told from outside only to
    within one batch.
    """

    def __init__(self, exporter: LogRecordExporter) -> None:
        self._exporter = exporter
        self._room = _number("OTEL_BLRP_MAX_QUEUE_SIZE", 2_048) + _number(
            "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", 512
        )
        self._lock = threading.Lock()
        self._queued = self._taken = self._dropped = 0
        self._process = os.getpid()

    def count_queued(self) -> None:
        """One more goes into the queue."""
        if self._process != os.getpid():  # a forked child begins with an empty queue
            self._lock, self._process = threading.Lock(), os.getpid()
            self._queued = self._taken = self._dropped = 0
        with self._lock:
            self._queued += 1
        self._note_dropped(self._room)

    def settle(self) -> None:
        """At the end: what was not taken until now is not forwarded any more."""
        if self._process == os.getpid():
            self._note_dropped(0)

    def _note_dropped(self, room: int) -> None:
        with self._lock:
            lost = self._queued - self._taken - self._dropped - room
            self._dropped += max(lost, 0)
        if lost > 0:
            faults.note(
                "otlp_dropped",
                "OTLP: events were not forwarded, for the collector was too slow; the workspace log has them",
                count=lost,
            )

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        with self._lock:
            self._taken += len(batch)
        result = self._exporter.export(batch)
        if result is not LogRecordExportResult.SUCCESS:
            faults.note(
                "otlp_failed",
                "OTLP: the collector did not take some events; the workspace log has them",
                count=len(batch),
            )
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _number(variable: str, default: int) -> int:
    value = os.environ.get(variable, "")
    return int(value) if value.isascii() and value.isdigit() else default


class _BoundedShutdown:
    """Ends a processor whose own shutdown may wait for half a minute on a dead collector.

    The thread that waits in our place is there from the start: when a process ends, Python 3.12 and newer
    start no more. A forked child, which has no threads of its parent's, gets one of its own.
    """

    def __init__(self, shutdown: Callable[[], None], seconds: float) -> None:
        self._shutdown = shutdown
        self._seconds = seconds
        self._begin()
        if hasattr(os, "register_at_fork"):
            begin = weakref.WeakMethod(self._begin)

            def begin_in_child() -> None:
                if (bound := begin()) is not None:
                    bound()

            os.register_at_fork(after_in_child=begin_in_child)

    def __call__(self) -> None:
        self._wanted.set()
        self._thread.join(self._seconds)

    def _begin(self) -> None:
        self._wanted = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memtally-otlp-exit", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._wanted.wait()
        self._shutdown()


class _NoLimits:
    """Stands for ``LogRecordLimits``, whose own constructor takes limits from the host's environment."""

    max_attributes = None
    max_attribute_length = None
    max_log_record_attributes = None
    max_log_record_attribute_length = None


class _BatchingLogger(Logger):
    """An OpenTelemetry logger that puts each record into a batch processor's queue, unlimited."""

    def __init__(self, processor: BatchLogRecordProcessor, resource: Resource, forwarded: _Forwarded) -> None:
        super().__init__(semconv.SCOPE_NAME, semconv.SCOPE_VERSION, semconv.SCHEMA_URL)
        self._processor = processor
        self._forwarded = forwarded
        self._resource = resource
        self._scope = InstrumentationScope(semconv.SCOPE_NAME, semconv.SCOPE_VERSION, semconv.SCHEMA_URL)
        self._limits: Any = _NoLimits()

    def emit(self, record: LogRecord | None = None, **parts: Any) -> None:
        """Queue one record, given whole or by its parts."""
        if record is None:
            record = LogRecord(**parts)
        self._forwarded.count_queued()
        self._processor.on_emit(ReadWriteLogRecord(record, self._resource, self._scope, limits=self._limits))

    def enabled(self, **_: Any) -> bool:
        """Always: what is configured is wanted."""
        return True


_ENDPOINTS = ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_HEADERS = ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
_LOGGERS = (
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
    "opentelemetry.exporter.otlp.proto.http._common",
    "opentelemetry.exporter.otlp.proto.http._log_exporter",
    "opentelemetry.util.re",
    "urllib3.connectionpool",
)


class _Redacting(logging.Filter):
    """Takes the credentials of the OTLP variables out of what the exporters and their libraries log."""

    def __init__(self) -> None:
        super().__init__()
        secrets: set[str] = set()
        for name in _ENDPOINTS:
            authority, _, query = os.environ.get(name, "").partition("?")
            user = authority.rpartition("@")[0].rpartition("//")[2]
            secrets |= {user, user.partition(":")[2], query}
        for name in _HEADERS:
            headers = os.environ.get(name, "")
            for pair in (headers, *headers.split(",")):
                secrets |= {pair.strip(), pair.partition("=")[2].strip()}
        secrets |= {unquote(secret) for secret in secrets}
        secrets |= {repr(secret)[1:-1] for secret in secrets}  # as it stands in a quoted message
        self._secrets = sorted((s for s in secrets if len(s) >= 3), key=len, reverse=True)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is to be said; its text is changed where it must be."""
        if not self._secrets:
            return True
        try:
            text = record.getMessage()
        except Exception:  # a malformed record of somebody's: what it would have said is not known
            return False
        if record.exc_info:  # a traceback ends in the library's own words
            text += f" ({getattr(record.exc_info[0], '__name__', 'error')})"
            record.exc_info = record.exc_text = None
        for secret in self._secrets:
            text = text.replace(secret, "***")
        record.msg, record.args = text, ()
        return True


def _redact() -> None:
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        for old in [known for known in logger.filters if isinstance(known, _Redacting)]:
            logger.removeFilter(old)
        logger.addFilter(_Redacting())


def otlp_exporter() -> LogRecordExporter:
    """The official exporter for the protocol that the environment names, gRPC by default.

    Raises ``MemtallyError`` when the extra is missing or a variable is malformed, ``InvalidValueError`` for
    an unknown protocol. No credentials of the variables are logged or said.
    """
    _redact()
    try:
        return _official_exporter()
    except MemtallyError:
        raise
    except Exception as error:  # the exporters parse their variables themselves
        raise MemtallyError(
            f"otlp=True: the exporter cannot be made ({type(error).__name__}); "
            f"check the OTEL_EXPORTER_OTLP_* variables"
        ) from None


def _official_exporter() -> LogRecordExporter:
    protocol = (
        os.environ.get("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL")
        or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        or "grpc"
    )
    try:
        if protocol == "grpc":
            if any("@" in os.environ.get(name, "") for name in _ENDPOINTS):
                raise MemtallyError(
                    "OTEL_EXPORTER_OTLP_ENDPOINT: gRPC takes no user name in an address, and would print it; "
                    "use OTEL_EXPORTER_OTLP_HEADERS"
                )
            from opentelemetry.exporter.otlp.proto.grpc._log_exporter import (  # noqa: PLC0415
                OTLPLogExporter as GrpcExporter,
            )

            return GrpcExporter()
        if protocol == "http/protobuf":
            from opentelemetry.exporter.otlp.proto.http._log_exporter import (  # noqa: PLC0415
                OTLPLogExporter as HttpExporter,
            )

            return HttpExporter()
    except ImportError:
        raise MemtallyError(
            f"otlp=True ({protocol}): the exporter is not installed; pip install 'memtally[otlp]'"
        ) from None
    raise InvalidValueError(
        "OTEL_EXPORTER_OTLP_PROTOCOL", protocol, "no such protocol here", "use grpc or http/protobuf"
    )
