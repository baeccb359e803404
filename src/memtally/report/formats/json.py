"""JSON: everything, for programs. Keys are those of the API; format version 1."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from json import dumps
from typing import Any

import msgspec

from memtally.report._text import utc_stamp
from memtally.report.formats.options import Options, arranged
from memtally.report.model import Coverage, RecordUsage, Review, UsageReport
from memtally.report.review import LISTS

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
        for name, _, _ in LISTS
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
    return {name: _value(getattr(value, name)) for name in _NAMES[type(value)]}


_NAMES: dict[type[Any], list[str]] = {
    kind: [field.name for field in fields(kind)] for kind in (RecordUsage, Coverage)
}


def _value(value: Any) -> Any:
    if value is None or type(value) in (int, str, bool, float):
        return value
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
    """The value as JSON, in ASCII only: nothing can take a hostile name for anything else."""
    try:
        text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except UnicodeEncodeError:  # half of a surrogate pair, out of somebody's log
        return dumps(value, indent=2) + "\n"
    if not text.isascii() or "\x7f" in text:
        text = _UNUSUAL.sub(_escaped, text)
    return text + "\n"


_UNUSUAL = re.compile(r"[^\x00-\x7e]+")


def _escaped(match: re.Match[str]) -> str:
    return dumps(match[0])[1:-1]
