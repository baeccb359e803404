"""From what was read to an OpenTelemetry log event.

``record_use()`` and ``record_exposure()`` are the public way in; the decorators end here too. An event
goes out as one log record by the OpenTelemetry **API**: to the loggers that ``configure()`` set up
(workspace log first, so that it is in the kernel before the read returns), and to the host's own
provider where it has one.

Nothing that fails here reaches a read path: ``guarded`` turns it into one line per kind of fault in
the ``memtally`` logger, and a count that ``memtally status`` shows.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, NamedTuple

from opentelemetry import trace
from opentelemetry._logs import Logger, LogRecord, SeverityNumber, get_logger
from opentelemetry.context import Context, get_current, get_value

from memtally import faults, semconv
from memtally.context import check_actor, check_session_id, current_actor, current_session_id, disabled
from memtally.errors import InvalidValueError
from memtally.events import (
    EXPOSURE,
    USE,
    RecordSnapshot,
    UsageEvent,
    check_count,
    check_source,
    event_id_from,
    new_event_id,
)
from memtally.records import MemoryRecord, snapshots
from memtally.workspace import find_workspace

__all__ = [
    "Destination",
    "Moment",
    "UsageLogRecord",
    "as_records",
    "emit_event",
    "event_attributes",
    "failed",
    "forget_host_logger",
    "guarded",
    "make_event",
    "record_exposure",
    "record_use",
    "recording_enabled",
    "use_destination",
]

_SUPPRESS = "suppress_instrumentation"


class Destination(NamedTuple):
    """Where every event goes: these loggers, in this order, and the host's own provider if it may.

    ``root``: the workspace, out of which no link is followed to measure a file.
    """

    loggers: tuple[Logger, ...] = ()
    workspace_id: str | None = None
    root: str | None = None
    host_gets_events: bool = True


# Set by configure() and by testing.capture(); one value, so that no read sees half of a change.
_destination = Destination()
_host_logger: Logger | None = None


class UsageLogRecord(LogRecord):
    """The log record of one usage event. It carries the event itself, whole.

    ``attributes`` are made from the event when somebody asks for them; what an exporter reads from
    ``usage_event`` no limit of the host's can have cut. ``persisted_to`` names the log file that
    already holds the event, so that a second exporter of the same log does not write it again.
    """

    def __init__(self, event: UsageEvent, workspace_id: str | None) -> None:
        # what the base class would set, whichever its version, without asking for the span once more
        self.__dict__.update(_BLANK)
        self.timestamp = _otlp_time(event.occurred_at)
        self.observed_timestamp = time.time_ns()
        self.context = get_current()
        if event.trace_id is not None and event.span_id is not None:
            self.trace_id, self.span_id = int(event.trace_id, 16), int(event.span_id, 16)
            self.trace_flags = trace.get_current_span(self.context).get_span_context().trace_flags
        self.event_name = semconv.EVENT_NAMES[event.event]
        self.usage_event = event
        self.workspace_id = workspace_id
        self.persisted_to: str | None = None
        self._made: Any = None

    @property
    def attributes(self) -> Any:
        """The event's attributes, by semantic convention where there is one."""
        if self._made is None:
            self._made = event_attributes(self.usage_event, self.workspace_id)
        return self._made

    @attributes.setter
    def attributes(self, value: Any) -> None:
        self._made = value


_BLANK = {
    name: value
    for name, value in vars(LogRecord(context=Context(), severity_number=SeverityNumber.INFO)).items()
    if name != "attributes"  # made from the event
}


def _otlp_time(microseconds: int | None) -> int | None:
    """Nanoseconds since the epoch where OTLP can hold them; one odd stamp must not cost a whole batch."""
    if microseconds is None or not 0 <= microseconds < 2**64 // 1000:
        return None
    return microseconds * 1000


def event_attributes(event: UsageEvent, workspace_id: str | None) -> dict[str, object]:
    """The attributes of an event as OpenTelemetry carries them."""
    made: dict[str, object] = {semconv.LOG_RECORD_UID: event.id}
    if event.session_id is not None:
        made[semconv.SESSION_ID] = event.session_id
    if workspace_id is not None:
        made[semconv.WORKSPACE_ID] = workspace_id
    made[semconv.SOURCE] = event.source
    made[semconv.ACTOR] = event.actor
    if event.host is not None:
        made[semconv.HOST] = event.host
    if event.tokenizer is not None:
        made[semconv.TOKENIZER] = event.tokenizer
    if event.input_tokens is not None:
        made[semconv.INPUT_TOKENS] = event.input_tokens
    made[semconv.RECORDS] = [_record_attributes(record) for record in event.records]
    if len(event.records) == 1:
        made[semconv.GEN_AI_MEMORY_RECORD_ID] = "/".join(event.records[0].key)
    return made


def _record_attributes(record: RecordSnapshot) -> dict[str, object]:
    made = {
        name: getattr(record, name) for name in ("kind", "slug", *_SIZES) if getattr(record, name) is not None
    }
    if record.partial:
        made["partial"] = True
    return made


_SIZES = (
    "file_bytes",
    "file_tokens_estimate",
    "injected_bytes",
    "injected_tokens_estimate",
    "content_hash",
)


def record_use(
    source: str,
    records: MemoryRecord | Iterable[MemoryRecord],
    *,
    event_id: str | None = None,
    occurred_at: datetime | None = None,
    session_id: str | None = None,
    actor: str | None = None,
    input_tokens: int | None = None,
) -> None:
    """Record one read operation that put the records' content into a context.

    ``source`` names the route (``"MemoryRead"``). ``event_id``: the host's own id of the operation;
    it counts once, however often it is given. ``occurred_at``: when, if not now; a naive time is UTC.
    ``session_id``, ``actor``: those of the context by default. ``input_tokens``: auxiliary.

    Raises ``InvalidValueError`` for arguments that can never be right, such as
    ``source="MemoryQuery"``; anything that fails later is logged and counted, not raised.
    """
    _record(USE, source, records, event_id, occurred_at, session_id, actor, input_tokens)


def record_exposure(
    records: MemoryRecord | Iterable[MemoryRecord],
    *,
    source: str = "ResidentInjection",
    event_id: str | None = None,
    occurred_at: datetime | None = None,
    session_id: str | None = None,
    actor: str | None = None,
    input_tokens: int | None = None,
) -> None:
    """Record that always-on records were placed into a context: a cost, never a use.

    ``source`` is ``"ResidentInjection"``, ``"AutoRecall"`` or a name of the host's own; the other arguments
    are those of ``record_use``.
    """
    _record(EXPOSURE, source, records, event_id, occurred_at, session_id, actor, input_tokens)


def _record(
    event: str,
    source: str,
    records: MemoryRecord | Iterable[MemoryRecord],
    event_id: str | None,
    occurred_at: datetime | None,
    session_id: str | None,
    actor: str | None,
    input_tokens: int | None,
) -> None:
    check_source(source, event)
    listed = as_records(records)
    session_id = check_session_id(session_id)
    actor = check_actor(actor)
    check_count("input_tokens", input_tokens)
    if event_id is not None:
        event_id = event_id_from(str(event_id))
    stamp = None if occurred_at is None else _microseconds(occurred_at)
    if listed and recording_enabled():
        with guarded("record"):
            moment = Moment(stamp, session_id, actor)
            emit_event(
                make_event(event, source, listed, moment, event_id=event_id, input_tokens=input_tokens)
            )


def as_records(records: object) -> list[MemoryRecord]:
    """One record, several or none (``None``) as a list; else ``InvalidValueError``."""
    if records is None:
        return []
    if isinstance(records, MemoryRecord):
        return [records]
    instead = "pass MemoryRecord(kind, slug, content), or a list of them"
    if isinstance(records, (str, bytes)) or not isinstance(records, Iterable):
        raise InvalidValueError("records", type(records).__name__, "not a memory record", instead)
    listed = list(records)
    for record in listed:
        if not isinstance(record, MemoryRecord):
            raise InvalidValueError("records", type(record).__name__, "not a memory record", instead)
    return listed


def _microseconds(moment: object) -> int:
    if not isinstance(moment, datetime):
        raise InvalidValueError(
            "occurred_at", moment, "a time is a datetime", "pass datetime.now(timezone.utc)"
        )
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def recording_enabled() -> bool:
    """Whether reads are recorded here: not under ``MEMTALLY_DISABLED`` or suppressed instrumentation."""
    return not get_value(_SUPPRESS) and not disabled()


class Moment:
    """When, in which session and for whom a read happened; what is not given is that of now and here."""

    __slots__ = ("actor", "occurred_at", "session_id")

    def __init__(
        self, occurred_at: int | None = None, session_id: str | None = None, actor: str | None = None
    ) -> None:
        self.occurred_at = time.time_ns() // 1000 if occurred_at is None else occurred_at
        self.session_id = current_session_id() if session_id is None else session_id
        self.actor = current_actor() if actor is None else actor


def make_event(
    event: str,
    source: str,
    records: list[MemoryRecord],
    moment: Moment,
    *,
    event_id: str | None = None,
    input_tokens: int | None = None,
) -> UsageEvent:
    """Measure the records and make their event; for callers inside ``guarded``."""
    measured, tokenizer = snapshots(records, _destination.root)
    made = UsageEvent(
        event_id or new_event_id(),
        moment.occurred_at,
        event,
        source,
        measured,
        session_id=moment.session_id,
        input_tokens=input_tokens,
        actor=moment.actor,
        tokenizer=tokenizer,
    )
    span = trace.get_current_span().get_span_context()
    if span.is_valid:
        made.trace_id, made.span_id = f"{span.trace_id:032x}", f"{span.span_id:016x}"
    return made


def emit_event(event: UsageEvent) -> None:
    """Send one event down the pipeline; where there is none, say so once."""
    global _host_logger
    destination = _destination
    record = UsageLogRecord(event, destination.workspace_id)
    for logger in destination.loggers:
        # one failing destination must not cost the others the event
        try:
            logger.emit(record)
        except Exception as error:
            failed("emit", "", error)
    if not destination.host_gets_events:
        return
    if _host_logger is None:
        _host_logger = get_logger(semconv.SCOPE_NAME, semconv.SCOPE_VERSION, schema_url=semconv.SCHEMA_URL)
    if _is_enabled(_host_logger):
        # a record of its own: the host's limits and processors change what they are given
        copy = UsageLogRecord(event, destination.workspace_id)
        copy.persisted_to = record.persisted_to
        with guarded("emit"):
            _host_logger.emit(copy)
    elif not destination.loggers:
        _say_no_pipeline()


def _say_no_pipeline() -> None:
    if not faults.counts().get("no_pipeline"):
        # the workspace that this process would record in is where status is going to look
        with guarded("find_workspace"):
            faults.bind(str(find_workspace().directory))
    faults.note(
        "no_pipeline", "a read happened but nothing records it; call memtally.configure() once at start-up"
    )


def _is_enabled(logger: Logger) -> bool:
    """Whether a logger of the host's leads anywhere. ``Logger.enabled`` is newer than our oldest SDK."""
    enabled = getattr(logger, "enabled", None)
    if enabled is not None:
        return bool(enabled(severity_number=SeverityNumber.INFO))
    real = getattr(logger, "_logger", logger)  # the API's proxy shows its real logger so
    return type(real).__name__ not in ("NoOpLogger", "ProxyLogger")


def use_destination(destination: Destination) -> Destination:
    """Set where every event goes from now on; what was set before."""
    global _destination
    before, _destination = _destination, destination
    return before


def forget_host_logger() -> None:
    """Look the host's provider up anew at the next event (the API's proxy keeps its first for ever)."""
    global _host_logger
    _host_logger = None


class guarded:
    """Keep every fault of recording away from the read path: logged once per kind, and counted.

    ``what`` names the step, ``where`` the function concerned. Interrupts (``KeyboardInterrupt``,
    ``SystemExit``) are not faults.
    """

    __slots__ = ("_what", "_where")

    def __init__(self, what: str, where: str = "") -> None:
        self._what = what
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        failed(self._what, self._where, error)
        return True


def failed(what: str, where: str, error: Exception) -> None:
    """Count a fault of recording, for who catches it without ``guarded``; see there."""
    # the text of an exception may hold content of a record; also ours, where records= confused the two
    said = type(error).__name__
    if isinstance(error, InvalidValueError):
        said += f": {error.without_value}"
    of = f" {where}()" if where else ""
    faults.note(f"{what}_failed", f"recording{of} failed ({said}); the read itself is untouched", error)
