"""What the tests of the page work with: logs to be worked out by hand, and a page that is watched."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

__all__ = ["AXE", "HERE", "NOW", "PICTURES", "ROOT", "Run", "Watched", "line", "many"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PICTURES = HERE / "pictures"
"""Screenshots of the last run, for people to look at."""
NOW = "2026-06-01T12:00:00Z"
AXE = HERE / "node_modules" / "axe-core" / "axe.min.js"
Run = Callable[..., subprocess.CompletedProcess[str]]


def line(
    number: int,
    at: str,
    records: list[tuple[str, str, int | None]],
    source: str = "MemoryRead",
    *,
    exposure: bool = False,
    actor: str | None = None,
) -> str:
    """One line of a log; a record is (kind, slug, tokens or none)."""
    stamp = datetime.fromisoformat(at)
    value = (int(stamp.timestamp() * 1_000) << 80) | (7 << 76) | (2 << 62) | number
    event: dict[str, Any] = {
        "id": str(uuid.UUID(int=value)),
        "occurred_at": stamp.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "session_id": "s",
        "event": "resident_exposure" if exposure else "use",
        "source": "ResidentInjection" if exposure else source,
    }
    if actor is not None:
        event["actor"] = actor
    event["tokenizer"] = "o200k_base"
    event["records"] = [
        {"kind": kind, "slug": slug, "file_bytes": tokens, "file_tokens_estimate": tokens}
        for kind, slug, tokens in records
    ]
    return json.dumps(event, separators=(",", ":"), ensure_ascii=False) + "\n"


class Watched:
    """A page in the browser; ``complaints`` holds whatever it said or asked for that it should not."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", lambda message: self.complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on(
            "dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}") or dialog.dismiss()
        )
        page.on("request", self._requested)

    def _requested(self, request: Any) -> None:
        if request.resource_type != "document" or not request.url.startswith("file://"):
            self.complaints.append(f"request: {request.url}")

    def rows(self) -> list[list[str]]:
        """The cells of the table of records, row by row."""
        return self.page.eval_on_selector_all(
            "#table tbody tr", "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
        )

    def names(self) -> list[str]:
        """The names in the table of records, from top to bottom."""
        return [row[0] for row in self.rows()]

    def charted(self, host: str) -> dict[str, dict[str, int]]:
        """What a chart over time shows: events by source and bar, as the chart library holds them."""
        return self.page.evaluate(
            """host => {
              const chart = Chart.getChart(document.querySelector(host + " canvas"));
              return Object.fromEntries(chart.data.datasets.map(set => [set.label, Object.fromEntries(
                set.data.map((count, at) => [chart.data.labels[at], count]).filter(([, count]) => count))]));
            }""",
            host,
        )

    def picture(self, name: str, *, whole: bool = True) -> None:
        """Keep a screenshot of this run."""
        self.page.screenshot(path=PICTURES / f"{name}.png", full_page=whole)


def many(workspace: Path, records: int) -> None:
    """A log of so many records: record n was read n % 7 times, and placed n % 3 times with n tokens."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    lines = []
    for n in range(records):
        for time in range(n % 7):
            at = start + timedelta(minutes=20 * n + time)
            lines.append(
                line(
                    len(lines),
                    at.isoformat(),
                    [(("decision", "request", "knowledge")[n % 3], f"r{n:04d}", n)],
                )
            )
        for time in range(n % 3):
            at = start + timedelta(minutes=20 * n + time, seconds=30)
            lines.append(
                line(
                    len(lines),
                    at.isoformat(),
                    [(("decision", "request", "knowledge")[n % 3], f"r{n:04d}", n)],
                    exposure=True,
                )
            )
    folder = workspace / ".memtally"
    folder.mkdir(exist_ok=True)
    (folder / "usage.jsonl").write_text("".join(lines), "utf-8")
