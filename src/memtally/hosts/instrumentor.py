"""Switches recording on in the frameworks whose classes can be patched, by OpenTelemetry's instrumentors.

::

    memtally.hosts.instrumentor.MemtallyInstrumentor().instrument()

``opentelemetry-instrument`` does that by itself, where memtally is installed. Patched are, as soon as they
are imported:

- ``get`` of mem0's ``Memory``, ``AsyncMemory``, ``MemoryClient`` and ``AsyncMemoryClient``;
- ``execute`` of ``BetaLocalFilesystemMemoryTool`` and ``BetaAsyncLocalFilesystemMemoryTool`` from
  ``anthropic.tools``.

They are recorded as ``memtally.hosts.mem0`` and ``memtally.hosts.anthropic`` do it, with the kind
``memory``. What was instrumented by hand keeps its own mapping, and counts once. Nothing else is patched:
which tool of a server or which store is a memory, only the application knows. Where events go is said by
``memtally.configure()``, or by ``OTEL_LOGS_EXPORTER=memtally``.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection
from importlib import import_module
from types import ModuleType
from typing import Any

from memtally import faults
from memtally.decorators import wrapped
from memtally.hosts._seam import Seam, is_instrumented

try:
    from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
    from wrapt import FunctionWrapper, register_post_import_hook
except ImportError as error:
    raise ImportError(
        "it needs opentelemetry-instrumentation: pip install 'memtally[instrumentation]'"
    ) from error

__all__ = ["MemtallyInstrumentor"]

_MEM0 = ("Memory", "AsyncMemory", "MemoryClient", "AsyncMemoryClient")
_ANTHROPIC = ("BetaLocalFilesystemMemoryTool", "BetaAsyncLocalFilesystemMemoryTool")


class _Target:
    """The classes of one module whose method is patched when the module is there."""

    def __init__(self, module: str, classes: tuple[str, ...], method: str, host: str) -> None:
        self.module = module
        self.classes = classes
        self.method = method
        self.host = host
        self.active = False
        self._awaited = False
        self._patched: list[tuple[type, object, object]] = []

    def switch_on(self) -> None:
        """Patch the module now, or when it is imported."""
        self.active = True
        if self._awaited and self.module in sys.modules:
            self._patch(sys.modules[self.module])
        elif not self._awaited:
            self._awaited = True  # a hook cannot be taken back, and one is enough
            register_post_import_hook(self._patch, self.module)

    def switch_off(self) -> None:
        """Put back what was there, unless somebody has patched it since: then ours does nothing."""
        self.active = False
        for owner, before, ours in self._patched:
            if vars(owner).get(self.method) is ours:
                if before is None:
                    delattr(owner, self.method)  # it was inherited
                else:
                    setattr(owner, self.method, before)
        self._patched.clear()

    def _patch(self, module: ModuleType) -> None:
        # this runs inside of the host's import: nothing may go wrong here
        if not self.active or self._patched:
            return
        try:
            seam_of: Callable[[object], Seam] = import_module(self.host).seam_of
            for name in self.classes:
                owner = getattr(module, name, None)
                original = inspect.getattr_static(owner, self.method, None)
                if not isinstance(owner, type) or not callable(original):
                    self._skip(f"it has no {name}.{self.method}()")
                    continue
                ours = FunctionWrapper(original, self._recorder(seam_of, original))
                self._patched.append((owner, vars(owner).get(self.method), ours))
                setattr(owner, self.method, ours)
        except Exception as error:
            self._skip(f"{type(error).__name__} while patching it")

    def _skip(self, why: str) -> None:
        faults.note(f"not_instrumented:{self.module}", f"{self.module} is not recorded in full: {why}")

    def _recorder(self, seam_of: Callable[[object], Seam], original: Any) -> Callable[..., Any]:
        def recorded(function: Any, instance: Any) -> Any:
            if not self.active or is_instrumented(instance, self.method):
                return function
            return wrapped(function, seam_of(instance))

        if inspect.iscoroutinefunction(original):

            async def later(function: Any, instance: Any, args: Any, kwargs: Any) -> Any:
                return await recorded(function, instance)(*args, **kwargs)

            return later
        return lambda function, instance, args, kwargs: recorded(function, instance)(*args, **kwargs)


_TARGETS = (
    _Target("mem0", _MEM0, "get", "memtally.hosts.mem0"),
    _Target("anthropic.tools.memory", _ANTHROPIC, "execute", "memtally.hosts.anthropic"),
)


class MemtallyInstrumentor(BaseInstrumentor):  # type: ignore[misc,unused-ignore]
    """Records reads of mem0 and of Anthropic's local memory tools, from ``instrument()`` to
    ``uninstrument()``.

    A framework that is not installed, or in whose release a class is missing, is left alone; the latter is
    said in the ``memtally`` logger and by ``memtally status``.
    """

    def instrumentation_dependencies(self) -> Collection[str]:
        """None: with neither framework there is nothing to do, and with one of them it is worth doing."""
        return ()

    def _instrument(self, **kwargs: Any) -> None:
        for target in _TARGETS:
            target.switch_on()

    def _uninstrument(self, **kwargs: Any) -> None:
        for target in _TARGETS:
            target.switch_off()
