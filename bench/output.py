"""A row's outcome as JSON, and all rows as one Markdown table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.bars import Verdict, judge
from bench.facts import machine
from bench.harness import Outcome

__all__ = ["number", "table", "write_outcome", "write_table"]


def write_outcome(outcome: Outcome, folder: Path) -> Path:
    """Write ``<row>.json``; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{outcome.row}.json"
    content = {
        "row": outcome.row,
        "machine": machine(),
        "settings": outcome.settings,
        "bars": [_verdict(verdict) for verdict in judge(outcome.row, outcome.figures)],
        "figures": {
            name: {
                "unit": figure.unit,
                "median": figure.median,
                "min": min(figure.values),
                "max": max(figure.values),
                "remark": figure.remark,
                "values": figure.values,
            }
            for name, figure in outcome.figures.items()
        },
        "absent": outcome.absent,
        "remarks": outcome.remarks,
    }
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return path


def _verdict(verdict: Verdict) -> dict[str, object]:
    bar = verdict.bar
    return {
        "what": bar.what,
        "measured": bar.measured,
        "against": verdict.peer or None,
        "value": verdict.value,
        "at_least" if bar.at_least else "at_most": bar.limit,
        "verdict": verdict.text,
    }


def write_table(rows: Sequence[str], folder: Path) -> str:
    """Write ``table.md`` from the JSON files that are there; its text."""
    found = [folder / f"{row}.json" for row in rows]
    outcomes = [json.loads(path.read_text("utf-8")) for path in found if path.exists()]
    text = "\n".join(line for outcome in outcomes for line in _section(outcome))
    (folder / "table.md").write_text(text, encoding="utf-8")
    return text


def _section(outcome: dict[str, Any]) -> Iterator[str]:
    facts, settings = outcome["machine"], outcome["settings"]
    yield f"## {outcome['row']}\n"
    yield (
        f"{facts['date']}, revision {facts['revision']}, {facts['processors']} processors, "
        f"Python {facts['python']}; {', '.join(f'{key}: {value}' for key, value in settings.items())}.\n"
    )
    bars = [[bar["what"], _measured(bar), _bound(bar), bar["verdict"]] for bar in outcome["bars"]]
    yield from table(("bar", "measured", "bound", "verdict"), bars)
    yield ""
    first: dict[str, float] = {}
    figures = []
    for name, figure in outcome["figures"].items():
        # beside the first subject of the same group, which is memtally
        group = name.partition(": ")[0] if ": " in name else ""
        base = first.setdefault(f"{group} {figure['unit']}", figure["median"])
        spread = f"{number(figure['min'])} .. {number(figure['max'])}"
        times = number(figure["median"] / base) if base else ""
        figures.append(
            [name, f"{number(figure['median'])} {figure['unit']}", spread, times, figure["remark"]]
        )
    figures += [[name, "absent", "", "", reason] for name, reason in outcome["absent"].items()]
    yield from table(("subject", "median", "min .. max", "times the first", "remark"), figures)
    yield ""
    yield from (f"- {remark}" for remark in outcome["remarks"])
    if outcome["remarks"]:
        yield ""


def _measured(bar: dict[str, Any]) -> str:
    if bar["value"] is None:
        return ""
    return number(bar["value"]) + (f" x {bar['against']}" if bar["against"] else "")


def _bound(bar: dict[str, Any]) -> str:
    return f">= {number(bar['at_least'])}" if "at_least" in bar else f"<= {number(bar['at_most'])}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a Markdown table."""
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', ' ') for cell in row)} |"


def number(value: float) -> str:
    """Three significant digits, thousands apart."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
