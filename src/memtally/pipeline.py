"""``configure()``: wire the events to the workspace's log, and where wanted to OTLP.

The workspace log has a logger of its own, made here: no environment variable, limit, sampler or
processor of the host's can cut, drop or delay what goes into it. The line is in the kernel before the
read returns. OTLP has a logger of its own too, batched in the background. A provider that the host
has set up gets the events besides (see ``recording``).
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from opentelemetry._logs import Logger, LogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter
from opentelemetry.sdk.resources import Resource

from memtally import faults, recording, semconv, tokens
from memtally.context import check_defaults, disabled, sdk_disabled, set_defaults
from memtally.errors import ConfigError, InvalidValueError
from memtally.workspace import Workspace, find_workspace

if TYPE_CHECKING:
    from memtally_exporters import WorkspaceLogExporter

__all__ = ["configure", "shutdown"]

OTLP_EXIT_SECONDS = 2.0
"""How long the end of the process waits for a collector, at most."""


@dataclass
class _Pipeline:
    """Where events go: the workspace's logger first, so that the log has them before anything else."""

    workspace: Workspace | None = None
    workspace_id: str | None = None
    problem: str | None = None
    workspace_logger: Logger | None = None
    otlp_logger: Logger | None = None
    closers: list[Callable[[], None]] = field(default_factory=list)

    @property
    def destination(self) -> recording.Destination:
        loggers = [logger for logger in (self.workspace_logger, self.otlp_logger) if logger is not None]
        root = None if self.workspace is None else str(self.workspace.root)
        return recording.Destination(tuple(loggers), self.workspace_id, root)


_pipeline = _Pipeline()
_lock = threading.Lock()


def configure(
    workspace: str | os.PathLike[str] | None = None,
    *,
    otlp: bool = False,
    session_id: str | None = None,
    actor: str | None = None,
    tokenizer: str | None = None,
    durability: Literal["write", "fsync"] = "write",
) -> None:
    """Record reads from now on, in this process. Called once, by the application.

    ``workspace``: whose memory it is; found by the rules of ``memtally.workspace`` when not given.
    ``otlp``: also forward to a collector, by the standard ``OTEL_EXPORTER_OTLP_*`` variables (needs the
    ``otlp`` extra). ``session_id``, ``actor``: the process's, where no ``session()`` block says
    otherwise. ``tokenizer``: what estimates tokens (``MEMTALLY_TOKENIZER``, else ``o200k_base``); its
    vocabulary is loaded in the background. ``durability``: ``"fsync"`` also survives a power loss.

    A second call replaces the first; no event goes both ways. Under ``MEMTALLY_DISABLED`` nothing is
    recorded. Raises a ``MemtallyError`` in one line for wrong arguments, an unknown workspace, a
    malformed configuration file, a missing extra. Where the workspace cannot be written, it warns, and
    events wait until it can.
    """
    if durability not in ("write", "fsync"):
        raise InvalidValueError("durability", durability, "no such durability", 'use "write" or "fsync"')
    place = find_workspace(workspace)
    check_defaults(session_id, actor)
    with _lock:
        if disabled():
            set_defaults(session_id, actor)
            _replace(_Pipeline())
            return
        # all that can fail comes first: a call that raises leaves the pipeline of before in place
        tokens.check_tokenizer(tokenizer or os.environ.get("MEMTALLY_TOKENIZER") or tokens.DEFAULT_TOKENIZER)
        exporter = _otlp_exporter() if otlp and not sdk_disabled() else None
        tokens.preload(tokenizer)
        made = _build(place, exporter, durability == "fsync")
        set_defaults(session_id, actor)
        _replace(made)
        if made.problem is not None:
            faults.note("log_unwritable", made.problem)
        if sdk_disabled():
            faults.note(
                "sdk_disabled",
                "OTEL_SDK_DISABLED is set: nothing is forwarded by OpenTelemetry; "
                "the workspace log goes on (MEMTALLY_DISABLED=1 stops it)",
            )


def _otlp_exporter() -> LogRecordExporter:
    from memtally_exporters.otlp import otlp_exporter  # noqa: PLC0415 - an extra

    return otlp_exporter()


def _build(place: Workspace, otlp: LogRecordExporter | None, fsync: bool) -> _Pipeline:
    from memtally_exporters import WorkspaceLogExporter  # noqa: PLC0415 - exporters import memtally

    problem = None
    try:
        config = place.ensure()
    except (OSError, ConfigError) as error:
        if isinstance(error, ConfigError) and not error.unreadable:
            raise
        # what the machine refuses, perhaps only now, is no reason to stop the host
        config = place.config_if_readable()
        problem = (
            f"{place.directory}: cannot be prepared ({getattr(error, 'strerror', None) or error}); "
            f"events wait in memory, see memtally status"
        )
    made = _Pipeline(place, config.workspace_id, problem)
    exporter = WorkspaceLogExporter(place.root, fsync=fsync, seal_bytes=config.seal_bytes)
    made.workspace_logger = SynchronousLogger(exporter)
    made.closers.append(exporter.shutdown)
    if otlp is not None:
        from memtally_exporters.otlp import batching_logger  # noqa: PLC0415 - an extra

        resource = Resource.create({semconv.WORKSPACE_ID: config.workspace_id or ""})
        made.otlp_logger, close = batching_logger(otlp, resource, OTLP_EXIT_SECONDS)
        made.closers.append(close)
    return made


def shutdown() -> None:
    """Stop recording: write what waits, flush OTLP within its bound, forget the pipeline."""
    with _lock:
        _replace(_Pipeline())


def _replace(made: _Pipeline) -> None:
    """Put a pipeline in the place of the present one; no event falls between the two."""
    global _pipeline
    before, _pipeline = _pipeline, made
    recording.forget_host_logger()
    recording.use_destination(made.destination)
    for close in before.closers:
        with recording.guarded("shutdown"):
            close()
    faults.flush()  # what went wrong there belongs to the workspace of before
    if made.workspace is not None:
        faults.bind(str(made.workspace.directory))


def _at_exit() -> None:
    """End within bounds, and count what could not be written.

    The workspace's logger stays: its writer opens the log again for handlers that run after this one.
    """
    for close in _pipeline.closers:
        with recording.guarded("shutdown"):
            close()
    if _pipeline.workspace_logger is not None:
        recording.use_destination(_pipeline.destination._replace(loggers=(_pipeline.workspace_logger,)))
    faults.flush()


class SynchronousLogger(Logger):
    """An OpenTelemetry logger that hands each record to one exporter before ``emit`` returns.

    It is a logger of the API with nothing in between: no limits, no queue, no environment.
    """

    def __init__(self, exporter: WorkspaceLogExporter) -> None:
        super().__init__(semconv.SCOPE_NAME, semconv.SCOPE_VERSION, semconv.SCHEMA_URL)
        self.exporter = exporter

    def emit(self, record: LogRecord | None = None, **parts: Any) -> None:
        """Export one record, given whole or by its parts."""
        self.exporter.export_record(LogRecord(**parts) if record is None else record)

    def enabled(self, **_: Any) -> bool:
        """Always: what is configured is wanted."""
        return True


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
