"""Sessions and actors: whose read it is, across tasks, threads and executors."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import memtally
from memtally import faults
from memtally.errors import InvalidValueError
from memtally.testing import Captured, capture


@memtally.instrument_read("MemoryRead")
def read(kind: str, slug: str) -> str:
    """A read path."""
    return f"{kind} {slug}"


@memtally.instrument_read("MemoryRead")
async def read_later(kind: str, slug: str, pause: float = 0.0) -> str:
    """A read path that lets others run meanwhile."""
    await asyncio.sleep(pause)
    return f"{kind} {slug}"


def by_slug(captured: Captured) -> dict[str, str | None]:
    """Which session each record was read in."""
    return {event.records[0].slug: event.session_id for event in captured.events}


def test_a_block_gives_its_reads_session_and_actor() -> None:
    """Inside the block its values hold, inner blocks override, and afterwards nothing is left."""
    with capture() as captured:
        with memtally.session("outer", actor="user"):
            read("decision", "a")
            with memtally.session(actor="maintenance"):
                read("decision", "b")
            with memtally.session("inner"):
                read("decision", "c")
            read("decision", "d")
        read("decision", "e")
    assert [(e.session_id, e.actor) for e in captured.events] == [
        ("outer", "user"),
        ("outer", "maintenance"),
        ("inner", "user"),
        ("outer", "user"),
        (None, "agent"),
    ]


def test_an_exception_ends_the_block() -> None:
    """The session is left however the block ends."""
    with capture() as captured:
        with pytest.raises(ZeroDivisionError), memtally.session("s"):
            raise ZeroDivisionError
        read("decision", "a")
    assert captured.events[0].session_id is None


async def test_interleaved_sessions_never_mix() -> None:
    """Two sessions interleaved by ``gather``: each read has its own session's id."""

    async def conversation(name: str, pause: float) -> None:
        with memtally.session(name):
            for number in range(5):
                await read_later("decision", f"{name}-{number}", pause)
                read("decision", f"{name}-sync-{number}")

    with capture() as captured:
        await asyncio.gather(*(conversation(f"s{n}", 0.001 * n) for n in range(6)))
    assert len(captured.events) == 60
    assert all(session == slug.split("-")[0] for slug, session in by_slug(captured).items())


async def test_to_thread_keeps_the_session_and_executors_never_take_anothers() -> None:
    """``asyncio.to_thread`` carries the session; a plain executor or thread has none, not a wrong one."""
    loop = asyncio.get_running_loop()
    with capture() as captured, ThreadPoolExecutor(2) as pool:
        with memtally.session("mine"):
            await asyncio.to_thread(read, "decision", "to-thread")
            await loop.run_in_executor(pool, read, "decision", "executor")
            pool.submit(read, "decision", "pool").result()
            thread = threading.Thread(target=read, args=("decision", "thread"))
            thread.start()
            thread.join()
        with memtally.session("other"):
            await loop.run_in_executor(pool, read, "decision", "executor-again")
    assert by_slug(captured) == {
        "to-thread": "mine",
        "executor": None,
        "pool": None,
        "thread": None,
        "executor-again": None,
    }


def test_threads_have_their_own_sessions() -> None:
    """A block in one thread is not another thread's."""
    barrier = threading.Barrier(4)

    def work(name: str) -> None:
        with memtally.session(name):
            barrier.wait(10)
            for number in range(20):
                read("decision", f"{name}-{number}")

    with capture() as captured:
        threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert len(captured.events) == 80
    assert all(session == slug.split("-")[0] for slug, session in by_slug(captured).items())


def test_process_defaults_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a block: what ``configure()`` said, else the environment, else nothing and ``agent``."""
    from memtally.context import set_defaults

    monkeypatch.setenv("MEMTALLY_SESSION_ID", "from-env")
    monkeypatch.setenv("MEMTALLY_ACTOR", "subagent")
    with capture() as captured:
        read("decision", "a")
        set_defaults("from-configure", "user")
        read("decision", "b")
    assert [(e.session_id, e.actor) for e in captured.events] == [
        ("from-env", "subagent"),
        ("from-configure", "user"),
    ]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"session_id": ""}, "session_id"),
        ({"session_id": 3}, "session_id"),
        ({"actor": "doctor"}, "maintenance"),
        ({"actor": ""}, "actor"),
    ],
)
def test_wrong_values_are_refused_at_once(arguments: dict[str, object], names: str) -> None:
    """An impossible session or actor is the programmer's mistake, named with the choices."""
    with pytest.raises(InvalidValueError, match=names):
        memtally.session(**arguments)  # type: ignore[arg-type]


def test_a_wrong_actor_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a read path it is taken as ``agent``, said and counted; ``configure()`` refuses it."""
    monkeypatch.setenv("MEMTALLY_ACTOR", "doctor")
    with capture() as captured:
        read("decision", "a")
        read("decision", "b")
    assert [event.actor for event in captured.events] == ["agent", "agent"]
    assert faults.counts() == {"wrong_actor": 2}
    with pytest.raises(InvalidValueError, match="doctor"):
        memtally.configure(".")


def test_blocks_left_out_of_order() -> None:
    """Leaving an outer block first leaves the inner one's values in place."""
    from memtally.context import current_session_id

    outer, inner = memtally.session("outer"), memtally.session("inner")
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert current_session_id() == "inner"
    inner.__exit__(None, None, None)
    assert current_session_id() is None
