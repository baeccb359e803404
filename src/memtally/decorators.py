"""``instrument_read`` and ``instrument_injection``: record what a function read or placed.

The decorated function keeps its signature, hints, name, pickling and kind (plain, coroutine,
generator, async generator). Results and exceptions pass through untouched; what can be read only once
(a generator, a coroutine, an injection's iterator) is handed on through one of its kind. A read counts
when content reached the caller: not when the function raised, or returned ``None``, ``False`` or
something empty. A generator's read counts from its first non-empty chunk, and is written when it ends or
is closed.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from typing import Any, TypeVar, overload

from memtally._calls import Instrumented, OpenCall, ReadCall
from memtally.errors import InvalidValueError
from memtally.events import EXPOSURE, USE, check_kind, check_source
from memtally.recording import failed, guarded, recording_enabled

__all__ = ["drive_coroutine", "has_content", "instrument_injection", "instrument_read", "wrapped"]

F = TypeVar("F", bound="Callable[..., Any] | staticmethod[..., Any] | classmethod[Any, ..., Any]")
RecordsOf = Callable[[ReadCall], object]

_MAX_KEPT = 16 * 1_048_576
"""Characters or bytes of a generator's chunks that are kept for measuring; beyond, the size is unknown."""


@overload
def instrument_read(source: F, /) -> F: ...
@overload
def instrument_read(
    source: str = "MemoryRead", /, *, records: RecordsOf | None = None, kind: str | None = None
) -> Callable[[F], F]: ...
def instrument_read(
    source: Any = "MemoryRead", /, *, records: RecordsOf | None = None, kind: str | None = None
) -> Any:
    """Record each successful call of a function as a use of the records it read.

    ``source`` names the route: ``"MemoryRead"`` (also when used bare), ``"KnowledgeRef"``,
    ``"WorkflowInvoke"``, ``"SkillInvoke"`` or a CamelCase name of the host's own. The record is found
    among the arguments named ``kind`` and ``slug``; ``kind=`` here gives a fixed one (for the three
    latter sources it is known), and ``records=`` a function from the ``ReadCall`` to one
    ``MemoryRecord``, several, or ``None`` for "this was no read".

    Raises ``InvalidValueError`` at decoration for a source that cannot be a use, and where neither the
    arguments nor ``records=`` can name the record.
    """
    if not isinstance(source, str):
        if not _decoratable(source):
            check_source(source)  # raises: neither a source nor a function
        return _decorate(source, USE, "MemoryRead", records, kind)
    check_source(source)
    if kind is not None:
        check_kind(kind)
    _check_callable(records)
    return lambda function: _decorate(function, USE, source, records, kind)


@overload
def instrument_injection(source: F, /) -> F: ...
@overload
def instrument_injection(
    source: str = "ResidentInjection", /, *, records: RecordsOf | None = None, once_per: str | None = None
) -> Callable[[F], F]: ...
def instrument_injection(
    source: Any = "ResidentInjection", /, *, records: RecordsOf | None = None, once_per: str | None = None
) -> Any:
    """Record each call of a function as one placing of always-on records: a resident exposure.

    The function returns the ``MemoryRecord`` objects that it places, or ``records=`` maps its call to
    them. ``once_per="session"``: each record at most once in a session, for hosts that build the
    prompt anew on every model call.
    """
    if not isinstance(source, str):
        if not _decoratable(source):
            check_source(source, EXPOSURE)
        return _decorate(source, EXPOSURE, "ResidentInjection", records, None, once_per)
    check_source(source, EXPOSURE)
    if once_per not in (None, "session"):
        raise InvalidValueError("once_per", once_per, "no such span", 'use "session", or None for every call')
    _check_callable(records)
    return lambda function: _decorate(function, EXPOSURE, source, records, None, once_per)


def _check_callable(records: object) -> None:
    if records is not None and not callable(records):
        raise InvalidValueError(
            "records",
            type(records).__name__,
            "records= is a function of the call",
            "pass a function of one ReadCall",
        )


def _decoratable(function: object) -> bool:
    return callable(function) or isinstance(function, (staticmethod, classmethod))


def _decorate(
    function: Any,
    event: str,
    source: str,
    records: RecordsOf | None,
    kind: str | None,
    once_per: str | None = None,
) -> Any:
    if isinstance(function, (staticmethod, classmethod)):
        inner = _decorate(function.__func__, event, source, records, kind, once_per)
        return type(function)(inner)
    if not callable(function) or isinstance(function, type):
        raise InvalidValueError(
            "function",
            type(function).__name__,
            "only a function can be instrumented",
            "decorate the reading method",
        )
    settings = Instrumented(function, event, source, records, kind, once_per)
    if event == USE and records is None:
        _check_names_a_record(settings)
    return wrapped(function, settings)


def wrapped(function: Any, settings: Instrumented) -> Callable[..., Any]:
    """A function of the same kind that records its calls by these settings."""
    itself = inspect.isroutine(function) or isinstance(function, functools.partial)
    kind_of = function if itself else function.__call__  # a callable object is what its __call__ is
    if inspect.isasyncgenfunction(kind_of):
        return _async_generator(function, settings)
    code = getattr(kind_of, "__code__", None)
    if inspect.iscoroutinefunction(kind_of) or (code and code.co_flags & inspect.CO_ITERABLE_COROUTINE):
        return _coroutine(function, settings)
    if inspect.isgeneratorfunction(kind_of):
        return _generator(function, settings)
    return _plain(function, settings)


def _check_names_a_record(settings: Instrumented) -> None:
    if settings.signature is None:
        return
    parameters = settings.signature.parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    missing = [
        name
        for name in ("kind", "slug")
        if name not in parameters and (name == "slug" or not (settings.fixed_kind or settings.default_kind))
    ]
    if missing:
        raise InvalidValueError(
            "function",
            settings.name,
            f"no argument named {' or '.join(missing)} says which record it reads",
            "pass records=lambda call: MemoryRecord(kind, slug, call.result)",
        )


def has_content(result: object) -> bool:
    """Whether a read path gave its caller anything: not ``None``, ``False`` or an empty value."""
    if result is None or result is False:
        return False
    if isinstance(result, (str, bytes, bytearray, list, tuple, dict, set, frozenset)):
        return len(result) > 0
    return True


# -- one wrapper for each kind of function -----------------------------------------------------------


def _plain(function: Callable[..., Any], settings: Instrumented) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not recording_enabled():
            return function(*args, **kwargs)
        call = OpenCall(settings, args, kwargs)
        before = call.enter()
        try:
            result = function(*args, **kwargs)
        except BaseException:
            call.failed()
            raise
        finally:
            call.leave(before)
        try:
            return _handed(result, call)
        except Exception as error:  # where looking at it failed, it is the result as it is
            failed("result", settings.name, error)
            return result

    return wrapper


def _handed(result: Any, call: OpenCall) -> Any:
    """What the caller of a plain function gets: its result, or that result on its way to be read.

    Callable objects, partials and factories return what does the reading later.
    """
    if result is None or isinstance(result, (str, bytes)):
        _settle(call, result)
    elif inspect.iscoroutine(result):
        return drive_coroutine(result, call)
    elif inspect.isgenerator(result):
        return _drive_generator(result, call)
    elif inspect.isasyncgen(result):
        return _async_generator(lambda: result, call.settings, call)()
    elif _is_future(result):
        result.add_done_callback(functools.partial(_settle_future, call))
    elif inspect.isawaitable(result):
        return drive_coroutine(_await(result), call)
    elif call.settings.event == EXPOSURE and call.settings.records is None and isinstance(result, Iterator):
        # its records can be seen only once, and that is the host's turn
        return _drive_generator((record for record in result), call)
    else:
        _settle(call, result)
    return result


def _is_future(result: object) -> bool:
    """Whether this is a future of the standard library; without importing what the host has not."""
    modules = map(sys.modules.get, ("asyncio.futures", "concurrent.futures._base"))
    return any(module is not None and isinstance(result, module.Future) for module in modules)


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _coroutine(function: Callable[..., Any], settings: Instrumented) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not recording_enabled():
            return await function(*args, **kwargs)
        return await drive_coroutine(function(*args, **kwargs), OpenCall(settings, args, kwargs))

    return wrapper


def _generator(function: Callable[..., Any], settings: Instrumented) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not recording_enabled():
            return (yield from function(*args, **kwargs))
        return (yield from _drive_generator(function(*args, **kwargs), OpenCall(settings, args, kwargs)))

    return wrapper


def _async_generator(
    function: Callable[..., Any], settings: Instrumented, opened: OpenCall | None = None
) -> Callable[..., Any]:
    """``opened`` is given where the call has begun already and ``function`` only hands over its result."""

    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        call = opened or (OpenCall(settings, args, kwargs) if recording_enabled() else None)
        generator = function(*args, **kwargs)
        chunks = _Chunks(settings)
        step: Callable[[], Any] = functools.partial(generator.asend, None)
        whole = False
        try:
            while True:
                before = call.enter() if call is not None else None
                try:
                    chunk = await step()
                except StopAsyncIteration:
                    whole = True
                    return
                finally:
                    if call is not None:
                        call.leave(before)
                if call is not None:
                    chunks.add(chunk, call)
                try:
                    sent = yield chunk
                except GeneratorExit:
                    await generator.aclose()
                    raise
                except BaseException as error:
                    step = functools.partial(generator.athrow, error)
                else:
                    step = functools.partial(generator.asend, sent)
        finally:
            if call is not None:
                chunks.settle(call, whole=whole)

    return wrapper if opened is not None else functools.wraps(function)(wrapper)


def _settle(call: OpenCall, result: object) -> None:
    try:
        if has_content(result):
            call.returned(result)
        else:
            call.failed()
    except Exception as error:  # a host's own type may fail at anything asked of it
        failed("result", call.settings.name, error)


def _settle_future(call: OpenCall, future: Any) -> None:
    if future.cancelled() or future.exception() is not None:
        call.failed()
    else:
        _settle(call, future.result())


async def drive_coroutine(coroutine: Coroutine[Any, Any, Any], call: OpenCall) -> Any:
    """Await a coroutine as the call's own code, record what it read, and hand on its result."""
    before = call.enter()
    try:
        result = await coroutine
    except BaseException:
        call.failed()
        raise
    finally:
        call.leave(before)
    _settle(call, result)
    return result


class _Chunks:
    """What a generator has handed over so far, kept as far as it is needed for measuring."""

    def __init__(self, settings: Instrumented) -> None:
        self.any = False
        self._keeps_objects = settings.records is not None or settings.event == EXPOSURE
        self._kept: list[Any] | None = []
        self._size = 0

    def add(self, chunk: object, call: OpenCall) -> None:
        with guarded("result", call.settings.name):  # a host's own type may fail at anything asked of it
            self._add(chunk, call)

    def _add(self, chunk: object, call: OpenCall) -> None:
        if not has_content(chunk):
            return
        if not self.any:
            self.any = True
            call.read_now()
        if self._kept is None:
            return
        measurable = isinstance(chunk, (str, bytes))
        self._size += len(chunk) if isinstance(chunk, (str, bytes)) else 1
        if self._size > _MAX_KEPT or not (measurable or self._keeps_objects):
            self._kept = None  # unmeasured; the host's objects are not kept alive for nothing
        else:
            self._kept.append(chunk)

    def result(self) -> object:
        if not self._kept:
            return None
        if all(isinstance(chunk, str) for chunk in self._kept):
            return "".join(self._kept)
        if all(isinstance(chunk, bytes) for chunk in self._kept):
            return b"".join(self._kept)
        # record objects of an injection, or chunks of the host's own types
        return self._kept

    def settle(self, call: OpenCall, *, whole: bool) -> None:
        if self.any:
            call.returned(self.result(), partial=not whole)
        else:
            call.failed()


def _drive_generator(generator: Generator[Any, Any, Any], call: OpenCall) -> Generator[Any, Any, Any]:
    """Hand a generator's chunks on, with ``send``, ``throw``, ``close`` and return value intact."""
    chunks = _Chunks(call.settings)
    step: Callable[[], Any] = functools.partial(next, generator)
    whole = False
    try:
        while True:
            before = call.enter()
            try:
                chunk = step()
            except StopIteration as stop:
                whole = True
                return stop.value
            finally:
                call.leave(before)
            chunks.add(chunk, call)
            try:
                sent = yield chunk
            except GeneratorExit:
                generator.close()
                raise
            except BaseException as error:
                step = functools.partial(generator.throw, error)
            else:
                step = (
                    functools.partial(next, generator)
                    if sent is None
                    else functools.partial(generator.send, sent)
                )
    finally:
        chunks.settle(call, whole=whole)
