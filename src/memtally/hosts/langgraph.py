"""LangGraph's store: ``graph = builder.compile(store=memtally.hosts.langgraph.MemtallyStore(store))``.

An item that is got is a use. A search never is, whatever it returns: an application that puts what it found
into a prompt says so by ``memtally.record_use()``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from memtally._calls import Instrumented, OpenCall
from memtally.errors import InvalidValueError
from memtally.events import USE, check_kind
from memtally.recording import guarded, recording_enabled
from memtally.records import MemoryRecord

try:
    from langgraph.store.base import BaseStore, GetOp, Item, Op, Result
except ImportError as error:
    raise ImportError("LangGraph is not installed: pip install 'memtally[langgraph]'") from error

__all__ = ["MemtallyStore"]

_TEXTS = ("content", "text", "data", "memory")


class MemtallyStore(BaseStore):
    """A store in front of another that records which items were read.

    An item is the record ``kind/NAMESPACE/KEY``, measured by its value's ``content``, ``text``, ``data``
    or ``memory``, if one is text. ``records``: a function from the item to a ``MemoryRecord``, or to
    ``None`` for an item that is none. Raises ``InvalidValueError`` for a wrong store or kind.
    """

    __slots__ = ("_settings", "_store")

    def __init__(
        self,
        store: BaseStore,
        *,
        kind: str = "memory",
        records: Callable[[Item], MemoryRecord | None] | None = None,
    ) -> None:
        if not isinstance(store, BaseStore):
            raise InvalidValueError("store", type(store).__name__, "no store", "pass a LangGraph BaseStore")
        check_kind(kind)
        self._store = store
        record_of = records or (lambda item: _record(kind, item))
        self._settings = Instrumented(_get, USE, "MemoryRead", lambda call: record_of(call.result), kind)

    @property
    def supports_ttl(self) -> bool:  # type: ignore[override]
        """That of the store behind."""
        return self._store.supports_ttl

    @property
    def ttl_config(self) -> Any:
        """That of the store behind."""
        return self._store.ttl_config

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """The operations' results; each item that was got is a use."""
        listed = list(ops)
        results = self._store.batch(listed)
        self._record(listed, results)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same, asynchronously."""
        listed = list(ops)
        results = await self._store.abatch(listed)
        self._record(listed, results)
        return results

    def _record(self, ops: list[Op], results: list[Result]) -> None:
        with guarded("record", "MemtallyStore"):
            if not recording_enabled():
                return
            for op, result in zip(ops, results, strict=False):
                if isinstance(op, GetOp) and isinstance(result, Item):
                    slug = "/".join((*op.namespace, op.key))
                    OpenCall(self._settings, (slug,), {}).returned(result)


def _get(slug: str) -> None:
    """What an operation looks like to the calls around it."""


def _record(kind: str, item: Item) -> MemoryRecord:
    texts = (item.value.get(name) for name in _TEXTS)
    content = next((text for text in texts if isinstance(text, str)), None)
    return MemoryRecord(kind, "/".join((*item.namespace, item.key)), content)
