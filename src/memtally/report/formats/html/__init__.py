"""One self-contained page, for people: figures, charts, review and each record's own timeline.

Nothing is loaded from anywhere: styles, scripts, the chart library and the data stand in the page, and its
content security policy lets nothing else in. The same report gives the same bytes. Charts by Chart.js, which
lies in ``vendor`` as its package ships it; the text by Jinja2, with autoescape (the extra ``view``).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from memtally.errors import InvalidValueError, MemtallyError
from memtally.report._text import counted, local, one_line, stamp
from memtally.report.formats.html.data import headline, page_data, unread_rows
from memtally.report.formats.options import Options, arranged
from memtally.report.formats.summary import (
    coverage_lines,
    inventory_line,
    record_facts,
    total_tokens_notes,
)
from memtally.report.model import RecordUsage, Review, ReviewItem, UsageReport
from memtally.report.review import LISTS, evidence

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["report", "review", "show"]

_UNREAD_SHOWN = 50
_REVIEW_SHOWN = 25


def report(made: UsageReport, options: Options) -> str:
    """The whole page, of every record: its charts and sums are of all.

    Raises ``InvalidValueError`` for a report that was made without ``history``.
    """
    records, _ = arranged(made, replace(options, limit=None, everything=True), "uses")
    unread = unread_rows(made, options)
    return _page(
        made,
        options,
        records=records,
        headline=headline(made),
        unread=unread[:_UNREAD_SHOWN],
        unread_count=len(unread),
        lists=_lists(made.review(), options, _REVIEW_SHOWN),
        charts=True,
    )


def review(found: Review, made: UsageReport, options: Options) -> str:
    """The three lists of evidence, whole, as a page."""
    limit = options.limit
    return _page(made, options, records=[], headline=headline(made), lists=_lists(found, options, limit))


def show(
    record: RecordUsage, days: Mapping[str, Mapping[str, int]], made: UsageReport, options: Options
) -> str:
    """One record: its figures, its evidence and its timeline."""
    return _page(
        made,
        options,
        records=[record],
        name=one_line(record.name),
        facts=record_facts(record, options, one_line),
    )


def _lists(found: Review, options: Options, limit: int | None) -> list[dict[str, Any]]:
    made = []
    for key, heading, order in LISTS:
        items: tuple[ReviewItem, ...] = getattr(found, key)
        rows = [
            {
                "name": one_line(item.record.name),
                "key": (item.record.kind, item.record.slug),
                "evidence": evidence(item.record, zone=options.zone),
            }
            for item in items[:limit]
        ]
        more = len(items) - len(rows)
        made.append({"key": key, "heading": heading, "order": order, "rows": rows, "more": more})
    return made


def _page(made: UsageReport, options: Options, *, records: list[RecordUsage], **parts: Any) -> str:
    if made.history is None:
        raise InvalidValueError(
            "report", "UsageReport", "has no events by day", "make it by build_report(history=zone)"
        )
    template, style, script, library = _parts()
    data = json.dumps(page_data(records, made, options), separators=(",", ":"))
    safe = data.replace("<", "\\u003c")  # or a name could end the script that it stands in
    given = {
        "records": [],
        "headline": [],
        "unread": [],
        "unread_count": 0,
        "lists": [],
        "charts": False,
        "name": "",
        "facts": [],
    } | parts
    return template.render(
        given,
        title=one_line(options.title),
        generated=f"{stamp(made.generated_at, options.zone)} {_zone_name(made, options)}",
        coverage=coverage_lines(made, options, one_line),
        index={(r.kind, r.slug): number for number, r in enumerate(records)},
        inventory=inventory_line(made),
        notes=total_tokens_notes(records),
        log_state=made.coverage.log_state,
        record_count=counted(len(records), "record"),
        policy=f"default-src 'none'; script-src {_hash(library)} {_hash(script)}; style-src {_hash(style)}",
        style=style,
        script=script,
        library=library,
        data=safe,
    )


def _zone_name(made: UsageReport, options: Options) -> str:
    return local(made.generated_at, options.zone).tzname() or "UTC"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@lru_cache(maxsize=1)
def _parts() -> tuple[Template, str, str, str]:
    """The template, the styles, the script and the chart library, as they stand in the page."""
    try:
        from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - an extra, and only for pages
    except ImportError:
        raise MemtallyError("the page needs Jinja2: pip install 'memtally[view]'") from None
    here = files(__name__)

    def text(name: str) -> str:
        return here.joinpath(name).read_text("utf-8").strip()

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, auto_reload=False
    )
    # the map that the library names is not in the page, and a browser must not look for it
    library = text("vendor/chart.umd.min.js").partition("//# sourceMappingURL=")[0].rstrip()
    return environment.from_string(text("page.html.j2")), text("page.css"), text("page.js"), library
