"""Ways to record a read as a span: each tracing product by its own decorator, without a network.

What they would send goes to a file of compact JSON, a line a span, where they take an exporter; mlflow
writes its own store of files. Each keeps what its defaults keep, for some also the text that was read.
"""

# ruff: noqa: PLC0415 - each subject imports only what it needs, after its settings
from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from callsite import Absent, Subject, bare, count_lines
from callsite_logs import flat_attributes


def file_exporter(file: Path) -> Any:
    """OpenTelemetry's console exporter, into a file."""
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter

    return ConsoleSpanExporter(
        out=file.open("a", encoding="utf-8"), formatter=lambda span: span.to_json(indent=None) + "\n"
    )


def console_spans(folder: Path) -> Subject:
    """OpenTelemetry's SDK alone: a span with the event's attributes."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    file = folder / "spans.jsonl"
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(file_exporter(file)))
    tracer, attributes = provider.get_tracer("bench"), flat_attributes()

    def read(kind: str, slug: str) -> str:
        with tracer.start_as_current_span("memtally.use", attributes=attributes[slug]):
            return bare(kind, slug)

    return Subject(read, persisted=count_lines(file))


def logfire(folder: Path) -> Subject:
    """logfire's ``instrument``; nothing is sent."""
    import logfire
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    file = folder / "logfire.jsonl"
    logfire.configure(
        send_to_logfire=False,
        console=False,
        metrics=False,
        inspect_arguments=False,
        data_dir=folder,
        additional_span_processors=[SimpleSpanProcessor(file_exporter(file))],
    )
    # logfire also sends a pending span when one begins, which is no second event
    written = count_spans(file, exclude='"pending_span"')
    return Subject(logfire.instrument("read {slug}")(bare), persisted=written)


def count_spans(file: Path, exclude: str) -> Callable[[], int]:
    """A function that counts the lines of a file that do not hold a text."""
    return lambda: sum(exclude not in line for line in file.read_text("utf-8").splitlines())


def traceloop(folder: Path) -> Subject:
    """traceloop's ``tool``; nothing is sent."""
    os.environ["TRACELOOP_METRICS_ENABLED"] = "false"
    from traceloop.sdk import Traceloop
    from traceloop.sdk.decorators import tool

    file = folder / "traceloop.jsonl"
    Traceloop.init(
        app_name="bench",
        exporter=file_exporter(file),
        disable_batch=True,
        telemetry_enabled=False,
        instruments=set(),
    )
    return Subject(tool(name="read")(bare), persisted=count_lines(file))


def openinference(folder: Path) -> Subject:
    """openinference's tracer and its ``tool``."""
    from openinference.instrumentation import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    file = folder / "openinference.jsonl"
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(file_exporter(file)))
    return Subject(provider.get_tracer("bench").tool(name="read")(bare), persisted=count_lines(file))


def langfuse(folder: Path) -> Subject:
    """langfuse's ``observe``. It batches always: the time is that until all is in the file."""
    from langfuse import Langfuse, observe

    os.environ["OTEL_BSP_MAX_QUEUE_SIZE"] = "1000000"  # no span is dropped for want of room
    file = folder / "langfuse.jsonl"
    client = Langfuse(
        public_key="pk-lf-bench",
        secret_key="sk-lf-bench",
        base_url="http://127.0.0.1:9",  # nobody listens there
        span_exporter=file_exporter(file),
        flush_at=1,
    )
    return Subject(observe(name="read")(bare), client.flush, count_lines(file))


def mlflow(folder: Path) -> Subject:
    """mlflow's ``trace`` into its store of files."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = os.environ["DO_NOT_TRACK"] = "true"
    os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow

    store = folder / "mlruns"
    mlflow.set_tracking_uri(store.as_uri())
    mlflow.set_experiment("bench")
    read = mlflow.trace(bare, name="read")
    read("decision", next(iter(flat_attributes())))

    def written() -> int:
        return sum(1 for _ in store.rglob("traces.json")) - 1

    if written() != 0:
        raise Absent("its store of files keeps no spans")
    return Subject(read, persisted=written)


SUBJECTS: dict[str, Callable[[Path], Subject]] = {
    "console spans": console_spans,
    "logfire": logfire,
    "traceloop": traceloop,
    "openinference": openinference,
    "langfuse": langfuse,
    "mlflow": mlflow,
}
