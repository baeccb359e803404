"""OTLP forwarding: a logger of memtally's own, batched in the background, bounded at exit.

Needs the ``otlp`` extra. Endpoint, protocol, headers and certificates come from the standard
``OTEL_EXPORTER_OTLP_*`` variables. It has no attribute limits: ids and slugs arrive whole.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from opentelemetry._logs import Logger, LogRecord
from opentelemetry.sdk._logs import ReadWriteLogRecord
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from memtally import semconv
from memtally.errors import InvalidValueError, MemtallyError

__all__ = ["open_otlp_logger"]


def open_otlp_logger(resource: Resource, exit_seconds: float) -> tuple[Logger, Callable[[], None]]:
    """A logger that forwards to a collector, and the function that ends it within ``exit_seconds``.

    Raises ``MemtallyError`` when the extra is missing, ``InvalidValueError`` for an unknown protocol.
    """
    processor = BatchLogRecordProcessor(_exporter())

    def close() -> None:
        # the SDK's own shutdown may wait for half a minute on a dead collector
        ending = threading.Thread(target=processor.shutdown, name="memtally-otlp-exit", daemon=True)
        ending.start()
        ending.join(exit_seconds)

    return _BatchingLogger(processor, resource), close


class _NoLimits:
    """Stands for ``LogRecordLimits``, whose own constructor takes limits from the host's environment."""

    max_attributes = None
    max_attribute_length = None
    max_log_record_attributes = None
    max_log_record_attribute_length = None


class _BatchingLogger(Logger):
    """An OpenTelemetry logger that puts each record into a batch processor's queue, unlimited."""

    def __init__(self, processor: BatchLogRecordProcessor, resource: Resource) -> None:
        super().__init__(semconv.SCOPE_NAME, semconv.SCOPE_VERSION, semconv.SCHEMA_URL)
        self._processor = processor
        self._resource = resource
        self._scope = InstrumentationScope(semconv.SCOPE_NAME, semconv.SCOPE_VERSION, semconv.SCHEMA_URL)
        self._limits: Any = _NoLimits()

    def emit(self, record: LogRecord | None = None, **parts: Any) -> None:
        """Queue one record, given whole or by its parts."""
        if record is None:
            record = LogRecord(**parts)
        self._processor.on_emit(ReadWriteLogRecord(record, self._resource, self._scope, limits=self._limits))

    def enabled(self, **_: Any) -> bool:
        """Always: what is configured is wanted."""
        return True


def _exporter() -> LogRecordExporter:
    protocol = (
        os.environ.get("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL")
        or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        or "grpc"
    )
    try:
        if protocol == "grpc":
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
