"""Errors that memtally raises at its callers.

Each message is one line: the value, the place, and what to do instead. Recording never raises these
into a read path; they are for wrong use by a programmer and for wrong input on the command line.
"""

from __future__ import annotations

__all__ = [
    "ConfigError",
    "InvalidValueError",
    "LogReadError",
    "MemtallyError",
    "WorkspaceError",
    "is_the_systems",
    "short",
]


class MemtallyError(Exception):
    """Base class of every error that memtally raises on purpose."""


class InvalidValueError(MemtallyError, ValueError):
    """An argument that can never be right, such as an empty slug or ``source="MemoryQuery"``."""

    def __init__(self, name: str, value: object, problem: str, instead: str) -> None:
        super().__init__(f"{name}={short(value)}: {problem}; {instead}")
        self.name = name
        self.value = value
        self.without_value = f"{name}: {problem}; {instead}"
        """The same for a place where the value, which may be somebody's content, must not stand."""


class WorkspaceError(MemtallyError):
    """A workspace folder that does not exist or cannot be used."""


class ConfigError(MemtallyError):
    """A ``config.toml`` that cannot be understood; ``path`` names the file.

    ``unreadable``: nothing is wrong in it, as far as is known, for it cannot be read.
    """

    def __init__(self, path: str, problem: str, instead: str, *, unreadable: bool = False) -> None:
        super().__init__(f"{path}: {problem}; {instead}")
        self.path = path
        self.unreadable = unreadable


class LogReadError(MemtallyError):
    """A usage log that was named explicitly and is missing or unreadable; ``path`` names the file."""

    def __init__(self, path: str, problem: str, instead: str) -> None:
        super().__init__(f"{path}: {problem}; {instead}")
        self.path = path


def is_the_systems(error: BaseException) -> bool:
    """Whether an error is the operating system's: a signal handler may raise a ``TimeoutError`` too."""
    return isinstance(error, OSError) and error.errno is not None


def short(value: object) -> str:
    """``repr`` of a value, cut to 80 characters, with control characters escaped (one line, always)."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of too many digits, a value nested too deep
        text = f"a {type(value).__name__}"
    if not text.isprintable():
        text = text.encode("ascii", "backslashreplace").decode("ascii")
    return text if len(text) <= 80 else text[:77] + "..."
