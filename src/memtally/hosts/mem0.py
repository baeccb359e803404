"""mem0: which memories are got by their id.

::

    memory = memtally.hosts.mem0.instrument(Memory())

``get(memory_id)`` of ``Memory``, ``AsyncMemory``, ``MemoryClient`` and ``AsyncMemoryClient`` is a use of
``memory/ID`` when it finds the memory; its size is that of the memory's text. ``search`` and ``get_all``
never are: where an application picks hits of a search for its prompt, let it say so by
``memtally.record_use()``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from memtally._calls import Key, ReadCall
from memtally.errors import InvalidValueError
from memtally.events import check_kind
from memtally.hosts._seam import Seam, check_function, instrument_method, key_of
from memtally.records import MemoryRecord

try:
    from mem0 import AsyncMemory, AsyncMemoryClient, Memory, MemoryClient
except ImportError as error:
    raise ImportError("memtally.hosts.mem0 needs the mem0ai package: pip install 'memtally[mem0]'") from error

__all__ = ["instrument", "seam_of"]

AnyMemory = TypeVar("AnyMemory")


def instrument(
    memory: AnyMemory, *, kind: str = "memory", records: Callable[[Any], object] | None = None
) -> AnyMemory:
    """Record the gets of this memory, and return it.

    ``kind``: the kind of its records. ``records``: for other schemes, a function of what ``get`` has found
    (a dictionary with ``id``, ``memory`` and, as a rule, ``metadata``) that returns a ``MemoryRecord``,
    several, or ``None`` for "no read". A memory that is instrumented already stays as it is. Raises
    ``InvalidValueError`` for what is no memory of mem0's, no kind or no function.
    """
    if not isinstance(memory, (Memory, AsyncMemory, MemoryClient, AsyncMemoryClient)):
        raise InvalidValueError("memory", type(memory).__name__, "no memory of mem0's", "pass Memory(), say")
    instrument_method(memory, "get", seam_of(memory, kind, records))
    return memory


def seam_of(memory: object, kind: str = "memory", records: Callable[[Any], object] | None = None) -> Seam:
    """How the ``get`` of a memory is recorded."""
    check_kind(kind)
    check_function("records", records)

    def got(call: ReadCall) -> object:
        if records is not None:
            return records(call.result)
        return _record(kind, call.arguments["memory_id"], call.result)

    def named(arguments: Mapping[str, Any]) -> frozenset[Key]:
        return frozenset() if records is not None else key_of(kind, arguments.get("memory_id"))

    return Seam(f"{type(memory).__name__}.get", ("memory_id",), got, named)


def _record(kind: str, memory_id: object, found: object) -> MemoryRecord | None:
    if not isinstance(found, Mapping):
        return None
    # one memory has one id, in whichever spelling it was asked for
    slug = found.get("id") or memory_id
    text = found.get("memory")
    if isinstance(text, str):
        return MemoryRecord(kind, str(slug), text) if text else None
    # in another release's form it is still a memory, if it says which
    return MemoryRecord(kind, str(slug)) if found.get("id") else None
