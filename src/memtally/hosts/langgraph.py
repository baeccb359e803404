"""LangGraph's store: which items a graph gets out of its long-term memory.

::

    graph = builder.compile(store=memtally.hosts.langgraph.instrument(store))

A get that finds an item is a use of ``memory/NAMESPACE/.../KEY``; a search, a listing of namespaces, a put
and a get that finds nothing are none. A batch is one operation: however often it gets an item, it reads it
once. Session: the thread of the running graph, if memtally knows no other. Sizes are unknown, for an item
is a mapping and no text; ``records=`` can say what is the record's text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from memtally._calls import Key, ReadCall
from memtally.decorators import wrapped
from memtally.errors import InvalidValueError
from memtally.events import check_kind
from memtally.hosts._seam import Seam, check_function, key_of
from memtally.recording import as_records
from memtally.records import MemoryRecord

try:
    from langgraph.config import get_config
    from langgraph.store.base import BaseStore, GetOp
except ImportError as error:
    raise ImportError(
        "memtally.hosts.langgraph needs the langgraph package: pip install 'memtally[langgraph]'"
    ) from error

__all__ = ["MemtallyStore", "instrument"]


def instrument(
    store: Any, *, kind: str = "memory", records: Callable[[Any], object] | None = None
) -> MemtallyStore:
    """A store that records what is got from this one; where it does so already, it itself.

    ``kind``: the kind of its records. ``records``: for other schemes, a function of the ``Item`` that
    returns a ``MemoryRecord``, several, or ``None`` for "no read":
    ``records=lambda item: MemoryRecord("memory", item.key, item.value["text"])``.
    Raises ``InvalidValueError`` for what is no store, no kind or no function.
    """
    if isinstance(store, MemtallyStore):
        return store
    return MemtallyStore(store, kind=kind, records=records)


class MemtallyStore(BaseStore):  # type: ignore[misc,unused-ignore]
    """A store that hands everything on to another one, method by method, and records its gets.

    What is no method of ``BaseStore`` (``setup``, say) is that store's own. A store that is opened by
    ``with`` is to be opened before.
    """

    def __init__(
        self, store: Any, *, kind: str = "memory", records: Callable[[Any], object] | None = None
    ) -> None:
        if not isinstance(store, BaseStore):
            raise InvalidValueError(
                "store", type(store).__name__, "no store of LangGraph's", "pass InMemoryStore(), say"
            )
        check_kind(kind)
        check_function("records", records)
        self._store = store

        def record_of(namespace: Any, key: Any, item: Any) -> object:
            return MemoryRecord(kind, _slug(namespace, key)) if records is None else records(item)

        def got(call: ReadCall) -> object:
            return record_of(call.arguments["namespace"], call.arguments["key"], call.result)

        def got_in_batch(call: ReadCall) -> list[MemoryRecord]:
            return [
                record
                for op, item in zip(call.arguments["ops"], call.result, strict=False)
                if isinstance(op, GetOp) and item is not None
                for record in as_records(record_of(op.namespace, op.key, item))
            ]

        def named(arguments: Mapping[str, Any]) -> frozenset[Key]:
            if records is not None:
                return frozenset()
            return key_of(kind, _slug(arguments["namespace"], arguments["key"]))

        def named_in_batch(arguments: Mapping[str, Any]) -> frozenset[Key]:
            gets = () if records is not None else (op for op in arguments["ops"] if isinstance(op, GetOp))
            return frozenset().union(*(key_of(kind, _slug(op.namespace, op.key)) for op in gets))

        def seam(method: str, parameters: tuple[str, ...], reading: Any, naming: Any) -> Any:
            name = f"{type(store).__name__}.{method}"
            return wrapped(getattr(store, method), Seam(name, parameters, reading, naming, _thread_id))

        self._get = seam("get", ("namespace", "key"), got, named)
        self._aget = seam("aget", ("namespace", "key"), got, named)
        self._batch = seam("batch", ("ops",), got_in_batch, named_in_batch)
        self._abatch = seam("abatch", ("ops",), got_in_batch, named_in_batch)

    @property
    def supports_ttl(self) -> bool:
        """The other store's."""
        return bool(self._store.supports_ttl)

    @property
    def ttl_config(self) -> Any:
        """The other store's."""
        return self._store.ttl_config

    def __getattr__(self, name: str) -> Any:
        if name == "_store":  # not there yet: a copy in the making
            raise AttributeError(name)
        return getattr(self._store, name)

    # Each method by itself: a store may do more in one of them than BaseStore, which makes all of them
    # batches. Arguments go on as they came, since not every store takes those of the newest BaseStore.

    def batch(self, ops: Iterable[Any]) -> Any:
        """Do several operations, and record the gets among them."""
        return self._batch(list(ops))  # they are looked at twice

    async def abatch(self, ops: Iterable[Any]) -> Any:
        """Do several operations, and record the gets among them."""
        return await self._abatch(list(ops))

    def get(self, *args: Any, **kwargs: Any) -> Any:
        """Get an item, and record it."""
        return self._get(*args, **kwargs)

    async def aget(self, *args: Any, **kwargs: Any) -> Any:
        """Get an item, and record it."""
        return await self._aget(*args, **kwargs)

    def search(self, *args: Any, **kwargs: Any) -> Any:
        """Search; never a use."""
        return self._store.search(*args, **kwargs)

    async def asearch(self, *args: Any, **kwargs: Any) -> Any:
        """Search; never a use."""
        return await self._store.asearch(*args, **kwargs)

    def put(self, *args: Any, **kwargs: Any) -> Any:
        """Put an item."""
        return self._store.put(*args, **kwargs)

    async def aput(self, *args: Any, **kwargs: Any) -> Any:
        """Put an item."""
        return await self._store.aput(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> Any:
        """Delete an item."""
        return self._store.delete(*args, **kwargs)

    async def adelete(self, *args: Any, **kwargs: Any) -> Any:
        """Delete an item."""
        return await self._store.adelete(*args, **kwargs)

    def list_namespaces(self, *args: Any, **kwargs: Any) -> Any:
        """List namespaces; never a use."""
        return self._store.list_namespaces(*args, **kwargs)

    async def alist_namespaces(self, *args: Any, **kwargs: Any) -> Any:
        """List namespaces; never a use."""
        return await self._store.alist_namespaces(*args, **kwargs)


def _slug(namespace: Any, key: Any) -> str:
    return "/".join((*namespace, str(key)))


def _thread_id() -> object:
    """The thread of the running graph: a conversation that LangGraph knows."""
    try:
        config = get_config()
    except RuntimeError:  # the store is used outside of a graph
        return None
    return config.get("configurable", {}).get("thread_id")
