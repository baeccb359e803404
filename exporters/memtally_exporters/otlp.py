"""OTLP forwarding: a logger of memtally's own, batched in the background, bounded at exit.

Needs the ``otlp`` extra. Endpoint, protocol, headers and certificates come from the standard
``OTEL_EXPORTER_OTLP_*`` variables. It has no attribute limits: ids and slugs arrive whole.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

from opentelemetry._logs import Logger, LogRecord
from opentelemetry.sdk._logs import ReadWriteLogRecord
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from memtally import semconv
from memtally.errors import InvalidValueError, MemtallyError

__all__ = ["batching_logger", "otlp_exporter"]


def batching_logger(
    exporter: LogRecordExporter, resource: Resource, exit_seconds: float
) -> tuple[Logger, Callable[[], None]]:
    """A logger that forwards in the background, and the function that ends it within ``exit_seconds``."""
    processor = BatchLogRecordProcessor(exporter)
    return _BatchingLogger(processor, resource), _BoundedShutdown(processor.shutdown, exit_seconds)


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


def otlp_exporter() -> LogRecordExporter:
    """The official exporter for the protocol that the environment names, gRPC by default.

    Raises ``MemtallyError`` when the extra is missing, ``InvalidValueError`` for an unknown protocol.
    """
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
