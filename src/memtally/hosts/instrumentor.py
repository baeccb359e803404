"""For ``opentelemetry-instrument`` and ``MemtallyInstrumentor().instrument()``: what can honestly be patched.

Patched are mem0's ``get`` (``Memory``, ``AsyncMemory``, ``MemoryClient``, ``AsyncMemoryClient``) and the
``execute`` of Anthropic's memory tools. All else has a seam of its own in ``memtally.hosts``. What is not
installed is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from memtally.hosts.anthropic import instrumented_execute
from memtally.hosts.mem0 import instrumented_get

try:
    from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
except ImportError as error:
    raise ImportError(
        "opentelemetry-instrumentation is not installed: pip install 'memtally[instrumentation]'"
    ) from error

__all__ = ["MemtallyInstrumentor"]

_PATCHES: tuple[tuple[str, str, str, Callable[..., Any]], ...] = (
    ("mem0", "Memory", "get", instrumented_get),
    ("mem0", "AsyncMemory", "get", instrumented_get),
    ("mem0", "MemoryClient", "get", instrumented_get),
    ("mem0", "AsyncMemoryClient", "get", instrumented_get),
    ("anthropic.tools", "BetaAbstractMemoryTool", "execute", instrumented_execute),
    ("anthropic.tools", "BetaAsyncAbstractMemoryTool", "execute", instrumented_execute),
)


class MemtallyInstrumentor(BaseInstrumentor):
    """Instruments the classes above; once, however often it is asked to. ``uninstrument()`` gives them back
    the functions that they had.
    """

    _originals: tuple[tuple[Any, str, Any], ...] = ()

    def instrumentation_dependencies(self) -> Collection[str]:
        """None is required: what is not installed is passed over."""
        return []

    def _instrument(self, **kwargs: Any) -> None:
        made = []
        for module, name, method, instrumented in _PATCHES:
            owner = _class(module, name)
            original = vars(owner).get(method) if owner is not None else None
            if original is not None:
                setattr(owner, method, instrumented(original))
                made.append((owner, method, original))
        type(self)._originals = tuple(made)

    def _uninstrument(self, **kwargs: Any) -> None:
        for owner, method, original in type(self)._originals:
            setattr(owner, method, original)
        type(self)._originals = ()


def _class(module: str, name: str) -> Any:
    try:
        return getattr(import_module(module), name, None) if find_spec(module.split(".")[0]) else None
    except ImportError:
        return None
