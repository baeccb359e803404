"""mem0: ``memtally.hosts.mem0.instrument(memory)``.

``get`` by id is a use. ``search`` and ``get_all`` never are: an application that puts what they found into a
prompt says so by ``memtally.record_use()``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from memtally._calls import ReadCall
from memtally.decorators import at_seam
from memtally.errors import InvalidValueError
from memtally.events import check_kind, normal_slug
from memtally.records import MemoryRecord

__all__ = ["instrument", "instrumented_get"]

T = TypeVar("T")


def instrument(memory: T, *, kind: str = "memory") -> T:
    """Record the uses of a ``Memory``, ``AsyncMemory`` or client (an instance); the instance itself.

    A record's slug is the memory's id. Doing it twice is doing it once. Raises ``InvalidValueError`` for what
    has no ``get``.
    """
    check_kind(kind)
    get = getattr(memory, "get", None)
    if not callable(get) or isinstance(memory, type):
        raise InvalidValueError(
            "memory", type(memory).__name__, "no memory", "pass an instance of mem0's Memory"
        )
    if "get" not in vars(memory) or not hasattr(get, "__memtally__"):
        memory.get = instrumented_get(get, kind)  # type: ignore[attr-defined]
    return memory


def instrumented_get(get: Callable[..., Any], kind: str = "memory") -> Any:
    """A memory's ``get``, bound or not, that records."""

    def expected(named: Mapping[str, Any]) -> tuple[str, str] | None:
        slug = named.get("memory_id")
        return (kind, normal_slug(slug)) if isinstance(slug, str) else None

    def records(call: ReadCall) -> MemoryRecord | None:
        key = expected(call.arguments)
        text = call.result.get("memory") if isinstance(call.result, dict) else None
        return None if key is None else MemoryRecord(*key, text if isinstance(text, str) else None)

    wrapped = at_seam(get, "MemoryRead", records, expected)
    wrapped.__memtally__ = True
    return wrapped
