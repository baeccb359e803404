"""Errors that memtally raises at its callers.

Each message is one line: the value, the place, and what to do instead. Recording never raises these
into a read path; they are for wrong use by a programmer and for wrong input on the command line.
"""

from __future__ import annotations

__all__ = ["ConfigError", "InvalidValueError", "LogReadError", "MemtallyError", "WorkspaceError"]


class MemtallyError(Exception):
    """Base class of every error that memtally raises on purpose."""


class InvalidValueError(MemtallyError, ValueError):
    """An argument that can never be right, such as an empty slug or ``source="MemoryQuery"``."""

    def __init__(self, name: str, value: object, problem: str, instead: str) -> None:
        super().__init__(f"{name}={_short(value)}: {problem}; {instead}")
        self.name = name
        self.value = value


class WorkspaceError(MemtallyError):
    """A workspace folder that does not exist or cannot be used."""


class ConfigError(MemtallyError):
    """A ``config.toml`` that cannot be understood; ``path`` names the file."""

    def __init__(self, path: str, problem: str, instead: str) -> None:
        super().__init__(f"{path}: {problem}; {instead}")
        self.path = path


class LogReadError(MemtallyError):
    """A usage log that was named explicitly and is missing or unreadable; ``path`` names the file."""

    def __init__(self, path: str, problem: str, instead: str) -> None:
        super().__init__(f"{path}: {problem}; {instead}")
        self.path = path


def _short(value: object) -> str:
    """``repr`` of a value, cut to 80 characters, with control characters escaped (one line, always)."""
    text = repr(value)
    if not text.isprintable():
        text = text.encode("ascii", "backslashreplace").decode("ascii")
    return text if len(text) <= 80 else text[:77] + "..."
