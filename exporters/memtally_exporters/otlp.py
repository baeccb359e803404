"""OTLP forwarding: a provider of memtally's own, batched in the background, bounded at exit.

Needs the ``otlp`` extra. Endpoint, protocol, headers and certificates come from the standard
``OTEL_EXPORTER_OTLP_*`` variables. The provider has no attribute limits: ids and slugs arrive whole.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from opentelemetry._logs import Logger
from opentelemetry.sdk._logs import LoggerProvider, LogRecordLimits
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter
from opentelemetry.sdk.resources import Resource

from memtally import semconv
from memtally.errors import InvalidValueError, MemtallyError

__all__ = ["open_otlp_logger"]


def open_otlp_logger(resource: Resource, exit_seconds: float) -> tuple[Logger, Callable[[], None]]:
    """A logger that forwards to a collector, and the function that ends it within ``exit_seconds``.

    Raises ``MemtallyError`` when the extra is missing, ``InvalidValueError`` for an unknown protocol.
    """
    exporter = _exporter()
    unlimited = LogRecordLimits(
        max_attributes=LogRecordLimits.UNSET,
        max_attribute_length=LogRecordLimits.UNSET,
        max_log_record_attributes=LogRecordLimits.UNSET,
        max_log_record_attribute_length=LogRecordLimits.UNSET,
    )
    provider = LoggerProvider(resource, shutdown_on_exit=False, log_record_limits=unlimited)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))

    def close() -> None:
        # the SDK's own shutdown may wait for half a minute on a dead collector
        ending = threading.Thread(target=provider.shutdown, name="memtally-otlp-exit", daemon=True)
        ending.start()
        ending.join(exit_seconds)

    return provider.get_logger(semconv.SCOPE_NAME, semconv.SCOPE_VERSION, semconv.SCHEMA_URL), close


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
