"""Export memtally's log events to the usage log of a workspace.

By name, the environment way (the SDK wraps it in a batch: a killed process can lose events)::

    OTEL_LOGS_EXPORTER=memtally MEMTALLY_WORKSPACE=/path/to/workspace

or in a declarative file, where ``simple`` is durable::

    logger_provider:
      processors:
        - simple:
            exporter:
              memtally:
                workspace: /path/to/workspace

Records that are not memtally's pass by. ``export()`` never raises: an event that cannot be written yet
waits in memory, and one that limits of the SDK's have damaged is refused, said once and counted.
Constructing it with a wrong workspace raises.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult

from memtally import faults, semconv, tokens
from memtally.errors import MemtallyError
from memtally.events import UsageEvent, encode_event, event_id_from
from memtally.ledger.decode import event_from_fields
from memtally.ledger.otlp import event_from_attributes
from memtally.ledger.writer import SEAL_BYTES, LogWriter
from memtally.workspace import find_workspace

__all__ = ["WorkspaceLogExporter"]

_EVENTS = {name: event for event, name in semconv.EVENT_NAMES.items()}


class WorkspaceLogExporter(LogRecordExporter):
    """Appends each memtally event to ``.memtally/usage.jsonl``, one whole line under a lock.

    ``workspace``: the folder, found by memtally's rules when not given. ``fsync``: force each line to
    the disk. ``seal_bytes``: size at which the log is sealed; the configuration's by default. Raises
    ``MemtallyError`` when there is no such workspace or its configuration is malformed.
    """

    def __init__(
        self,
        workspace: str | os.PathLike[str] | None = None,
        *,
        fsync: bool = False,
        seal_bytes: int | None = None,
    ) -> None:
        place = find_workspace(workspace)
        if seal_bytes is None:
            seal_bytes = place.config_if_readable().seal_bytes
        self.path = str(place.log_path)
        self._writer = LogWriter(
            self.path,
            root=str(place.root),
            fsync=fsync,
            seal_bytes=SEAL_BYTES if seal_bytes is None else seal_bytes,
        )
        faults.bind(str(place.directory), replace=False)
        tokens.preload_default()

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        """Write the batch's events; ``FAILURE`` when one is not in the file (it may still wait)."""
        whole = True
        for readable in batch:
            try:
                whole = self._export_one(readable) and whole
            except Exception as error:  # whatever a record holds, the host goes on
                whole = False
                faults.note("export_failed", "an event could not be exported to the usage log", error)
        return LogRecordExportResult.SUCCESS if whole else LogRecordExportResult.FAILURE

    def export_record(self, record: Any) -> bool:
        """Write the event of one log record that carries it; whether it is in the file now.

        For a logger that has nothing but this exporter behind it. A record without an event is none of
        memtally's, or has gone through somebody's hands: those take ``export()``.
        """
        event = getattr(record, "usage_event", None)
        if event is None or record.persisted_to == self.path:
            return True
        if not self._writer.append(encode_event(event)):
            return False
        record.persisted_to = self.path
        return True

    def _export_one(self, readable: ReadableLogRecord) -> bool:
        record: Any = readable.log_record
        if getattr(record, "usage_event", None) is not None:
            return self.export_record(record)
        kind = _EVENTS.get(record.event_name or "")
        if kind is None:
            return True  # somebody else's log record
        event = _from_attributes(kind, readable)
        return event is not None and self._writer.append(encode_event(event))

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Try once more to write what waits; whether nothing waits any more."""
        return self._writer.flush()

    def shutdown(self) -> None:
        """Write what waits, if possible, and close the file."""
        self._writer.close()


def _from_attributes(kind: str, readable: ReadableLogRecord) -> UsageEvent | None:
    """The event of a record that comes without one, unless the SDK's limits have damaged it."""
    record = readable.log_record
    attributes: Mapping[str, Any] = record.attributes or {}
    limit = getattr(getattr(readable, "limits", None), "max_log_record_attribute_length", None)
    uid = str(attributes.get(semconv.LOG_RECORD_UID))
    # the oldest SDK does not tell its limits: there a cut id gives the damage away
    if readable.dropped_attributes or _reaches(attributes, limit) or event_id_from(uid) != uid:
        faults.note(
            "damaged_by_limits",
            "an event was refused: the SDK's attribute limits cut it (OTEL_*_LIMIT); raise them, "
            "or call memtally.configure(), which no limit touches",
        )
        return None
    fields = event_from_attributes(
        kind,
        _plain(attributes),
        record.timestamp,
        f"{record.trace_id:032x}" if record.trace_id else None,
        f"{record.span_id:016x}" if record.span_id else None,
    )
    try:
        return event_from_fields(fields)
    except MemtallyError as error:
        faults.note("malformed_event", "an event was refused: its attributes name no memtally event", error)
        return None


def _plain(value: Any) -> Any:
    """The SDK's attribute containers as plain lists and dictionaries."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value


def _reaches(value: Any, limit: int | None) -> bool:
    """Whether any text has just the limit's length: it may have been longer."""
    if limit is None:
        return False
    if isinstance(value, str):
        return len(value) >= limit
    if isinstance(value, Mapping):
        return any(_reaches(inner, limit) for inner in value.values())
    if isinstance(value, (list, tuple)):
        return any(_reaches(inner, limit) for inner in value)
    return False
