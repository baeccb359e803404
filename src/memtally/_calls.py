"""One instrumented call: which records it read, and which calls it is nested in.

An instrumented read inside another instrumented read of the same record is the same read: the
outermost one is the route by which the record came, so it makes the event. Reads of other records
inside it are reads of their own and are written at once. Where the outer call's records cannot be
known before it returns, what happens inside it waits until then.
"""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar, Token
from pathlib import Path
from typing import Any

from memtally import faults
from memtally.context import current_actor, current_session_id
from memtally.events import USE
from memtally.recording import as_records, emit_records, guarded
from memtally.records import MemoryRecord

__all__ = ["Instrumented", "OpenCall", "ReadCall"]

Key = tuple[str, str]
RecordsOf = Callable[["ReadCall"], object]

_KIND_OF_SOURCE = {"KnowledgeRef": "knowledge", "WorkflowInvoke": "workflow", "SkillInvoke": "skill"}

_open_call: ContextVar[OpenCall | None] = ContextVar("memtally_open_call", default=None)


class ReadCall:
    """What ``records=`` gets to see: the call's ``arguments`` by parameter name and its ``result``.

    A generator's result is its chunks joined, or their list where they are neither text nor bytes.
    """

    __slots__ = ("arguments", "result")

    def __init__(self, arguments: Mapping[str, Any], result: Any) -> None:
        self.arguments = arguments
        self.result = result


class Instrumented:
    """The settings of one decorated function, shared by all of its calls."""

    def __init__(
        self,
        function: Callable[..., Any],
        event: str,
        source: str,
        records: RecordsOf | None,
        kind: str | None,
        once_per: str | None = None,
    ) -> None:
        self.name = getattr(function, "__qualname__", None) or type(function).__qualname__
        self.event = event
        self.source = source
        self.records = records
        self.kind = kind or _KIND_OF_SOURCE.get(source)
        self.once_per = once_per
        # what a partial has bound already may name the record: look at the function behind it
        self.bound_args: tuple[Any, ...] = ()
        self.bound_kwargs: dict[str, Any] = {}
        if isinstance(function, functools.partial):
            self.bound_args, self.bound_kwargs, function = function.args, function.keywords, function.func
        try:
            self.signature: inspect.Signature | None = inspect.signature(function)
        except (ValueError, TypeError):  # some built-ins have none
            self.signature = None

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[str, Any]:
        """The call's arguments by name, defaults included, keyword extras lifted to the top."""
        if self.signature is None:
            return dict(kwargs)
        bound = self.signature.bind(*self.bound_args, *args, **(self.bound_kwargs | kwargs))
        bound.apply_defaults()
        named = dict(bound.arguments)
        for parameter in self.signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                for name, value in named.pop(parameter.name, {}).items():
                    named.setdefault(name, value)
        return named

    def key(self, arguments: Mapping[str, Any]) -> Key | None:
        """The record that the arguments name, if they do."""
        kind, slug = arguments.get("kind", self.kind), arguments.get("slug")
        if isinstance(kind, str) and isinstance(slug, str):
            try:
                record = MemoryRecord(str(kind), slug)
            except ValueError:
                return None
            return record.kind, record.slug
        return None


class _Moment:
    """When, in which session and for whom a read happened."""

    __slots__ = ("actor", "occurred_at", "session_id")

    def __init__(self) -> None:
        self.occurred_at = time.time_ns() // 1000
        self.session_id = current_session_id()
        self.actor = current_actor()


class _Waiting:
    """Records that were read, and the moment, until it is known to which call they belong."""

    __slots__ = ("moment", "records", "source")

    def __init__(self, source: str, records: list[MemoryRecord], moment: _Moment) -> None:
        self.source = source
        self.records = records
        self.moment = moment


class OpenCall:
    """One call in progress. ``enter`` and ``leave`` stand around every stretch of its own code."""

    def __init__(self, settings: Instrumented, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.settings = settings
        self.parent = _open_call.get()
        self.named: Mapping[str, Any] = {}
        self.expected: Key | None = None
        self.finished = False
        self.emitted: set[Key] = set()
        self.waiting: list[_Waiting] = []
        self.moment: _Moment | None = None
        with guarded("arguments"):
            try:
                self.named = settings.arguments(args, kwargs)
            except TypeError:
                return  # a call with wrong arguments: the function itself is about to say so
            if settings.event == USE:
                self.expected = settings.key(self.named)

    def enter(self) -> Token[OpenCall | None]:
        return _open_call.set(self)

    def leave(self, token: Token[OpenCall | None]) -> None:
        _open_call.reset(token)

    def read_now(self) -> None:
        """Keep this moment as that of the read (a generator's first chunk), whenever it is written."""
        self.moment = _Moment()

    def returned(self, result: Any, *, partial: bool = False) -> None:
        """The call gave content to its caller: record it, unless an outer call is that very read."""
        if self.finished:
            return
        self.finished = True
        records: list[MemoryRecord] = []
        with guarded("record"):
            records = self._records(result, partial)
        with guarded("record"):
            mine = {record_key(r) for r in records}
            # a veto of records= is a veto of what the same read has reported from inside, too
            self._release_waiting(mine or self._expected_keys())
            records = [r for r in records if record_key(r) not in self.emitted]
            if self.settings.once_per == "session":
                records = first_in_session(records)
            self._submit(_Waiting(self.settings.source, records, self.moment or _Moment()))

    def failed(self) -> None:
        """The call raised or gave nothing. What it had read of other records still counts."""
        if self.finished:
            return
        self.finished = True
        with guarded("record"):
            self._release_waiting(self._expected_keys())

    def _expected_keys(self) -> set[Key]:
        return set() if self.expected is None else {self.expected}

    def _records(self, result: Any, partial: bool) -> list[MemoryRecord]:
        settings = self.settings
        if settings.records is not None:
            found = as_records(settings.records(ReadCall(self.named, result)))
            if partial:
                for record in found:
                    record.partial = True
            return found
        if settings.event != USE:
            return as_records(result)
        content = result
        if not isinstance(content, (str, bytes, Path)):
            content = None
            faults.note(
                f"unmeasured:{settings.name}",
                f"{settings.name}() returned {type(result).__name__}: its uses count, "
                f"their sizes are unknown; pass records= to say what was read",
            )
        kind, slug = self.named.get("kind", settings.kind), self.named.get("slug")
        # what an interrupted generator handed over is not the whole record
        return [MemoryRecord(kind, slug, None if partial else content, partial=partial)]  # type: ignore[arg-type]

    def _release_waiting(self, mine: set[Key]) -> None:
        waiting, self.waiting = self.waiting, []
        for entry in waiting:
            entry.records = [r for r in entry.records if record_key(r) not in mine]
            self._submit(entry)

    def _submit(self, entry: _Waiting) -> None:
        """Hand each record to the outer call that may be the same read; emit those that none claims."""
        free: list[MemoryRecord] = []
        for record in entry.records:
            claimant = self._claimant(record_key(record))
            if claimant is None:
                free.append(record)
            else:
                claimant.waiting.append(_Waiting(entry.source, [record], entry.moment))
        if not free:
            return
        emit_records(
            self.settings.event,
            entry.source,
            free,
            occurred_at=entry.moment.occurred_at,
            session_id=entry.moment.session_id,
            actor=entry.moment.actor,
        )
        for outer in self._outer_calls():
            outer.emitted.update(map(record_key, free))

    def _outer_calls(self) -> Iterator[OpenCall]:
        """The calls of the same kind that are still open around this one, nearest first."""
        outer = self.parent
        while outer is not None:
            if not outer.finished and outer.settings.event == self.settings.event:
                yield outer
            outer = outer.parent

    def _claimant(self, key: Key) -> OpenCall | None:
        for outer in self._outer_calls():
            if outer.expected is None or outer.expected == key:
                return outer
        return None


def record_key(record: MemoryRecord) -> Key:
    """What identifies a record."""
    return (record.kind, record.slug)


_SESSIONS_REMEMBERED = 4_096
_placed: OrderedDict[str | None, set[Key]] = OrderedDict()
_placed_lock = threading.Lock()


def first_in_session(records: list[MemoryRecord]) -> list[MemoryRecord]:
    """Those of the records that this session has not been given yet; a missing session is one too."""
    session_id = current_session_id()
    with _placed_lock:
        placed = _placed.setdefault(session_id, set())
        _placed.move_to_end(session_id)
        if len(_placed) > _SESSIONS_REMEMBERED:
            _placed.popitem(last=False)
        fresh = [r for r in records if record_key(r) not in placed]
        placed.update(map(record_key, fresh))
    return fresh


def forget_placed() -> None:
    """Forget what ``once_per="session"`` has placed."""
    with _placed_lock:
        _placed.clear()
