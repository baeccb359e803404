"""Output formats of the report: one module a format, each a pure function to text.

A new format is one module with ``report``, ``review`` and ``show``, and one line in ``FORMATS``.
"""

from __future__ import annotations

from types import ModuleType

from memtally.errors import InvalidValueError
from memtally.report.formats import csv, json, markdown, table
from memtally.report.formats.options import SORTS, Options, arranged

__all__ = ["FORMATS", "SORTS", "Options", "arranged", "format_module"]

FORMATS: dict[str, ModuleType] = {"table": table, "json": json, "csv": csv, "markdown": markdown}


def format_module(name: str) -> ModuleType:
    """The module of a format. Raises ``InvalidValueError`` naming those that exist."""
    try:
        return FORMATS[name]
    except KeyError:
        raise InvalidValueError(
            "format", name, "no such format", f"use one of {', '.join(FORMATS)}"
        ) from None
