"""Output formats of the report: one module a format, each a pure function to text.

A new format is one module with ``report``, ``review`` and ``show``, and one line in ``FORMATS``.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from memtally.errors import InvalidValueError
from memtally.report.formats.options import SORTS, Options, arranged

__all__ = ["FORMATS", "SORTS", "Options", "arranged", "format_module"]

FORMATS = ("table", "json", "csv", "markdown", "html")


def format_module(name: str) -> ModuleType:
    """The module of a format. Raises ``InvalidValueError`` naming those that exist."""
    if name not in FORMATS:
        raise InvalidValueError("format", name, "no such format", f"use one of {', '.join(FORMATS)}")
    return import_module(f"memtally.report.formats.{name}")
