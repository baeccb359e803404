"""memtally: which memory records were really read into an agent's context.

Names are loaded when they are first used: a hook process that only appends to the log imports neither
OpenTelemetry nor anything else it does not need.
"""

from __future__ import annotations

from memtally._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memtally._calls import ReadCall
    from memtally.context import session
    from memtally.decorators import instrument_injection, instrument_read
    from memtally.errors import ConfigError, InvalidValueError, LogReadError, MemtallyError, WorkspaceError
    from memtally.pipeline import configure, shutdown
    from memtally.recording import record_exposure, record_use
    from memtally.records import MemoryRecord
    from memtally.references import Invocation, find_references, parse_invocation
    from memtally.report import RecordUsage, Review, UsageReport, build_report

__all__ = [
    "ConfigError",
    "InvalidValueError",
    "Invocation",
    "LogReadError",
    "MemoryRecord",
    "MemtallyError",
    "ReadCall",
    "RecordUsage",
    "Review",
    "UsageReport",
    "WorkspaceError",
    "__version__",
    "build_report",
    "configure",
    "find_references",
    "instrument_injection",
    "instrument_read",
    "parse_invocation",
    "record_exposure",
    "record_use",
    "session",
    "shutdown",
]

_HOMES = {
    "memtally._calls": ("ReadCall",),
    "memtally.context": ("session",),
    "memtally.decorators": ("instrument_injection", "instrument_read"),
    "memtally.errors": (
        "ConfigError",
        "InvalidValueError",
        "LogReadError",
        "MemtallyError",
        "WorkspaceError",
    ),
    "memtally.pipeline": ("configure", "shutdown"),
    "memtally.records": ("MemoryRecord",),
    "memtally.recording": ("record_exposure", "record_use"),
    "memtally.references": ("Invocation", "find_references", "parse_invocation"),
    "memtally.report": ("RecordUsage", "Review", "UsageReport", "build_report"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'memtally' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - a hook process asks for none of them

    value = getattr(import_module(home), name)
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
