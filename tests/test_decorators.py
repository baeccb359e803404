"""The decorators on every form of function: untouched to the caller, counted once, never in the way."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import pickle
import typing
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memtally
from memtally import MemoryRecord, faults
from memtally.errors import InvalidValueError
from memtally.testing import Captured, capture

RECORDS: dict[tuple[str, str], Any] = {("decision", "a"): "text of a", ("decision", "b"): b"bytes of b"}


def names(captured: Captured) -> list[tuple[str, str]]:
    """Each event as its source and its records."""
    return [(e.source, ",".join("/".join(r.key) for r in e.records)) for e in captured.events]


# -- the forms, undecorated and decorated, at module level so that they can be pickled ----------------


def plain(kind: str, slug: str, *, loud: bool = False) -> str:
    """Read a record."""
    return str(RECORDS[kind, slug])


async def later(kind: str, slug: str, *, loud: bool = False) -> str:
    """Read a record."""
    await asyncio.sleep(0)
    return str(RECORDS[kind, slug])


def chunks(kind: str, slug: str, *, loud: bool = False) -> Iterator[str]:
    """Read a record."""
    yield from str(RECORDS[kind, slug]).split()


async def later_chunks(kind: str, slug: str, *, loud: bool = False) -> AsyncIterator[str]:
    """Read a record."""
    for word in str(RECORDS[kind, slug]).split():
        await asyncio.sleep(0)
        yield word


decorated_plain = memtally.instrument_read("MemoryRead")(plain)
bare_plain = memtally.instrument_read(plain)
decorated_later = memtally.instrument_read("MemoryRead")(later)
decorated_chunks = memtally.instrument_read("MemoryRead")(chunks)
decorated_later_chunks = memtally.instrument_read("MemoryRead")(later_chunks)


@memtally.instrument_read("MemoryRead")
def pickled(kind: str, slug: str) -> str:
    """A decorated function that a pickle finds by its name."""
    return "content"


class Store:
    """A memory store with each form of method."""

    prefix = "p:"

    @memtally.instrument_read("MemoryRead")
    def method(self, kind: str, slug: str) -> str:
        """A method."""
        return self.prefix + slug

    @classmethod
    @memtally.instrument_read("MemoryRead")
    def class_method(cls, kind: str, slug: str) -> str:
        """A class method, decorated inside."""
        return cls.prefix + slug

    @memtally.instrument_read("MemoryRead")
    @classmethod
    def outer_class_method(cls, kind: str, slug: str) -> str:
        """A class method, decorated outside."""
        return cls.prefix + slug

    @staticmethod
    @memtally.instrument_read("MemoryRead")
    def static_method(kind: str, slug: str) -> str:
        """A static method, decorated inside."""
        return slug

    @memtally.instrument_read("MemoryRead")
    @staticmethod
    def outer_static_method(kind: str, slug: str) -> str:
        """A static method, decorated outside."""
        return slug

    @memtally.instrument_read("MemoryRead")
    async def async_method(self, kind: str, slug: str) -> str:
        """A coroutine method."""
        return self.prefix + slug


FORMS = [
    (plain, decorated_plain),
    (plain, bare_plain),
    (later, decorated_later),
    (chunks, decorated_chunks),
    (later_chunks, decorated_later_chunks),
]


@pytest.mark.parametrize(("original", "decorated"), FORMS)
def test_the_decorated_function_looks_like_the_original(
    original: Callable[..., Any], decorated: Callable[..., Any]
) -> None:
    """Signature, hints, names, docstring and kind of function are the original's."""
    assert inspect.signature(decorated) == inspect.signature(original)
    assert typing.get_type_hints(decorated) == typing.get_type_hints(original)
    for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
        assert getattr(decorated, attribute) == getattr(original, attribute)
    for question in (
        inspect.iscoroutinefunction,
        inspect.isgeneratorfunction,
        inspect.isasyncgenfunction,
        inspect.isfunction,
    ):
        assert question(decorated) == question(original)
    assert inspect.unwrap(decorated) is original


def test_pickling() -> None:
    """A decorated function and a bound method survive a pickle and still record."""
    store = Store()
    with capture() as captured:
        assert pickle.loads(pickle.dumps(pickled)) is pickled
        assert pickle.loads(pickle.dumps(store.method))("decision", "a") == "p:a"
    assert names(captured) == [("MemoryRead", "decision/a")]


async def consume(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call any form of function to its end; what it returned or handed over."""
    result = function(*args, **kwargs)
    if inspect.isasyncgen(result):
        return [chunk async for chunk in result]
    if inspect.isgenerator(result):
        return list(result)
    return await result if inspect.isawaitable(result) else result


@pytest.mark.parametrize(("original", "decorated"), FORMS)
async def test_results_pass_through_and_count_once(
    original: Callable[..., Any], decorated: Callable[..., Any]
) -> None:
    """The result is the original's, whatever the style of the call, and each call is one event."""
    with capture() as captured:
        for args, kwargs in [
            (("decision", "a"), {}),
            (("decision",), {"slug": "a"}),
            ((), {"slug": "a", "kind": "decision", "loud": True}),
        ]:
            assert await consume(decorated, *args, **kwargs) == await consume(original, *args, **kwargs)
    assert names(captured) == [("MemoryRead", "decision/a")] * 3
    assert {e.records[0].file_bytes for e in captured.events} == {9 if original in (plain, later) else 7}


@pytest.mark.parametrize(("original", "decorated"), FORMS)
async def test_exceptions_pass_through_and_do_not_count(
    original: Callable[..., Any], decorated: Callable[..., Any]
) -> None:
    """A failed read raises the original's exception and is no event; a wrong call is a TypeError."""
    with capture() as captured:
        with pytest.raises(KeyError, match="nonesuch"):
            await consume(decorated, "decision", "nonesuch")
        with pytest.raises(TypeError):
            await consume(decorated, "decision")
        with pytest.raises(TypeError):
            await consume(decorated, "decision", "a", bogus=1)
    assert captured.events == []
    assert faults.counts() == {}


@pytest.mark.parametrize(
    "call", ["method", "class_method", "outer_class_method", "static_method", "outer_static_method"]
)
def test_methods(call: str) -> None:
    """Instance, class and static methods, decorated on either side, called on either object."""
    with capture() as captured:
        assert getattr(Store(), call)("decision", "a").endswith("a")
        if call != "method":
            assert getattr(Store, call)("decision", "a").endswith("a")
    assert names(captured) == [("MemoryRead", "decision/a")] * (1 if call == "method" else 2)


async def test_coroutine_methods() -> None:
    """An async method stays one, and counts when it has returned."""
    assert inspect.iscoroutinefunction(Store().async_method)
    with capture() as captured:
        coroutine = Store().async_method("decision", "a")
        assert captured.events == []
        assert await coroutine == "p:a"
    assert names(captured) == [("MemoryRead", "decision/a")]


async def test_partials_callable_objects_and_factories() -> None:
    """Partials, objects with ``__call__`` and functions that return a coroutine or generator."""

    class Reader:
        def __call__(self, kind: str, slug: str) -> str:
            return "sync"

    class AsyncReader:
        async def __call__(self, kind: str, slug: str) -> str:
            return "async"

    def factory(kind: str, slug: str) -> Any:
        return later(kind, slug)

    def generator_factory(kind: str, slug: str) -> Any:
        return chunks(kind, slug)

    def async_generator_factory(kind: str, slug: str) -> Any:
        return later_chunks(kind, slug)

    wrap = memtally.instrument_read("MemoryRead")
    with capture() as captured:
        assert wrap(functools.partial(plain, "decision"))("a") == "text of a"
        assert await wrap(functools.partial(later, slug="a"))("decision") == "text of a"
        assert wrap(Reader())("decision", "a") == "sync"
        asynchronous = wrap(AsyncReader())
        assert inspect.iscoroutinefunction(asynchronous)
        assert await asynchronous("decision", "a") == "async"
        assert await wrap(factory)("decision", "a") == "text of a"
        assert list(wrap(generator_factory)("decision", "a")) == ["text", "of", "a"]
        assert [c async for c in wrap(async_generator_factory)("decision", "a")] == ["text", "of", "a"]
    assert names(captured) == [("MemoryRead", "decision/a")] * 7


@pytest.mark.parametrize("nothing", [None, "", b"", [], {}, (), False])
async def test_nothing_is_no_use(nothing: object) -> None:
    """``None``, ``False`` and empty results gave the caller no content: no event, whatever ``records=``."""

    def read(kind: str, slug: str) -> Any:
        return nothing

    async def read_later(kind: str, slug: str) -> Any:
        return nothing

    def read_chunks(kind: str, slug: str) -> Iterator[Any]:
        yield nothing

    with capture() as captured:
        for records in (None, lambda call: MemoryRecord("decision", "a", "x")):
            wrap = memtally.instrument_read("MemoryRead", records=records)
            assert await consume(wrap(read), "decision", "a") == nothing
            assert await consume(wrap(read_later), "decision", "a") == nothing
            assert await consume(wrap(read_chunks), "decision", "a") == [nothing]
    assert captured.events == []


# -- generators ---------------------------------------------------------------------------------------


def test_a_generators_read_counts_from_its_first_chunk() -> None:
    """Never iterated: none. Closed early: one, partial, its size unknown. To the end: one, measured."""
    with capture() as captured:
        decorated_chunks("decision", "a")
        started = decorated_chunks("decision", "a")
        assert captured.events == []
        assert next(started) == "text"
        assert captured.events == []  # written when it ends or is closed
        started.close()
        assert list(decorated_chunks("decision", "a")) == ["text", "of", "a"]
    assert [(e.records[0].partial, e.records[0].file_bytes) for e in captured.events] == [
        (True, None),
        (False, 7),
    ]


async def test_an_async_generators_read_counts_from_its_first_chunk() -> None:
    """The same for async generators, closed or run to the end."""
    with capture() as captured:
        await decorated_later_chunks("decision", "a").aclose()  # type: ignore[attr-defined]
        started = decorated_later_chunks("decision", "a")
        assert await anext(started) == "text"
        await started.aclose()  # type: ignore[attr-defined]
        assert [c async for c in decorated_later_chunks("decision", "a")] == ["text", "of", "a"]
    assert [(e.records[0].partial, e.records[0].file_bytes) for e in captured.events] == [
        (True, None),
        (False, 7),
    ]


def talkative(kind: str, slug: str) -> Any:
    """A generator that answers what it is sent, survives what is thrown, and returns something."""
    got = []
    while len(got) < 3:
        try:
            got.append((yield f"chunk {len(got)}"))
        except ValueError as error:
            got.append(f"caught {error}")
    return got


def test_generators_keep_send_throw_and_return() -> None:
    """``send``, ``throw`` and the return value work as without the decorator."""

    def converse(function: Callable[..., Any]) -> list[Any]:
        generator = function("decision", "a")
        said = [next(generator), generator.send("one"), generator.throw(ValueError("two"))]
        try:
            generator.send("three")
        except StopIteration as stop:
            said.append(stop.value)
        return said

    expected = ["chunk 0", "chunk 1", "chunk 2", ["one", "caught two", "three"]]
    assert converse(talkative) == expected
    with capture() as captured:
        assert converse(memtally.instrument_read("MemoryRead")(talkative)) == expected
    assert len(captured.events) == 1


async def test_async_generators_keep_asend_and_athrow() -> None:
    """``asend`` and ``athrow`` work as without the decorator; an uncaught throw passes through."""

    async def talk(kind: str, slug: str) -> Any:
        got = "nothing"
        while True:
            try:
                got = yield f"got {got}"
            except ValueError as error:
                got = f"caught {error}"

    with capture() as captured:
        generator = memtally.instrument_read("MemoryRead")(talk)("decision", "a")
        assert await generator.asend(None) == "got nothing"
        assert await generator.asend("one") == "got one"
        assert await generator.athrow(ValueError("two")) == "got caught two"
        with pytest.raises(KeyError):
            await generator.athrow(KeyError("three"))
    assert len(captured.events) == 1


def test_a_generator_that_fails_after_a_chunk_was_read_in_part() -> None:
    """Content had reached the caller: a use, partial; failing before the first chunk is none."""

    def broken(kind: str, slug: str, after: int) -> Iterator[str]:
        for number in range(after):
            yield f"chunk {number}"
        raise OSError("gone")

    wrapped = memtally.instrument_read("MemoryRead")(broken)
    with capture() as captured:
        for after in (0, 2):
            with pytest.raises(OSError, match="gone"):
                list(wrapped("decision", "a", after))
    assert [(e.records[0].partial, e.records[0].file_bytes) for e in captured.events] == [(True, None)]


def test_a_generators_cleanup_runs_when_it_is_closed() -> None:
    """Closing the decorated generator closes the original at once."""
    closed = []

    def guarded(kind: str, slug: str) -> Iterator[str]:
        try:
            yield "chunk"
        finally:
            closed.append(slug)

    generator = memtally.instrument_read("MemoryRead")(guarded)("decision", "a")
    with capture():
        next(generator)
        generator.close()  # type: ignore[attr-defined]
    assert closed == ["a"]


def test_a_generator_does_not_leak_its_call_to_its_consumer() -> None:
    """A read between two chunks of another read is a read of its own, and so is the next."""
    with capture() as captured:
        for _ in decorated_chunks("decision", "a"):
            decorated_plain("decision", "b")
        decorated_plain("decision", "a")
    assert sorted(names(captured)) == [("MemoryRead", "decision/a")] * 2 + [("MemoryRead", "decision/b")] * 3


async def test_a_generators_session_is_that_of_its_first_chunk() -> None:
    """Read in one session and closed in another: the first is the session of the read."""
    with capture() as captured:
        with memtally.session("first"):
            generator = decorated_chunks("decision", "a")
            next(generator)
        with memtally.session("second"):
            list(generator)
    assert captured.events[0].session_id == "first"


async def test_cancellation_is_no_read() -> None:
    """A cancelled coroutine gave nothing; the cancellation passes through."""

    @memtally.instrument_read("MemoryRead")
    async def slow(kind: str, slug: str) -> str:
        await asyncio.sleep(60)
        return "never"

    with capture() as captured:
        task = asyncio.create_task(slow("decision", "a"))  # type: ignore[arg-type]
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert captured.events == []


# -- nested and stacked -------------------------------------------------------------------------------


def test_stacked_decorators_count_once_by_the_outer_route() -> None:
    """Two decorators on one function are one read, whatever each knows of the record."""
    by_result = memtally.instrument_read(
        "KnowledgeRef", records=lambda c: MemoryRecord("decision", "a", c.result)
    )
    by_name = memtally.instrument_read("MemoryRead")

    def lookup(query: str) -> str:
        return "content"

    with capture() as captured:
        by_name(by_name(plain))("decision", "a")
        by_result(by_name(plain))("decision", "a")
        by_name(by_result(plain))("decision", "a")
        by_result(by_result(lookup))("x")
    assert names(captured) == [
        ("MemoryRead", "decision/a"),
        ("KnowledgeRef", "decision/a"),
        ("MemoryRead", "decision/a"),
        ("KnowledgeRef", "decision/a"),
    ]


def test_super_is_the_same_read() -> None:
    """A subclass's method that calls ``super()`` reads once."""

    class Cached(Store):
        @memtally.instrument_read("MemoryRead")
        def method(self, kind: str, slug: str) -> str:
            return super().method(kind, slug).upper()

    with capture() as captured:
        assert Cached().method("decision", "a") == "P:A"
    assert names(captured) == [("MemoryRead", "decision/a")]


def test_a_reference_that_reads_by_the_stores_own_path() -> None:
    """``#slug`` expanded through the instrumented ``memory_read`` is one KnowledgeRef, sync and async."""

    @memtally.instrument_read("MemoryRead")
    def memory_read(kind: str, slug: str) -> str:
        return "content"

    @memtally.instrument_read("KnowledgeRef")
    def expand(slug: str) -> str:
        return memory_read("knowledge", slug)

    @memtally.instrument_read(
        "KnowledgeRef", records=lambda c: MemoryRecord("knowledge", c.arguments["name"], c.result)
    )
    async def expand_later(name: str) -> str:
        return memory_read("knowledge", name)

    with capture() as captured:
        expand("policy")
        asyncio.run(expand_later("policy"))
    assert names(captured) == [("KnowledgeRef", "knowledge/policy")] * 2


def test_reads_of_other_records_inside_a_read_count() -> None:
    """A workflow that reads two decisions on its way: three uses, the inner ones written at once."""
    seen: list[int] = []

    @memtally.instrument_read("WorkflowInvoke")
    def invoke(slug: str) -> str:
        decorated_plain("decision", "a")
        seen.append(len(captured.events))
        decorated_plain("decision", "b")
        decorated_plain("decision", "a")
        return "steps"

    with capture() as captured:
        invoke("release")
    assert seen == [1]
    assert sorted(names(captured)) == [
        ("MemoryRead", "decision/a"),
        ("MemoryRead", "decision/a"),
        ("MemoryRead", "decision/b"),
        ("WorkflowInvoke", "workflow/release"),
    ]


def test_inner_reads_of_a_failed_outer_read() -> None:
    """The outer read failed: it is none, nor is its own record's inner read; other records' reads are."""

    @memtally.instrument_read("MemoryRead")
    def strict(kind: str, slug: str) -> str:
        decorated_plain(kind, slug)
        decorated_plain("decision", "b")
        raise PermissionError

    @memtally.instrument_read("Own", records=lambda call: MemoryRecord("decision", "a"))
    def unknown(query: str) -> str:
        decorated_plain("decision", "b")
        raise PermissionError

    with capture() as captured:
        with pytest.raises(PermissionError):
            strict("decision", "a")
        with pytest.raises(PermissionError):
            unknown("x")
    assert names(captured) == [("MemoryRead", "decision/b")] * 2


async def test_tasks_started_inside_a_read() -> None:
    """Reads of the same record by tasks inside the outer read belong to it; after it they are their own."""
    leftover: list[asyncio.Task[str]] = []

    @memtally.instrument_read("MemoryRead")
    async def outer(kind: str, slug: str) -> str:
        await asyncio.gather(decorated_later(kind, slug), decorated_later(kind, slug))
        leftover.append(asyncio.create_task(afterwards()))
        return "content"

    async def afterwards() -> str:
        await asyncio.sleep(0.01)
        return decorated_plain("decision", "a")

    with capture() as captured:
        await outer("decision", "a")
        await leftover[0]
    assert names(captured) == [("MemoryRead", "decision/a")] * 2


# -- records= -----------------------------------------------------------------------------------------


def test_records_maps_the_call() -> None:
    """``records=`` sees arguments with defaults and the result, and may name one, several or none."""
    seen: list[Any] = []

    def mapped(call: memtally.ReadCall) -> Any:
        seen.append((dict(call.arguments), call.result))
        return {
            "one": MemoryRecord("k", "one"),
            "two": [MemoryRecord("k", "x"), MemoryRecord("k", "y")],
            "none": None,
        }[call.result]

    @memtally.instrument_read("Own", records=mapped)
    def read(what: str, depth: int = 2, *rest: int, **extra: int) -> str:
        return what

    with capture() as captured:
        for what in ("one", "two", "none"):
            assert read(what, z=9) == what
    assert names(captured) == [("Own", "k/one"), ("Own", "k/x,k/y")]
    assert seen[0] == ({"what": "one", "depth": 2, "rest": (), "z": 9}, "one")


def test_a_veto_holds_for_what_the_read_did_inside() -> None:
    """An error text returned as a success is no read, neither of the outer nor of the inner layer."""

    @memtally.instrument_read("MemoryRead", records=lambda call: None)
    def outer(kind: str, slug: str) -> str:
        return decorated_plain(kind, slug)

    with capture() as captured:
        outer("decision", "a")
    assert captured.events == []


@pytest.mark.parametrize(
    "records", [lambda call: 1 / 0, lambda call: "text", lambda call: [1], lambda call: MemoryRecord("k", "")]
)
def test_a_failing_records_never_reaches_the_caller(
    records: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A fault in the host's mapping is one warning and a count; the read goes on."""
    read = memtally.instrument_read("Own", records=records)(plain)
    with capture() as captured, caplog.at_level(logging.WARNING, "memtally"):
        for _ in range(3):
            assert read("decision", "a") == "text of a"
    assert captured.events == []
    assert faults.counts() == {"record_failed": 3}
    assert len(caplog.records) == 1
    assert "text of a" not in caplog.text


def test_results_of_other_types_count_with_unknown_sizes(caplog: pytest.LogCaptureFixture) -> None:
    """A dictionary is a use without sizes, and one warning says what to do."""

    @memtally.instrument_read("MemoryRead")
    def read(kind: str, slug: str) -> dict[str, str]:
        return {"text": "content"}

    with capture() as captured, caplog.at_level(logging.WARNING, "memtally"):
        read("decision", "a")
        read("decision", "a")
    assert [(e.records[0].file_bytes, e.tokenizer) for e in captured.events] == [(None, None)] * 2
    assert len(caplog.records) == 1
    assert "records=" in caplog.text


def test_content_in_every_form(tmp_path: Path) -> None:
    """Text by its UTF-8 length, bytes by theirs, a path by its file; what is gone has no size."""
    file = tmp_path / "a.md"
    file.write_bytes("caf\u00e9\n".encode())
    contents: dict[str, Any] = {
        "text": "caf\u00e9\n",
        "bytes": b"caf\xe9",
        "path": file,
        "gone": tmp_path / "gone.md",
    }
    read = memtally.instrument_read("MemoryRead", kind="decision")(lambda slug: contents[slug])
    with capture() as captured:
        for slug in contents:
            assert read(slug) is contents[slug]
    assert [e.records[0].file_bytes for e in captured.events] == [6, 4, 6, None]


# -- injections ---------------------------------------------------------------------------------------


def test_an_injection_of_several_records_is_one_event() -> None:
    """One call is one exposure event of all its records, and no use."""

    @memtally.instrument_injection()
    def resident() -> list[MemoryRecord]:
        return [
            MemoryRecord("instructions", "CLAUDE.md", "rules"),
            MemoryRecord("knowledge", "p", "long", injected="l"),
        ]

    with capture() as captured:
        assert len(resident()) == 2
        resident()
    assert captured.uses == []
    assert names(captured) == [("ResidentInjection", "instructions/CLAUDE.md,knowledge/p")] * 2
    assert captured.events[0].records[1].injected_bytes == 1


async def test_injections_in_every_form() -> None:
    """Bare, with a source of its own, mapped, async, as a generator; empty is no event."""

    @memtally.instrument_injection
    def bare() -> MemoryRecord:
        return MemoryRecord("rule", "bare")

    @memtally.instrument_injection("AutoRecall")
    async def recalled() -> list[MemoryRecord]:
        return [MemoryRecord("memory", "recalled")]

    @memtally.instrument_injection(
        records=lambda call: [MemoryRecord("rule", n) for n in call.result.split()]
    )
    def prompt() -> str:
        return "one two"

    @memtally.instrument_injection()
    def generated() -> Iterator[MemoryRecord]:
        yield MemoryRecord("rule", "g1")
        yield MemoryRecord("rule", "g2")

    @memtally.instrument_injection()
    def empty() -> list[MemoryRecord]:
        return []

    with capture() as captured:
        for function in (bare, recalled, prompt, generated, empty):
            await consume(function)
    assert names(captured) == [
        ("ResidentInjection", "rule/bare"),
        ("AutoRecall", "memory/recalled"),
        ("ResidentInjection", "rule/one,rule/two"),
        ("ResidentInjection", "rule/g1,rule/g2"),
    ]


def test_stacked_injections_count_once() -> None:
    """An injection inside an injection places its records once."""

    @memtally.instrument_injection()
    def inner() -> list[MemoryRecord]:
        return [MemoryRecord("rule", "a")]

    @memtally.instrument_injection()
    def outer() -> list[MemoryRecord]:
        return [*inner(), MemoryRecord("rule", "b")]

    with capture() as captured:
        outer()
    assert names(captured) == [("ResidentInjection", "rule/a,rule/b")]


def test_once_per_session() -> None:
    """Each record once in each session; a record that joins later gets its own exposure."""
    current = ["a"]

    @memtally.instrument_injection(once_per="session")
    def resident() -> list[MemoryRecord]:
        return [MemoryRecord("rule", slug) for slug in current]

    with capture() as captured:
        for session in ("s1", "s2", "s1"):
            with memtally.session(session):
                resident()
                resident()
        current.append("b")
        with memtally.session("s1"):
            resident()
        resident()
        resident()
    assert [(e.session_id, [r.slug for r in e.records]) for e in captured.events] == [
        ("s1", ["a"]),
        ("s2", ["a"]),
        ("s1", ["b"]),
        (None, ["a", "b"]),
    ]


# -- wrong use ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decorate", "names_"),
    [
        (lambda: memtally.instrument_read("MemoryQuery"), "search"),
        (lambda: memtally.instrument_read("ResidentInjection"), "record_exposure"),
        (lambda: memtally.instrument_read(42), "source"),
        (lambda: memtally.instrument_read("MemoryRead", kind="Bad Kind"), "kind"),
        (lambda: memtally.instrument_read("MemoryRead", records="x"), "records"),
        (lambda: memtally.instrument_read("MemoryRead")(lambda name: name), "slug.*records=lambda"),
        (lambda: memtally.instrument_read("MemoryRead")(lambda slug: slug), "kind"),
        (lambda: memtally.instrument_read("MemoryRead")(Store), "function"),
        (lambda: memtally.instrument_read("MemoryRead")(3), "function"),
        (lambda: memtally.instrument_injection("MemoryRead"), "record_use"),
        (lambda: memtally.instrument_injection(once_per="day"), "once_per"),
    ],
)
def test_wrong_use_is_refused_at_decoration(decorate: Callable[[], Any], names_: str) -> None:
    """A decorator that can never work says so where it stands, in one line."""
    with pytest.raises(InvalidValueError, match=names_) as caught:
        decorate()
    assert "\n" not in str(caught.value)


def test_suppressed_and_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under suppressed instrumentation and ``MEMTALLY_DISABLED`` nothing is recorded."""
    from opentelemetry.context import attach, detach, set_value

    with capture() as captured:
        token = attach(set_value("suppress_instrumentation", True))
        decorated_plain("decision", "a")
        list(decorated_chunks("decision", "a"))
        detach(token)
        monkeypatch.setenv("MEMTALLY_DISABLED", "1")
        decorated_plain("decision", "a")
        assert asyncio.run(later("decision", "a")) == asyncio.run(decorated_later("decision", "a"))
    assert captured.events == []


# -- what a review found, as kinds --------------------------------------------------------------------


def test_one_shot_iterators_of_an_injection_reach_the_host() -> None:
    """Looking at the records of an iterator must not use it up."""

    @memtally.instrument_injection()
    def resident() -> Iterator[MemoryRecord]:
        return map(lambda slug: MemoryRecord("rule", slug), "ab")  # noqa: C417 - no generator, an iterator

    with capture() as captured:
        assert [record.slug for record in resident()] == ["a", "b"]
    assert names(captured) == [("ResidentInjection", "rule/a,rule/b")]


def test_an_open_file_as_result_is_not_consumed(tmp_path: Path) -> None:
    """A result that can be read once is the caller's; it counts with unknown size."""
    (tmp_path / "a.md").write_text("content")

    @memtally.instrument_read("MemoryRead")
    def read(kind: str, slug: str) -> Any:
        return (tmp_path / f"{slug}.md").open()

    with capture() as captured, read("decision", "a") as stream:
        assert stream.read() == "content"
    assert captured.events[0].records[0].file_bytes is None


async def test_futures_and_tasks_count_when_they_succeed() -> None:
    """A returned task is the read itself: it counts when done, and not when it failed or was cancelled."""

    async def slow(outcome: str) -> str:
        await asyncio.sleep(0.01)
        if outcome == "fails":
            raise OSError("gone")
        return outcome

    @memtally.instrument_read("MemoryRead", kind="decision")
    def read(slug: str) -> asyncio.Task[str]:
        return asyncio.ensure_future(slow(slug))

    with capture() as captured:
        task = read("works")
        assert captured.events == []
        assert await task == "works"
        with pytest.raises(OSError, match="gone"):
            await read("fails")
        cancelled = read("cancelled")
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        await asyncio.sleep(0)
    assert [(e.records[0].slug, e.records[0].file_bytes) for e in captured.events] == [("works", 5)]


async def test_generator_based_coroutines() -> None:
    """The oldest form of coroutine can still be awaited, and counts once."""
    import types

    @memtally.instrument_read("MemoryRead")
    @types.coroutine
    def read(kind: str, slug: str) -> Any:
        yield from asyncio.sleep(0).__await__()
        return "content"

    with capture() as captured:
        assert await read("decision", "a") == "content"
    assert names(captured) == [("MemoryRead", "decision/a")]


def test_kinds_fixed_given_and_assumed() -> None:
    """The decorator's kind wins over an argument of that name; a source's own kind fills an empty one."""

    @memtally.instrument_read("MemoryRead", kind="decision")
    def fixed(slug: str, kind: str = "full") -> str:
        return "content"

    @memtally.instrument_read("KnowledgeRef")
    def assumed(slug: str, kind: str | None = None) -> str:
        return "content"

    with capture() as captured:
        fixed("a")
        assumed("b")
        assumed("c", kind="policy")
    assert [e.records[0].key for e in captured.events] == [
        ("decision", "a"),
        ("knowledge", "b"),
        ("policy", "c"),
    ]


def test_a_wrapper_that_supplies_an_argument() -> None:
    """Arguments given by name are found even where the signature tells of one more; nothing is guessed."""

    def with_database(function: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> str:
            return function("database", *args, **kwargs)

        return wrapper

    @memtally.instrument_read("MemoryRead")
    @with_database
    def read(database: str, kind: str, slug: str) -> str:
        return "content"

    with capture() as captured:
        assert read(kind="decision", slug="a") == "content"
        assert read("decision", "a") == "content"
    assert names(captured) == [("MemoryRead", "decision/a")]
    assert faults.counts() == {"record_failed": 1}  # said, not guessed


def test_an_injection_that_uses_the_instrumented_reader() -> None:
    """Fetching always-on text through the host's own reader is an exposure and no use."""

    @memtally.instrument_injection()
    def resident() -> list[MemoryRecord]:
        return [MemoryRecord("decision", "a", decorated_plain("decision", "a"))]

    with capture() as captured:
        for _ in range(5):
            resident()
    assert names(captured) == [("ResidentInjection", "decision/a")] * 5


def test_a_failing_records_does_not_take_the_inner_read_with_it() -> None:
    """A fault of the outer layer's mapping is no veto: what the inner layer knows still counts."""
    outer = memtally.instrument_read("MemoryRead", records=lambda call: 1 / 0)(decorated_plain)
    with capture() as captured:
        assert outer("decision", "a") == "text of a"
    assert names(captured) == [("MemoryRead", "decision/a")]


def test_inner_reads_are_written_before_the_outer_call_ends() -> None:
    """What may not be the outer call's own is in the log at once, with the size it had then."""
    seen: list[list[tuple[str, str]]] = []

    @memtally.instrument_read(
        "WorkflowInvoke", records=lambda c: MemoryRecord("workflow", c.arguments["name"], c.result)
    )
    def invoke(name: str) -> str:
        decorated_plain("decision", "a")
        seen.append(names(captured))
        return "steps"

    with capture() as captured:
        invoke("release")
    assert seen == [[("MemoryRead", "decision/a")]]
    assert names(captured) == [("MemoryRead", "decision/a"), ("WorkflowInvoke", "workflow/release")]


def test_a_session_is_not_borrowed_from_where_a_generator_ends() -> None:
    """Begun without a session, ended in one: the read has none; ``once_per`` remembers the first, too."""

    @memtally.instrument_injection(once_per="session")
    def resident() -> Iterator[MemoryRecord]:
        yield MemoryRecord("rule", "a")

    with capture() as captured:
        generator = decorated_chunks("decision", "a")
        next(generator)
        with memtally.session("s2"):
            list(generator)
        with memtally.session("s1"):
            placed = resident()
            next(placed)
        with memtally.session("s2"):
            list(placed)
        with memtally.session("s1"):
            list(resident())
    assert [(e.event, e.session_id) for e in captured.events] == [("use", None), ("resident_exposure", "s1")]


async def test_blocks_that_end_in_another_context() -> None:
    """An async generator closed by another task, one session object in two tasks: no error, no mix-up."""

    async def stream() -> AsyncIterator[int]:
        with memtally.session("inner"):
            yield 1
            yield 2

    generator = stream()
    await asyncio.create_task(anext(generator))  # type: ignore[arg-type]
    await generator.aclose()  # type: ignore[attr-defined]
    shared = memtally.session("shared")

    async def work(pause: float) -> str | None:
        with shared:
            await asyncio.sleep(pause)
            with capture() as captured:
                decorated_plain("decision", "a")
        return captured.events[0].session_id

    assert await asyncio.gather(work(0.01), work(0.0)) == ["shared", "shared"]


def test_finished_calls_are_not_chained() -> None:
    """A read begun in the context of one that has ended hangs on no chain of calls."""
    import contextvars

    from memtally import _calls

    contexts = [contextvars.copy_context()]

    @memtally.instrument_read("MemoryRead")
    def read(kind: str, slug: str) -> str:
        contexts.append(contextvars.copy_context())
        return "content"

    with capture() as captured:
        for number in range(50):
            contexts[-1].run(read, "decision", str(number))
    assert len(captured.events) == 50
    last = contexts[-1][_calls._open_call]
    assert last is not None
    assert last.parent is None


def test_a_hosts_record_object_stays_as_it_is() -> None:
    """An interrupted read is partial in the log, not in the object that the host keeps."""
    kept = MemoryRecord("decision", "a", "content")
    read = memtally.instrument_read("Own", records=lambda call: kept)(chunks)
    with capture() as captured:
        generator = read("decision", "a")
        next(generator)
        generator.close()  # type: ignore[attr-defined]
    assert captured.events[0].records[0].partial is True
    assert kept.partial is False


def test_chunks_of_other_types_are_not_kept_alive() -> None:
    """A generator of the host's own objects costs no memory for measuring what cannot be measured."""
    import gc
    import weakref

    class Chunk:
        pass

    alive: weakref.WeakSet[Chunk] = weakref.WeakSet()

    @memtally.instrument_read("MemoryRead")
    def read(kind: str, slug: str) -> Iterator[Chunk]:
        for _ in range(20):
            chunk = Chunk()
            alive.add(chunk)
            yield chunk

    with capture() as captured:
        for chunk in read("decision", "a"):
            del chunk
            gc.collect()
            assert len(alive) <= 2
    assert captured.events[0].records[0].file_bytes is None


@pytest.mark.parametrize(
    ("value", "events"), [("False", 1), ("0", 1), ("no", 1), ("", 1), ("1", 0), ("TRUE", 0)]
)
def test_the_switch_reads_yes_and_no(monkeypatch: pytest.MonkeyPatch, value: str, events: int) -> None:
    """``MEMTALLY_DISABLED`` is off for every way to say no."""
    monkeypatch.setenv("MEMTALLY_DISABLED", value)
    with capture() as captured:
        decorated_plain("decision", "a")
    assert len(captured.events) == events


def test_a_consumers_read_of_the_same_record_is_its_own() -> None:
    """Between two chunks of a record the consumer reads that record itself: three uses in all."""

    @memtally.instrument_read("MemoryRead")
    def two(kind: str, slug: str) -> Iterator[str]:
        yield "one"
        yield "two"

    with capture() as captured:
        for _ in two("decision", "a"):
            decorated_plain("decision", "a")
    assert names(captured) == [("MemoryRead", "decision/a")] * 3


def test_an_injection_inside_a_read_of_the_same_record_is_both() -> None:
    """A use and an exposure of one record are two things, whichever is inside the other's function."""

    @memtally.instrument_injection()
    def place() -> list[MemoryRecord]:
        return [MemoryRecord("decision", "a", "text")]

    @memtally.instrument_read("MemoryRead")
    def read(kind: str, slug: str) -> str:
        place()
        return "content"

    with capture() as captured:
        read("decision", "a")
    assert sorted(e.event for e in captured.events) == ["resident_exposure", "use"]


def test_a_read_that_outlives_the_read_around_it_in_another_thread() -> None:
    """The outer call ends while the inner one hands its event over: one of them writes it."""
    import threading

    from memtally import _calls

    entered, leave = threading.Event(), threading.Event()
    real = _calls.OpenCall._claimant

    def claimant(self: _calls.OpenCall, key: tuple[str, str]) -> _calls.OpenCall | None:
        found = real(self, key)
        if found is not None and threading.current_thread() is not threading.main_thread():
            entered.set()
            leave.wait(10)  # the outer call ends just here
        return found

    @memtally.instrument_read("MemoryRead")
    def outer(kind: str, slug: str) -> str:
        import contextvars

        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(decorated_plain, kind, slug))
        threads.append(thread)
        thread.start()
        entered.wait(10)
        raise PermissionError

    threads: list[threading.Thread] = []
    with capture() as captured, pytest.MonkeyPatch.context() as patch:
        patch.setattr(_calls.OpenCall, "_claimant", claimant)
        with pytest.raises(PermissionError):
            outer("decision", "a")
        leave.set()
        threads[0].join(10)
    assert names(captured) == [("MemoryRead", "decision/a")]


class AttrDict(dict[str, Any]):
    """A dictionary whose items are attributes, and whose missing attributes are KeyErrors."""

    __getattr__ = dict.__getitem__


class Evasive(list[int]):
    """A list that will not say how long it is."""

    def __len__(self) -> int:
        raise RuntimeError("no")


def test_odd_results_of_the_hosts_reach_it_untouched() -> None:
    """Whatever a result does when it is asked something, the host gets it, and it counts where it can."""
    from unittest.mock import MagicMock

    odd: dict[str, Any] = {"dict": AttrDict(a=1), "mock": MagicMock(), "list": Evasive([1])}
    read = memtally.instrument_read("MemoryRead", kind="decision")(lambda slug: odd[slug])
    with capture() as captured:
        for slug, value in odd.items():
            assert read(slug) is value
    assert [e.records[0].slug for e in captured.events] == ["dict", "mock"]
    assert faults.counts()["result_failed"] == 1


async def test_awaitables_of_the_hosts_own_type() -> None:
    """An awaitable that is no coroutine counts when it has been awaited, and not when that failed."""

    class Later:
        def __init__(self, outcome: str) -> None:
            self.outcome = outcome

        def __await__(self) -> Any:
            yield from asyncio.sleep(0).__await__()
            if self.outcome == "fails":
                raise OSError("gone")
            return self.outcome

    read = memtally.instrument_read("MemoryRead", kind="decision")(lambda slug: Later(slug))  # noqa: PLW0108 - the parameter names the record
    with capture() as captured:
        assert await read("works") == "works"
        with pytest.raises(OSError, match="gone"):
            await read("fails")
    assert [e.records[0].slug for e in captured.events] == ["works"]


def test_a_huge_generator_is_handed_on_and_not_kept() -> None:
    """Beyond the bound its size is unknown; the caller gets every chunk."""
    from memtally import decorators

    @memtally.instrument_read("MemoryRead")
    def read(kind: str, slug: str) -> Iterator[str]:
        for _ in range(40):
            yield "x" * 1_000

    with capture() as captured, pytest.MonkeyPatch.context() as patch:
        patch.setattr(decorators, "_MAX_KEPT", 10_000)
        assert sum(map(len, read("decision", "a"))) == 40_000
    assert captured.events[0].records[0].file_bytes is None


def test_old_sessions_are_forgotten() -> None:
    """What ``once_per`` remembers is bounded: the oldest session is placed anew, a recent one is not."""
    from memtally import _calls

    @memtally.instrument_injection(once_per="session")
    def resident() -> list[MemoryRecord]:
        return [MemoryRecord("rule", "a")]

    with capture() as captured, pytest.MonkeyPatch.context() as patch:
        patch.setattr(_calls, "_SESSIONS_REMEMBERED", 3)
        for session in ("s1", "s2", "s3", "s4", "s4", "s1"):
            with memtally.session(session):
                resident()
    assert [e.session_id for e in captured.events] == ["s1", "s2", "s3", "s4", "s1"]


def test_files_of_every_size_and_none(tmp_path: Path) -> None:
    """A large file has its true size and an estimate from its beginning; a pipe is no file and hangs nobody."""
    import os

    large, pipe = tmp_path / "large.md", tmp_path / "pipe.md"
    large.write_text("word " * 600_000)
    os.mkfifo(pipe)
    files = {"large": large, "pipe": pipe}
    read = memtally.instrument_read("MemoryRead", kind="decision")(lambda slug: files[slug])
    with capture() as captured:
        for slug in files:
            read(slug)
    big, none = (e.records[0] for e in captured.events)
    assert big.file_bytes == 3_000_000
    assert big.file_tokens_estimate is not None
    assert 300_000 <= big.file_tokens_estimate <= 1_200_000  # a word and its blank are one token: 600,000
    assert captured.events[0].tokenizer == "script-estimate"
    assert (none.file_bytes, none.file_tokens_estimate) == (None, None)


def test_an_event_bears_the_name_of_its_weakest_estimate() -> None:
    """One record counted exactly and one estimated: the event does not claim to be exact."""
    from memtally import tokens

    tokens.preload()
    assert tokens.estimator().wait(30)
    with capture() as captured:
        memtally.record_use(
            "MemoryRead", [MemoryRecord("k", "short", "x"), MemoryRecord("k", "long", "x " * 40_000)]
        )
        memtally.record_use("MemoryRead", [MemoryRecord("k", "short", "x")])
    assert [e.tokenizer for e in captured.events] == ["script-estimate", "o200k_base"]


def test_enumerations_as_kinds_and_slugs() -> None:
    """Members of a ``str`` enumeration name the record that their text names, nested reads included."""
    import enum

    class Kind(str, enum.Enum):  # noqa: UP042 - the older way, whose members hash by their name
        DECISION = "decision"

    class Slug(enum.StrEnum):
        A = "a"

    @memtally.instrument_read("KnowledgeRef")
    def outer(kind: str, slug: str) -> str:
        return decorated_plain("decision", "a")

    with capture() as captured:
        outer(Kind.DECISION, Slug.A)
        decorated_plain(Kind.DECISION, Slug.A)
    assert [(e.source, e.records[0].key) for e in captured.events] == [
        ("KnowledgeRef", ("decision", "a")),
        ("MemoryRead", ("decision", "a")),
    ]
    assert all(type(part) is str for e in captured.events for part in e.records[0].key)


def _positional_only(kind: str, /, slug: str = "s", *, loud: bool = False) -> str:
    return "content"


def _keyword_only(*, kind: str, slug: str = "s") -> str:
    return "content"


def _with_extras(kind: str, *rest: str, slug: str = "s", **extra: str) -> str:
    return "content"


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (plain, ("k", "s"), {}),
        (plain, ("k",), {"slug": "s", "loud": True}),
        (plain, (), {"slug": "s", "kind": "k"}),
        (_positional_only, ("k",), {}),
        (_positional_only, ("k", "t"), {"loud": True}),
        (_keyword_only, (), {"kind": "k"}),
        (functools.partial(plain, slug="s"), ("k",), {}),
        (functools.partial(plain, "k"), ("s",), {}),
        (_with_extras, ("k", "x", "y"), {"slug": "t"}),
    ],
)
def test_arguments_are_those_that_python_binds(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """The quick way to name a call's arguments finds what ``inspect`` finds."""
    from memtally._calls import Instrumented

    found = Instrumented(function, "use", "MemoryRead", None, None).arguments(args, kwargs)
    inner = function.func if isinstance(function, functools.partial) else function
    bound = function.args if isinstance(function, functools.partial) else ()
    named = function.keywords if isinstance(function, functools.partial) else {}
    expected = inspect.signature(inner).bind(*bound, *args, **named, **kwargs)
    expected.apply_defaults()
    wanted = dict(expected.arguments)
    wanted.update(wanted.pop("extra", {}))
    assert dict(found) == wanted


async def test_odd_chunks_of_the_hosts_reach_it_untouched() -> None:
    """A chunk that fails when it is asked for its length is handed on all the same."""
    odd = Evasive([1])

    def stream(kind: str, slug: str) -> Iterator[Any]:
        yield odd
        yield "text"

    async def stream_later(kind: str, slug: str) -> AsyncIterator[Any]:
        yield odd
        yield "text"

    wrap = memtally.instrument_read("MemoryRead")
    with capture() as captured:
        assert [chunk is odd or chunk for chunk in wrap(stream)("decision", "a")] == [True, "text"]
        assert [chunk is odd or chunk async for chunk in wrap(stream_later)("decision", "a")] == [
            True,
            "text",
        ]
    assert names(captured) == [("MemoryRead", "decision/a")] * 2
    assert faults.counts() == {"result_failed": 2}


class Plain:
    """The methods of ``Store`` as they were before they were decorated."""

    @classmethod
    def class_method(cls, kind: str, slug: str) -> str:
        """A class method, decorated inside."""
        return slug

    @classmethod
    def outer_class_method(cls, kind: str, slug: str) -> str:
        """A class method, decorated outside."""
        return slug

    @staticmethod
    def static_method(kind: str, slug: str) -> str:
        """A static method, decorated inside."""
        return slug

    @staticmethod
    def outer_static_method(kind: str, slug: str) -> str:
        """A static method, decorated outside."""
        return slug

    def method(self, kind: str, slug: str) -> str:
        """A method."""
        return slug


@pytest.mark.parametrize(
    "name", ["method", "class_method", "outer_class_method", "static_method", "outer_static_method"]
)
def test_decorated_methods_look_like_the_originals(name: str) -> None:
    """On the class and on an instance: signature, hints, name and docstring are those of the plain twin."""
    for owner, twin in ((Store, Plain), (Store(), Plain())):
        decorated, original = getattr(owner, name), getattr(twin, name)
        assert inspect.signature(decorated) == inspect.signature(original)
        assert typing.get_type_hints(decorated) == typing.get_type_hints(original)
        assert (decorated.__name__, decorated.__doc__) == (original.__name__, original.__doc__)
        assert inspect.iscoroutinefunction(decorated) is False
        if name != "method" or owner is Store:
            assert pickle.loads(pickle.dumps(decorated)) == decorated


def test_typed_and_invoked_workflows_are_told_apart() -> None:
    """Twice typed and once invoked by the model, in one session: three uses, by two routes."""
    typed = memtally.instrument_read("WorkflowInvoke")(lambda slug: "steps")
    invoked = memtally.instrument_read("SkillInvoke", kind="workflow")(lambda slug: "steps")
    with capture() as captured, memtally.session("s"):
        typed("release")
        typed("release")
        invoked("release")
    assert [name for name, _ in names(captured)] == ["WorkflowInvoke", "WorkflowInvoke", "SkillInvoke"]
    assert {record for _, record in names(captured)} == {"workflow/release"}
