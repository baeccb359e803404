"""Usage events: their shape, their validation and their one line in the log.

This module needs the standard library only, and little of that: a hook process imports it on every
tool call of an agent, so ``dataclasses``, ``datetime``, ``uuid``, ``re`` and ``typing`` stay out.

An event is one read operation (``use``) or one placing of always-on text (``resident_exposure``). Both
name the records concerned, each with a snapshot of its size at that moment. Sizes are in bytes and in
estimated tokens; ``None`` means unknown, which is not zero.
"""

from __future__ import annotations

try:  # the C helper json.dumps itself uses; importing json would triple the start of a hook
    from _json import encode_basestring as _quote
except ImportError:  # pragma: no cover - other Python implementations
    from json.encoder import encode_basestring as _quote

from memtally._stamps import event_id_from, format_time, new_event_id, well_formed
from memtally.errors import InvalidValueError

__all__ = [
    "ACTORS",
    "EXPOSURE",
    "USE",
    "RecordSnapshot",
    "UsageEvent",
    "check_count",
    "check_kind",
    "check_slug",
    "check_source",
    "encode_event",
    "event_id_from",
    "format_time",
    "is_search_source",
    "new_event_id",
    "normal_slug",
    "well_formed",
]

USE = "use"
EXPOSURE = "resident_exposure"
ACTORS = ("agent", "subagent", "user", "maintenance")

EXPOSURE_SOURCES = ("ResidentInjection", "AutoRecall")
USE_SOURCES = ("MemoryRead", "KnowledgeRef", "WorkflowInvoke", "SkillInvoke", "ShellRead")

MAX_COUNT = 2**63 - 1
"""Largest size or token count: what OTLP's signed 64-bit integers can carry."""


class RecordSnapshot:
    """One record as it was when it was read. Treated as immutable.

    ``file_bytes`` and ``file_tokens_estimate`` describe the whole record; ``injected_bytes`` and
    ``injected_tokens_estimate`` what really went into the context, where that is less. ``partial``
    says that only a part was read.
    """

    _FIELDS = (
        "content_hash",
        "file_bytes",
        "file_tokens_estimate",
        "injected_bytes",
        "injected_tokens_estimate",
        "kind",
        "partial",
        "slug",
    )
    __slots__ = (*_FIELDS, "_json")

    def __init__(
        self,
        kind: str,
        slug: str,
        file_bytes: int | None = None,
        file_tokens_estimate: int | None = None,
        injected_bytes: int | None = None,
        injected_tokens_estimate: int | None = None,
        content_hash: str | None = None,
        partial: bool = False,
    ) -> None:
        self.kind = kind
        self.slug = slug
        self.file_bytes = file_bytes
        self.file_tokens_estimate = file_tokens_estimate
        self.injected_bytes = injected_bytes
        self.injected_tokens_estimate = injected_tokens_estimate
        self.content_hash = content_hash
        self.partial = partial
        self._json: str | None = None  # a record that does not change is encoded once

    @property
    def json(self) -> str:
        """The record as it stands in a line."""
        if self._json is None:
            self._json = _record_json(self)
        return self._json

    @property
    def key(self) -> tuple[str, str]:
        """What identifies the record: ``(kind, slug)``."""
        return (self.kind, self.slug)

    @property
    def cost_tokens(self) -> int | None:
        """Estimated tokens that one injection cost: the injected figure where there is one."""
        if self.injected_tokens_estimate is not None:
            return self.injected_tokens_estimate
        # injected text of unknown token count must not be priced as the whole file
        return None if self.injected_bytes is not None else self.file_tokens_estimate

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecordSnapshot):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RecordSnapshot({self.kind!r}, {self.slug!r}, file_bytes={self.file_bytes!r})"


class UsageEvent:
    """One line of the usage log. Treated as immutable.

    ``occurred_at`` is microseconds since the Unix epoch, UTC; ``None`` when a log that was read gives
    no usable time. ``tokenizer`` names the estimator behind every token figure of the event.
    """

    __slots__ = (
        "actor",
        "event",
        "host",
        "id",
        "input_tokens",
        "occurred_at",
        "records",
        "session_id",
        "source",
        "span_id",
        "tokenizer",
        "trace_id",
    )

    def __init__(
        self,
        id: str,  # noqa: A002 - the field's name in the log
        occurred_at: int | None,
        event: str,
        source: str,
        records: tuple[RecordSnapshot, ...],
        session_id: str | None = None,
        trace_id: str | None = None,
        span_id: str | None = None,
        input_tokens: int | None = None,
        actor: str = "agent",
        host: str | None = None,
        tokenizer: str | None = None,
    ) -> None:
        self.id = id
        self.occurred_at = occurred_at
        self.event = event
        self.source = source
        self.records = records
        self.session_id = session_id
        self.trace_id = trace_id
        self.span_id = span_id
        self.input_tokens = input_tokens
        self.actor = actor
        self.host = host
        self.tokenizer = tokenizer

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UsageEvent):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"UsageEvent({self.id!r}, {self.event!r}, {self.source!r}, {list(self.records)!r})"


# -- values ------------------------------------------------------------------------------------------


def normal_slug(slug: str) -> str:
    """The slug as records are compared: well-formed and NFC, case kept."""
    if slug.isascii():
        return slug
    from unicodedata import normalize  # noqa: PLC0415 - only for slugs beyond ASCII

    return normalize("NFC", well_formed(slug))


_MOST_KINDS = 256
_kinds: set[str] = set()
"""Kinds that were found right before."""


def check_kind(kind: object) -> str:
    """The kind, or ``InvalidValueError`` unless it is one lower-case word (``a-z 0-9 _ -``)."""
    if type(kind) is str and kind in _kinds:
        return kind
    if (
        isinstance(kind, str)
        and kind.isascii()
        and kind[:1].isalpha()
        and kind.replace("_", "a").replace("-", "a").isalnum()
        and kind == kind.lower()
    ):
        kind = str.__str__(kind)  # a member of a str enumeration compares like its text, but hashes otherwise
        if len(_kinds) < _MOST_KINDS:
            _kinds.add(kind)
        return kind
    raise InvalidValueError(
        "kind", kind, "a record's kind is one lower-case word", 'use one such as "decision"'
    )


def check_slug(slug: object) -> str:
    """The slug in normal form, or ``InvalidValueError`` when it is empty or no text."""
    if not isinstance(slug, str):
        raise InvalidValueError("slug", slug, "a record's slug is text", "pass the record's name as str")
    if not slug.strip():
        raise InvalidValueError("slug", slug, "a record's slug is not empty", "pass the record's name")
    return normal_slug(str.__str__(slug))


def is_search_source(source: str) -> bool:
    """Whether the source is a search or listing, which is never a use."""
    return source.endswith(("Query", "Search"))


def check_source(source: object, event: str = USE) -> str:
    """The source, or ``InvalidValueError`` when it cannot be a source of such an event."""
    instead = 'name the route in CamelCase, such as "MemoryRead"'
    if (
        not isinstance(source, str)
        or not source.isascii()
        or not source.isalnum()
        or not source[:1].isupper()
    ):
        raise InvalidValueError("source", source, "a source is one CamelCase word", instead)
    if is_search_source(source):
        raise InvalidValueError(
            "source", source, "a search or listing is no use", "instrument the function that reads one record"
        )
    if event == USE and source in EXPOSURE_SOURCES:
        raise InvalidValueError(
            "source",
            source,
            "always-on text is an exposure, not a use",
            "call record_exposure() (memtally add exposure) for it",
        )
    if event == EXPOSURE and source in USE_SOURCES:
        raise InvalidValueError(
            "source", source, "an explicit read is a use", "call record_use() (memtally add use) for it"
        )
    return source


def check_count(name: str, value: object) -> int | None:
    """A size or token count (0 to 2**63 - 1) or ``None`` for unknown; else ``InvalidValueError``."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_COUNT:
        raise InvalidValueError(
            name, value, "a count is a whole number from 0 to 2**63-1", "pass None if unknown"
        )
    return value


# -- the line ----------------------------------------------------------------------------------------


def encode_event(event: UsageEvent) -> bytes:
    """The event as its line in the log: UTF-8 JSON, what varies first, ending in ``\\n``."""
    occurred_at = "null" if event.occurred_at is None else f'"{format_time(event.occurred_at)}"'
    session_id = "null" if event.session_id is None else _text(event.session_id)
    head = f'{{"id":{_text(event.id)},"occurred_at":{occurred_at},"session_id":{session_id}'
    if event.trace_id is not None:
        head += f',"trace_id":{_text(event.trace_id)}'
    if event.span_id is not None:
        head += f',"span_id":{_text(event.span_id)}'
    if event.input_tokens is not None:
        head += f',"input_tokens":{event.input_tokens}'
    route = (event.event, event.source, event.actor, event.host, event.tokenizer)
    tail = _routes.get(route)
    if tail is None:
        if len(_routes) >= _MOST_ROUTES:
            _routes.clear()
        tail = _routes[route] = _route_json(*route)
    records = ",".join([record.json for record in event.records])
    return f'{head}{tail},"records":[{records}]}}\n'.encode()


_MOST_ROUTES = 256
_routes: dict[tuple[str, str, str, str | None, str | None], str] = {}


def _route_json(event: str, source: str, actor: str, host: str | None, tokenizer: str | None) -> str:
    made = f',"event":{_text(event)},"source":{_text(source)}'
    if actor != "agent":
        made += f',"actor":{_text(actor)}'
    if host is not None:
        made += f',"host":{_text(host)}'
    if tokenizer is not None:
        made += f',"tokenizer":{_text(tokenizer)}'
    return made


def _record_json(record: RecordSnapshot) -> str:
    made = f'{{"kind":{_text(record.kind)},"slug":{_text(record.slug)}'
    made += f',"file_bytes":{_number(record.file_bytes)}'
    made += f',"file_tokens_estimate":{_number(record.file_tokens_estimate)}'
    if record.injected_bytes is not None:
        made += f',"injected_bytes":{record.injected_bytes}'
    if record.injected_tokens_estimate is not None:
        made += f',"injected_tokens_estimate":{record.injected_tokens_estimate}'
    if record.content_hash is not None:
        made += f',"content_hash":{_text(record.content_hash)}'
    if record.partial:
        made += ',"partial":true'
    return made + "}"


def _text(value: str) -> str:
    return _quote(value if value.isascii() else well_formed(value))


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)
