"""One instrumented call: which records it read, and which calls it is nested in.

An instrumented read inside another instrumented read of the same record is the same read: the
outermost one is the route by which the record came, so it makes the event. Reads of other records
inside it are reads of their own and are written at once. A read waits for the end of the call around it
only where it may be that call's own: the outer call's arguments name its record, or the outer call is
an injection, whose records are known when it returns. What is written already is not written again.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Set
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from memtally import faults
from memtally.events import EXPOSURE, USE, UsageEvent, normal_slug
from memtally.recording import Moment, as_records, emit_event, failed, guarded, make_event
from memtally.records import MemoryRecord

__all__ = ["Instrumented", "Key", "OpenCall", "ReadCall", "forget_placed"]

Key = tuple[str, str]
RecordsOf = Callable[["ReadCall"], object]

_KIND_OF_SOURCE = {"KnowledgeRef": "knowledge", "WorkflowInvoke": "workflow", "SkillInvoke": "skill"}

_NOTHING: frozenset[Key] = frozenset()

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
        self.fixed_kind = kind
        self.default_kind = _KIND_OF_SOURCE.get(source)
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
        self._names, self._defaults = _plain_parameters(self.signature)

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[str, Any]:
        """The call's arguments by name, defaults included, keyword extras lifted to the top.

        Where they do not fit the signature (a wrapper that supplies one itself), those given by name.
        """
        if self.signature is None:
            return dict(kwargs)
        if self._names is not None and len(args) <= len(self._names) and not self.bound_args:
            # what inspect would find, at a tenth of its cost; a wrong call the function itself refuses
            return {
                **self._defaults,
                **self.bound_kwargs,
                **dict(zip(self._names, args, strict=False)),
                **kwargs,
            }
        try:
            bound = self.signature.bind(*self.bound_args, *args, **(self.bound_kwargs | kwargs))
        except TypeError:
            return self.bound_kwargs | kwargs
        bound.apply_defaults()
        named = dict(bound.arguments)
        for parameter in self.signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                for name, value in named.pop(parameter.name, {}).items():
                    named.setdefault(name, value)
        return named

    def kind(self, arguments: Mapping[str, Any]) -> object:
        """The record's kind: fixed by the decorator, else the argument's, else the source's own."""
        if self.fixed_kind is not None:
            return self.fixed_kind
        kind = arguments.get("kind")
        return self.default_kind if kind is None else kind

    def key(self, arguments: Mapping[str, Any]) -> Key | None:
        """The record that the arguments name, if they do."""
        kind, slug = self.kind(arguments), arguments.get("slug")
        if isinstance(kind, str) and isinstance(slug, str):
            return str.__str__(kind), normal_slug(str.__str__(slug))
        return None

    def keys(self, arguments: Mapping[str, Any]) -> frozenset[Key]:
        """The records that a call is going to read, as far as its arguments tell."""
        key = self.key(arguments)
        return _NOTHING if key is None else frozenset((key,))

    def moment(self) -> Moment:
        """When, in which session and for whom a call reads that ends now."""
        return Moment()


def _plain_parameters(signature: inspect.Signature | None) -> tuple[tuple[str, ...] | None, dict[str, Any]]:
    """The positional names and the defaults of a signature without ``*args`` and ``**kwargs``."""
    parameters = list(signature.parameters.values()) if signature is not None else []
    if signature is None or any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return None, {}
    names = tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)
    return names, {p.name: p.default for p in parameters if p.default is not p.empty}


class OpenCall:
    """One call in progress. ``enter`` and ``leave`` stand around every stretch of its own code."""

    __slots__ = ("_emitted", "_waiting", "expected", "finished", "moment", "named", "parent", "settings")

    def __init__(self, settings: Instrumented, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.settings = settings
        self.finished = False
        parent = _open_call.get()
        while parent is not None and parent.finished:
            parent = parent.parent  # a task that outlived the call that began it
        self.parent: OpenCall | None = parent
        self.named: Mapping[str, Any] = {}
        self.expected = _NOTHING
        self.moment: Moment | None = None
        self._emitted: set[Key] = set()
        self._waiting: deque[UsageEvent] = deque()
        try:
            self.named = settings.arguments(args, kwargs)
            if settings.event == USE:
                self.expected = settings.keys(self.named)
        except Exception as error:
            failed("arguments", settings.name, error)

    def enter(self) -> OpenCall | None:
        """Make this the innermost open call of the context; what ``leave`` needs to undo that."""
        before = _open_call.get()
        _open_call.set(self)
        return before

    def leave(self, before: OpenCall | None) -> None:
        """Undo ``enter``, where this is the context it was done in."""
        if _open_call.get() is self:
            _open_call.set(before)

    def read_now(self) -> None:
        """Keep this moment as that of the read (a generator's first chunk), whenever it is written."""
        self.moment = Moment()

    def returned(self, result: Any, *, partial: bool = False) -> None:
        """The call gave content to its caller: record it, unless an outer call is that very read."""
        if self.finished:
            return
        settings = self.settings
        records: list[MemoryRecord] | None = None
        try:
            moment = self.moment or settings.moment()
            records = self._records(result, partial)
        except Exception as error:
            failed("record", settings.name, error)
        self.finished = True
        try:
            if self._waiting:
                # a veto of records= is a veto of what the same read has reported from inside, too
                mine = set(map(record_key, records or ()))
                self._release_waiting(mine or (_NOTHING if records is None else self.expected))
            if not records:
                return
            if self._emitted:
                records = [r for r in records if record_key(r) not in self._emitted]
            if settings.once_per == "session":
                records = first_in_session(records, moment.session_id)
            for group in [records] if self.parent is None else self._by_claimant(records):
                if group:
                    self._submit(make_event(settings.event, settings.source, group, moment))
        except Exception as error:
            failed("record", settings.name, error)

    def failed(self) -> None:
        """The call raised or gave nothing. What it had read of other records still counts."""
        if self.finished:
            return
        self.finished = True
        with guarded("record", self.settings.name):
            self._release_waiting(self.expected)

    def _records(self, result: Any, partial: bool) -> list[MemoryRecord]:
        settings = self.settings
        if settings.records is not None:
            found = as_records(settings.records(ReadCall(self.named, result)))
            return [_partial(r) for r in found] if partial else found
        if settings.event == EXPOSURE:
            return as_records(result)
        content = result
        if not isinstance(content, (str, bytes, Path)):
            content = None
            faults.note(
                f"unmeasured:{settings.name}",
                f"{settings.name}() returned {type(result).__name__}: its uses count, "
                f"their sizes are unknown; pass records= to say what was read",
            )
        kind, slug = settings.kind(self.named), self.named.get("slug")
        # what an interrupted generator handed over is not the whole record
        return [MemoryRecord(kind, slug, None if partial else content, partial=partial)]  # type: ignore[arg-type]

    def _by_claimant(self, records: list[MemoryRecord]) -> Iterator[list[MemoryRecord]]:
        """The records that nobody claims as one operation, each of the others by itself."""
        free = []
        for record in records:
            if self._claimant(record_key(record)) is None:
                free.append(record)
            else:
                yield [record]
        if free:
            yield free

    def _release_waiting(self, mine: Set[Key]) -> None:
        while True:
            try:
                event = self._waiting.popleft()
            except IndexError:
                return
            if event.records[0].key not in mine:
                self._submit(event)

    def _submit(self, event: UsageEvent) -> None:
        """Hand an event to the outer call that may be the same read; emit it where there is none."""
        if self.parent is None:
            emit_event(event)
            return
        claimant = self._claimant(event.records[0].key) if len(event.records) == 1 else None
        if claimant is not None:
            claimant._waiting.append(event)
            if not claimant.finished:
                return
            # it ended in another thread meanwhile: whoever takes the event out is who emits it
            try:
                claimant._waiting.remove(event)
            except ValueError:
                return
        emit_event(event)
        for outer in self._outer_calls():
            if outer.settings.event == event.event:
                outer._emitted.update(record.key for record in event.records)

    def _outer_calls(self) -> Iterator[OpenCall]:
        """The calls that are still open around this one, nearest first."""
        outer = self.parent
        while outer is not None:
            if not outer.finished:
                yield outer
            outer = outer.parent

    def _claimant(self, key: Key) -> OpenCall | None:
        for outer in self._outer_calls():
            if outer._may_be(key, self.settings.event):
                return outer
        return None

    def _may_be(self, key: Key, event: str) -> bool:
        if self.settings.event == EXPOSURE:
            return True  # what it places is no use, by whichever reader it was fetched
        if event == EXPOSURE:
            return False
        if self.expected:
            return key in self.expected
        # records= will say which record it was: one that an argument names may be it
        return any(
            isinstance(value, str) and len(value) <= 4 * len(key[1]) and normal_slug(value) == key[1]
            for value in self.named.values()  # a whole prompt among them is not normalized in vain
        )


def record_key(record: MemoryRecord) -> Key:
    """What identifies a record."""
    return (record.kind, record.slug)


def _partial(record: MemoryRecord) -> MemoryRecord:
    """The record as one that was read in part; the host's own object stays as it is."""
    return MemoryRecord(record.kind, record.slug, record.content, injected=record.injected, partial=True)


_SESSIONS_REMEMBERED = 4_096
_placed: OrderedDict[str | None, set[Key]] = OrderedDict()
_placed_lock = threading.Lock()


def first_in_session(records: list[MemoryRecord], session_id: str | None) -> list[MemoryRecord]:
    """Those of the records that a session has not been given yet; a missing session is one too."""
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


def _after_fork_in_child() -> None:
    global _placed_lock
    _placed_lock = threading.Lock()  # another thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
