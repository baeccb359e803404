"""LangGraph's store: gets are uses, searches are not."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore, GetOp, Item, ListNamespacesOp, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

import memtally
from memtally import MemoryRecord, RecordUsage
from memtally.hosts.langgraph import MemtallyStore, instrument
from memtally.testing import Captured


@pytest.fixture
def store() -> MemtallyStore:
    """A store with one item of text and one of other values."""
    made = MemtallyStore(InMemoryStore())
    made.put(("users", "u1"), "food", {"content": "likes tea"})
    made.put(("users", "u1"), "age", {"years": 7})
    return made


def test_an_item_that_is_got_is_a_use(store: MemtallyStore, captured: Captured) -> None:
    """A get that finds something counts once, by namespace and key."""
    item = store.get(("users", "u1"), "food")
    assert item is not None
    assert item.value == {"content": "likes tea"}
    assert store.get(("users", "u1"), "age") is not None
    assert store.get(("users", "u1"), "none") is None
    found = [(event.records[0].slug, event.records[0].file_bytes) for event in captured.uses]
    assert found == [("users/u1/food", None), ("users/u1/age", None)]  # an item is a mapping and no text


def test_searches_listings_and_writes_are_no_uses(store: MemtallyStore, captured: Captured) -> None:
    """Neither search, nor the list of namespaces, nor put and delete read a record."""
    assert len(store.search(("users",))) == 2
    assert store.list_namespaces(prefix=("users",)) == [("users", "u1")]
    store.put(("users", "u1"), "x", {"content": "x"})
    store.delete(("users", "u1"), "x")
    assert captured.events == []


def test_a_mixed_batch_counts_its_hits(store: MemtallyStore, captured: Captured) -> None:
    """Of a batch each item that was got counts, once however often, and the results come in their order."""
    results = store.batch(
        [
            SearchOp(("users",)),
            GetOp(("users", "u1"), "food"),
            PutOp(("users", "u2"), "a", {"text": "b"}),
            GetOp(("users", "u1"), "gone"),
            ListNamespacesOp(),
            GetOp(("users", "u1"), "age"),
            GetOp(("users", "u1"), "age"),
        ]
    )
    assert [type(result).__name__ for result in results] == [
        "list",
        "Item",
        "NoneType",
        "NoneType",
        "list",
        "Item",
        "Item",
    ]
    [event] = captured.events  # a batch is one operation
    assert [record.slug for record in event.records] == ["users/u1/food", "users/u1/age"]


async def test_async_gets_count(store: MemtallyStore, captured: Captured) -> None:
    """The asynchronous way counts the same, many at once."""
    await asyncio.gather(*[store.aget(("users", "u1"), "food") for _ in range(4)])
    assert await store.asearch(("users",)) != []
    assert len(captured.uses) == 4


def test_records_of_another_scheme(captured: Captured) -> None:
    """records= names the records, or says that an item is none."""

    def record_of(item: object) -> MemoryRecord | None:
        key = item.key  # type: ignore[attr-defined]
        return None if key.startswith("_") else MemoryRecord("decision", key, item.value["body"])  # type: ignore[attr-defined]

    store = MemtallyStore(InMemoryStore(), records=record_of)
    store.put(("d",), "adopt", {"body": "yes"})
    store.put(("d",), "_index", {"body": "no"})
    store.get(("d",), "adopt")
    store.get(("d",), "_index")
    assert [event.records[0].key for event in captured.events] == [("decision", "adopt")]


def test_a_decorated_reader_around_it_is_the_same_read(captured: Captured) -> None:
    """A decorated function that gets the very record counts one read, by its own route."""
    store = MemtallyStore(InMemoryStore(), records=lambda item: MemoryRecord("knowledge", item.key))
    store.put(("k",), "policy", {"content": "text"})

    @memtally.instrument_read("KnowledgeRef")
    def expand(slug: str) -> str:
        item = store.get(("k",), slug)
        return str(item.value["content"]) if item else ""

    assert expand("policy") == "text"
    assert [(event.source, event.records[0].key) for event in captured.events] == [
        ("KnowledgeRef", ("knowledge", "policy"))
    ]


@memtally.instrument_read("MemoryRead")
def decorated(kind: str, slug: str) -> str:
    """A reader of the store's own."""
    return "" if slug == "u/gone" else "text"


class Reading(InMemoryStore):
    """A store whose own reader is decorated."""

    def batch(self, ops: Any) -> Any:
        listed = list(ops)
        for op in listed:
            if isinstance(op, GetOp):
                decorated("memory", "/".join((*op.namespace, op.key)))
        return super().batch(listed)


def test_a_decorated_reader_beneath_is_the_same_read(captured: Captured) -> None:
    """A store whose own reader is decorated counts one read, alone and in a batch, and none for what it lacks."""
    store = instrument(Reading())
    store.put(("u",), "tea", {"text": "x"})
    store.get(("u",), "tea")
    assert [record.slug for event in captured.events for record in event.records] == ["u/tea"]
    store.batch([GetOp(("u",), "tea"), GetOp(("u",), "gone")])
    assert [record.slug for event in captured.events for record in event.records] == ["u/tea", "u/tea"]


def test_a_store_that_is_wrapped_twice_or_copied(captured: Captured) -> None:
    """Wrapped twice it counts once, and a copy of it works."""
    store = instrument(InMemoryStore())
    assert instrument(store) is store
    store.put(("u",), "tea", {"text": "x"})
    MemtallyStore(store).get(("u",), "tea")
    assert len(captured.events) == 1
    assert copy.copy(store).get(("u",), "tea") is not None


def test_what_fails_in_recording_does_not_reach_the_graph(
    store: MemtallyStore, captured: Captured, caplog: pytest.LogCaptureFixture
) -> None:
    """A mapper that raises is a fault of recording; the item comes all the same."""
    broken = MemtallyStore(InMemoryStore(), records=lambda item: 1 / 0)  # type: ignore[arg-type, return-value]
    broken.put(("a",), "b", {"content": "c"})
    assert broken.get(("a",), "b") is not None
    assert captured.events == []
    assert "ZeroDivisionError" in caplog.text


def test_a_wrong_store_is_refused() -> None:
    """What is no store is an error at once."""
    with pytest.raises(memtally.InvalidValueError, match="no store"):
        MemtallyStore({})  # type: ignore[arg-type]


def test_in_a_real_graph_to_the_report(tmp_path: Path, figures: Callable[[], dict[str, RecordUsage]]) -> None:
    """A compiled graph's node gets through its store; the report shows it, in the graph's threads."""

    class State(TypedDict):
        answer: str

    def node(state: State, *, store: BaseStore) -> State:
        item = store.get(("prefs",), "tea")
        return {"answer": str(item.value["text"]) if item else "?"}

    def record_of(item: Item) -> MemoryRecord:
        return MemoryRecord("memory", f"prefs/{item.key}", item.value["text"])

    store = instrument(InMemoryStore(), records=record_of)
    store.put(("prefs",), "tea", {"text": "green"})
    graph = StateGraph(State)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    compiled = graph.compile(store=store)
    for thread in ("t1", "t2"):
        config: Any = {"configurable": {"thread_id": thread}}
        assert compiled.invoke({"answer": ""}, config) == {"answer": "green"}
    found = figures()["memory/prefs/tea"]
    assert (found.use_count, found.file_bytes) == (2, 5)
    log = (tmp_path / ".memtally" / "usage.jsonl").read_text()
    assert [json.loads(line)["session_id"] for line in log.splitlines()] == ["t1", "t2"]
