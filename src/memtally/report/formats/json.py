"""JSON: everything, for programs. Keys are those of the API; format version 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from json import dumps
from typing import Any

from memtally.report._text import utc_stamp
from memtally.report.formats.options import Options, arranged
from memtally.report.model import Coverage, RecordUsage, Review, UsageReport

__all__ = ["FORMAT_VERSION", "report", "review", "show"]

FORMAT_VERSION = 1


def report(made: UsageReport, options: Options) -> str:
    """The whole report as one JSON object."""
    records, _ = arranged(made, options, "name")
    return _text(_envelope(made) | {"records": [_plain(r) for r in records]})


def review(found: Review, made: UsageReport, options: Options) -> str:
    """The three lists of evidence as one JSON object."""
    lists = {
        name: [
            _plain(item.record) | {"evidence": item.evidence}
            for item in getattr(found, name)[: options.limit]
        ]
        for name in ("knowledge_candidates", "tidy_protection", "resident_review")
    }
    return _text(_envelope(made) | {"review": lists})


def show(
    record: RecordUsage, days: Mapping[str, Mapping[str, int]], made: UsageReport, options: Options
) -> str:
    """One record and its events by day."""
    return _text(
        _envelope(made) | {"record": _plain(record), "days": {day: dict(n) for day, n in days.items()}}
    )


def _envelope(made: UsageReport) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "generated_at": utc_stamp(made.generated_at),
        "coverage": _plain(made.coverage),
    }


def _plain(value: RecordUsage | Coverage) -> dict[str, Any]:
    return {field.name: _value(getattr(value, field.name)) for field in fields(value)}


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return utc_stamp(value)
    if isinstance(value, Mapping):
        return {name: _value(inner) for name, inner in value.items()}
    if isinstance(value, tuple):
        return [_value(inner) for inner in value]
    if hasattr(value, "__dataclass_fields__"):
        return {field.name: _value(getattr(value, field.name)) for field in fields(value)}
    return value


def _text(value: dict[str, Any]) -> str:
    # ASCII only: no terminal, pipe or encoding can take a hostile slug for anything else
    return dumps(value, indent=2) + "\n"
