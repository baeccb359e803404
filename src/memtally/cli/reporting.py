"""``memtally report``, ``review`` and ``show``."""

from __future__ import annotations

import sys
import tempfile
import webbrowser
from dataclasses import replace
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from memtally.cli.completion import complete_record
from memtally.cli.options import (
    filter_options,
    format_options,
    no_checkpoint_option,
    period,
    period_options,
    source_options,
    zone_of,
)
from memtally.cli.output import columns, emit, note, shows_blocks, shows_color
from memtally.errors import InvalidValueError
from memtally.events import normal_slug
from memtally.report import UsageReport
from memtally.report.build import microseconds, open_source, report_of
from memtally.report.formats import SORTS, Options, format_module
from memtally.report.sharing import available_processes
from memtally.report.tally import Filters
from memtally.report.timeline import days_of

__all__ = ["open_", "report", "report_text", "review", "review_text", "show", "show_text"]

_SHOWN_BY_DEFAULT = 50


@click.command()
@source_options
@no_checkpoint_option
@period_options
@filter_options
@click.option("--sort", type=click.Choice(sorted(SORTS)), help="Order; uses for people, name for programs.")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Every record: no limit, also those without a file that only maintenance read.",
)
@click.option("--sessions", is_flag=True, help="Also count sessions and coalesced uses per record.")
@format_options
def report(everything: bool, sort: str | None, **given: Any) -> None:
    """The figures per record: explicit uses by route, resident exposures and what they cost.

    A workspace without a log gives an empty report that says so.
    """
    if given["limit"] is not None and given["format_name"] == "html":
        raise click.UsageError("a page has every record; leave out --limit")
    emit(report_text(given, sort=sort, everything=everything), given["output"], given["logs"])


@click.command()
@source_options
@no_checkpoint_option
@period_options
@format_options
def review(**given: Any) -> None:
    """Ranked evidence: knowledge candidates, tidy protection, resident review. No verdicts."""
    emit(review_text(given), given["output"], given["logs"])


@click.command()
@click.argument("record", metavar="KIND/SLUG", shell_complete=complete_record)
@source_options
@no_checkpoint_option
@period_options
@format_options
def show(record: str, **given: Any) -> None:
    """One record: its figures, and its events by day and source."""
    emit(show_text(record, given), given["output"], given["logs"])


@click.command("open")
@source_options
@period_options
@filter_options
def open_(**given: Any) -> None:
    """Write the report as a page into a temporary file, and open it in the browser.

    The page is one file that loads nothing and sends nothing. Its path is printed.
    """
    nothing = {"format_name": "html", "as_json": False, "output": None, "limit": None, "max_chars": 0}
    text = report_text(given | nothing | {"no_checkpoint": True})
    descriptor, path = tempfile.mkstemp(prefix="memtally-", suffix=".html")  # for its owner only
    with open(descriptor, "w", encoding="utf-8", newline="") as stream:
        stream.write(text)
    click.echo(path)
    sys.stdout.flush()
    if not webbrowser.open(Path(path).as_uri()):
        note("no browser was found; open the file above in one")


# -- what the commands say, also to others ---------------------------------------------------------------


def report_text(given: dict[str, Any], *, sort: str | None = None, everything: bool = False) -> str:
    """The report that a command's options ask for."""
    made, options = _build(given, sort=sort, everything=everything)
    text: str = _module(given).report(made, options)
    return text


def review_text(given: dict[str, Any]) -> str:
    """The review that a command's options ask for."""
    made, options = _build(given)
    text: str = _module(given).review(made.review(), made, options)
    return text


def show_text(record: str, given: dict[str, Any]) -> str:
    """One record's history. Raises ``InvalidValueError`` for one that is not known."""
    kind, slash, slug = record.partition("/")
    if not (kind and slash and slug):
        raise InvalidValueError(
            "record", record, "no record's name", "write KIND/SLUG, such as decision/adopt-otlp"
        )
    module = _module(given)
    with open_source(given["workspace"], given["logs"] or None) as source:
        key = (kind, normal_slug(slug))
        filters, options, now = _settings(given)
        made = report_of(
            source,
            filters,
            sessions=_format(given) == "json",  # it alone has them, and they take each event by itself
            now=now,
            processes=available_processes(),
            history=options.zone,
        )
        options = replace(options, title="" if source.place is None else source.place.root.name)
        usage = made.get(*key)
        if usage is None:
            raise InvalidValueError(
                "record", record, "neither in the log nor in the inventory", "see memtally report --all"
            )
        days = days_of(made, *key)
    text: str = module.show(usage, days, made, options)
    return text


def _format(given: dict[str, Any]) -> str:
    if given["as_json"] and given["format_name"] not in ("table", "json"):
        raise click.UsageError(f"--json and --format {given['format_name']} exclude each other; give one")
    if given["format_name"] == "html" and given["output"] is None and sys.stdout.isatty():
        raise click.UsageError("a page is for a browser; give --output FILE, or use memtally open")
    return "json" if given["as_json"] else str(given["format_name"])


def _module(given: dict[str, Any]) -> ModuleType:
    """The module of the form that is asked for; for a person at a terminal the one made for it."""
    name = _format(given)
    if name == "table" and given["output"] is None and columns() and find_spec("rich") is not None:
        return import_module("memtally.report.formats.terminal")
    return format_module(name)


def _build(
    given: dict[str, Any], *, sort: str | None = None, everything: bool = False
) -> tuple[UsageReport, Options]:
    filters, options, now = _settings(given, sort=sort, everything=everything)
    with open_source(given["workspace"], given["logs"] or None) as source:
        made = report_of(
            source,
            filters,
            sessions=given.get("sessions", False),
            now=now,
            processes=available_processes(),
            checkpoint=not given["no_checkpoint"],
            history=options.zone if _format(given) == "html" else None,
        )
        options = replace(options, title="" if source.place is None else source.place.root.name)
        return made, options


def _settings(
    given: dict[str, Any], *, sort: str | None = None, everything: bool = False
) -> tuple[Filters, Options, datetime]:
    zone = zone_of(given["timezone"])
    since, until, now = period(given["since"], given["until"], given["now"], zone)
    filters = Filters(
        since=None if since is None else microseconds(since),
        until=None if until is None else microseconds(until),
        kinds=frozenset(given["kinds"]) if given.get("kinds") else None,
        sources=frozenset(given["sources"]) if given.get("sources") else None,
    )
    for_people = _format(given) in ("table", "markdown")
    limit = given["limit"]
    if limit is None and for_people and not everything:
        limit = _SHOWN_BY_DEFAULT
    options = Options(
        sort=sort,
        limit=limit,
        everything=everything or not for_people,
        max_chars=given["max_chars"],
        zone=zone,
        columns=columns() if given["output"] is None else None,
        color=shows_color(no_color=given.get("no_color", False)),
        block_characters=shows_blocks(),
        limited_to=_limited_to(given),
    )
    return filters, options, now


def _limited_to(given: dict[str, Any]) -> str:
    parts = []
    for option, noun in (("kinds", "kind"), ("sources", "source")):
        if given.get(option):
            parts.append(f"{noun} {' or '.join(given[option])}")
    return " and ".join(parts)
