"""mem0 with a real vector store on disk; only its embedder, which would ask the network, stands in for one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memtally
from memtally import RecordUsage
from memtally.testing import Captured

pytestmark = pytest.mark.filterwarnings("ignore")  # mem0 and its stores warn of their own dependencies


class Embedder:
    """Text to a vector, without a model."""

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return [float(len(text)), 1.0, 2.0, 3.0]

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        return [self.embed(text) for text in texts]


def config(folder: Path) -> dict[str, Any]:
    """A configuration that needs no network."""
    return {
        "vector_store": {
            "provider": "qdrant",
            "config": {"path": str(folder / "q"), "embedding_model_dims": 4, "on_disk": True},
        },
        "llm": {"provider": "openai", "config": {"api_key": "none"}},
        "embedder": {"provider": "openai", "config": {"api_key": "none"}},
        "history_db_path": str(folder / "history.db"),
    }


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MEM0_TELEMETRY", "False")
    monkeypatch.setenv("MEM0_DIR", str(tmp_path / "mem0"))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Any]:
    """A memory of mem0 that holds one text."""
    import mem0

    made = mem0.Memory.from_config(config(tmp_path))
    made.embedding_model = Embedder()
    yield made
    made.vector_store.client.close()


def add(memory: Any, text: str) -> str:
    """Put a text into it as it is; its id."""
    [added] = memory.add(text, user_id="u1", infer=False)["results"]
    return str(added["id"])


def test_get_is_a_use_and_search_is_not(memory: Any, captured: Captured) -> None:
    """A memory that is got by id counts; what a search or a listing returns does not."""
    from memtally.hosts.mem0 import instrument

    assert instrument(instrument(memory)) is memory
    own = add(memory, "likes tea")
    assert memory.get(own)["memory"] == "likes tea"
    assert memory.get("00000000-0000-4000-8000-000000000000") is None
    memory.search("tea", filters={"user_id": "u1"})
    memory.get_all(filters={"user_id": "u1"})
    found = [(event.source, event.records[0].key, event.records[0].file_bytes) for event in captured.events]
    assert found == [("MemoryRead", ("memory", own), 9)]


def test_an_async_memory_stays_async(tmp_path: Path, captured: Captured) -> None:
    """The asynchronous memory is awaited as before, and counts."""
    import mem0

    from memtally.hosts.mem0 import instrument

    made = mem0.AsyncMemory.from_config(config(tmp_path))
    if asyncio.iscoroutine(made):
        made = asyncio.run(made)
    made.embedding_model = Embedder()
    instrument(made, kind="knowledge")

    async def run() -> str:
        [added] = (await made.add("likes tea", user_id="u1", infer=False))["results"]
        await asyncio.gather(made.get(added["id"]), made.get(added["id"]))
        return str(added["id"])

    own = asyncio.run(run())
    made.vector_store.client.close()
    assert [event.records[0].key for event in captured.events] == [("knowledge", own)] * 2


def test_a_wrong_memory_is_refused() -> None:
    """What has no get is an error at once."""
    from memtally.hosts.mem0 import instrument

    with pytest.raises(memtally.InvalidValueError, match="no memory"):
        instrument(object())


def test_one_memory_is_one_record(memory: Any, captured: Captured) -> None:
    """Asked for in another spelling of its id, it is the same record."""
    from memtally.hosts.mem0 import instrument

    own = add(instrument(memory), "likes tea")
    for spelled in (own, own.upper(), own.replace("-", "")):
        assert memory.get(spelled)["id"] == own
    assert [event.records[0].slug for event in captured.events] == [own] * 3


def test_the_instrumentor_patches_and_gives_back(memory: Any, captured: Captured) -> None:
    """Instrumented twice is once; what was by hand keeps its mapping and counts once; uninstrument restores identity."""
    import mem0
    from anthropic.tools import BetaAsyncLocalFilesystemMemoryTool, BetaLocalFilesystemMemoryTool

    from memtally.hosts.instrumentor import MemtallyInstrumentor
    from memtally.hosts.mem0 import instrument

    own = add(memory, "likes tea")
    classes = [
        (mem0.Memory, "get"),
        (mem0.AsyncMemory, "get"),
        (mem0.MemoryClient, "get"),
        (mem0.AsyncMemoryClient, "get"),
        (BetaLocalFilesystemMemoryTool, "execute"),
        (BetaAsyncLocalFilesystemMemoryTool, "execute"),
    ]

    def present() -> list[object]:
        return [inspect.getattr_static(owner, name) for owner, name in classes]

    before = present()
    instrumentor = MemtallyInstrumentor()
    instrumentor.instrument()
    instrumentor.instrument()  # says that it is already, and does nothing
    try:
        assert all(new is not old for new, old in zip(present(), before, strict=True))
        memory.get(own)
        assert [event.records[0].key for event in captured.events] == [("memory", own)]
        instrument(memory, kind="note")
        memory.get(own)
        assert [event.records[0].key for event in captured.events] == [("memory", own), ("note", own)]
    finally:
        instrumentor.uninstrument()
    assert all(new is old for new, old in zip(present(), before, strict=True))


def test_somebody_elses_later_patch_stays(
    memory: Any, captured: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was put over ours in the meantime is not taken away with ours, and ours beneath it is silent."""
    import mem0

    from memtally.hosts.instrumentor import MemtallyInstrumentor

    own = add(memory, "likes tea")
    monkeypatch.setattr(mem0.Memory, "get", mem0.Memory.get)
    MemtallyInstrumentor().instrument()
    ours = mem0.Memory.get

    def theirs(self: object, memory_id: str) -> Any:
        return ours(self, memory_id)

    mem0.Memory.get = theirs
    memory.get(own)
    MemtallyInstrumentor().uninstrument()
    assert mem0.Memory.get is theirs
    memory.get(own)
    assert len(captured.events) == 1


def test_the_instrumentor_is_found_by_name() -> None:
    """``opentelemetry-instrument`` finds it by its entry point."""
    from importlib.metadata import entry_points

    from memtally.hosts.instrumentor import MemtallyInstrumentor

    [found] = [
        point for point in entry_points(group="opentelemetry_instrumentor") if point.name == "memtally"
    ]
    assert found.load() is MemtallyInstrumentor


def test_anthropics_tools_by_the_instrumentor(tmp_path: Path, captured: Captured) -> None:
    """A memory tool that exists already records while its class is instrumented, and not after."""
    from anthropic.tools import BetaLocalFilesystemMemoryTool

    from memtally.hosts.instrumentor import MemtallyInstrumentor

    tool = BetaLocalFilesystemMemoryTool(base_path=str(tmp_path))
    tool.call({"command": "create", "path": "/memories/a.md", "file_text": "abc"})
    MemtallyInstrumentor().instrument()
    try:
        tool.call({"command": "view", "path": "/memories/a.md"})
        tool.call({"command": "view", "path": "/memories"})
    finally:
        MemtallyInstrumentor().uninstrument()
    tool.call({"command": "view", "path": "/memories/a.md"})
    found = [(event.records[0].key, event.records[0].file_bytes) for event in captured.events]
    assert found == [(("memory", "a"), 3)]


def test_from_the_memory_to_the_report(memory: Any, figures: Callable[[], dict[str, RecordUsage]]) -> None:
    """Gets end up in the workspace's report."""
    from memtally.hosts.mem0 import instrument

    own = add(instrument(memory), "likes tea")
    memory.get(own)
    memory.get(own)
    assert figures()[f"memory/{own}"].use_count == 2
