"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, TypeVar

import click

from memtally.ledger.decode import parse_time
from memtally.report.build import moment
from memtally.report.formats import FORMATS

__all__ = [
    "filter_options",
    "format_options",
    "json_option",
    "moment_option",
    "no_checkpoint_option",
    "no_color_option",
    "period",
    "period_options",
    "source_options",
    "workspace_option",
    "zone_of",
]

F = TypeVar("F", bound=Callable[..., Any])

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def _all(*options: Callable[[F], F]) -> Callable[[F], F]:
    def apply(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


workspace_option = click.option(
    "--workspace", metavar="DIR", help="The workspace; found from the current folder by default."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Output as JSON.")
no_color_option = click.option("--no-color", is_flag=True, help="No colour (also by NO_COLOR).")

source_options = _all(
    workspace_option,
    click.option(
        "--log", "logs", metavar="FILE", multiple=True, help="Read this log instead; may be repeated."
    ),
)
no_checkpoint_option = click.option(
    "--no-checkpoint", is_flag=True, help="Count from the start; neither use nor keep .memtally/cache."
)
period_options = _all(
    click.option("--since", metavar="TIME", help="From: 7d, 12h, a date, or an RFC 3339 time."),
    click.option("--until", metavar="TIME", help="Before: the same forms."),
    click.option(
        "--timezone", metavar="ZONE", help="Zone for dates and times shown, such as Europe/Berlin; UTC."
    ),
    click.option("--now", metavar="TIME", help="The time the report is made for (for reproducible output)."),
)
filter_options = _all(
    click.option(
        "--kind", "kinds", multiple=True, metavar="KIND", help="Only records of this kind; may be repeated."
    ),
    click.option("--source", "sources", multiple=True, metavar="SOURCE", help="Only events by this route."),
)
format_options = _all(
    click.option(
        "--format",
        "format_name",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="Form of the output.",
    ),
    json_option,
    no_color_option,
    click.option("--output", metavar="FILE", help="Write to a file, whole or not at all."),
    click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most N records."),
    click.option(
        "--max-chars",
        type=click.IntRange(min=500),
        default=6_000,
        show_default=True,
        metavar="N",
        help="Bound of the Markdown text.",
    ),
)


def zone_of(name: str | None) -> tzinfo:
    """The zone of ``--timezone``, UTC by default."""
    if name is None:
        return UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415 - UTC needs none of it

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise click.BadParameter(
            f"{name!r} is no time zone here; use a name such as UTC or Europe/Berlin", param_hint="--timezone"
        ) from None


def period(
    since: str | None, until: str | None, now: str | None, zone: tzinfo
) -> tuple[datetime | None, datetime | None, datetime]:
    """The three moments that ``--since``, ``--until`` and ``--now`` name."""
    present = datetime.now(UTC) if now is None else _moment("--now", now, datetime.now(UTC), zone)
    start = None if since is None else _moment("--since", since, present, zone)
    end = None if until is None else _moment("--until", until, present, zone)
    if start is not None and end is not None and start >= end:
        raise click.BadParameter(
            f"{since!r} is not before --until {until!r}; exchange them", param_hint="--since"
        )
    return start, end, present


def moment_option(option: str, text: str) -> datetime:
    """The moment that an option names, with dates and times without a zone in UTC."""
    return _moment(option, text, datetime.now(UTC), UTC)


def _moment(option: str, text: str, now: datetime, zone: tzinfo) -> datetime:
    if match := re.fullmatch(r"(\d{1,6})([mhdw])", text, re.ASCII):
        try:
            return now - timedelta(**{_UNITS[match[2]]: int(match[1])})
        except OverflowError:
            pass
    elif re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
        try:
            return datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    elif (found := moment(parse_time(text))) is not None:
        return found
    raise click.BadParameter(
        f"{text!r} is no time; use 7d, 12h, a date such as 2026-05-11, or an RFC 3339 time", param_hint=option
    )
