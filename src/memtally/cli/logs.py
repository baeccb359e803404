"""``memtally log``: look at the usage log itself."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from datetime import tzinfo

import click

from memtally.cli.options import json_option, workspace_option, zone_of
from memtally.events import UsageEvent, encode_event
from memtally.ledger.decode import decode_line
from memtally.report.build import moment
from memtally.report.formats._text import one_line
from memtally.workspace import find_workspace

__all__ = ["log"]

_BLOCK = 65_536
_POLL_SECONDS = 0.5


@click.group()
def log() -> None:
    """Watch the usage log."""


@log.command()
@workspace_option
@click.option(
    "-n", "--lines", "number", type=click.IntRange(min=0), default=10, show_default=True, help="How many."
)
@click.option("-f", "--follow", is_flag=True, help="Go on with what is appended, until interrupted.")
@click.option("--timezone", metavar="ZONE", help="Zone of the times shown; UTC.")
@json_option
def tail(workspace: str | None, number: int, follow: bool, timezone: str | None, as_json: bool) -> None:
    """The last events, newest last; with -f also those to come."""
    place = find_workspace(workspace)
    zone = zone_of(timezone)

    def show(line: bytes) -> None:
        for event in decode_line(line)[0]:
            sys.stdout.write(_json_line(event) if as_json else _line(event, zone))

    paths = place.logs()
    offset = os.path.getsize(paths[-1]) if paths and paths[-1] == str(place.log_path) else 0
    lines: list[bytes] = []
    for path in reversed(paths):
        if len(lines) >= number:
            break
        lines[:0] = _last_lines(path, number - len(lines))
    for line in lines:
        show(line)
    sys.stdout.flush()
    if not paths and not follow:
        click.echo(f"no usage log yet in {place.directory}", err=True)
    if follow:
        for line in _follow(str(place.log_path), offset):
            show(line)
            sys.stdout.flush()


def _last_lines(path: str, number: int) -> list[bytes]:
    """The last non-blank lines of a file, read from its end."""
    if number == 0:
        return []
    with open(path, "rb") as stream:
        position = stream.seek(0, os.SEEK_END)
        data = b""
        while position > 0 and data.count(b"\n") <= number:
            size = min(_BLOCK, position)
            position -= size
            stream.seek(position)
            data = stream.read(size) + data
    lines = [line for line in data.split(b"\n") if line.strip()]
    return lines[-number:]


def _follow(path: str, offset: int) -> Iterator[bytes]:
    """Whole lines as they are appended; begins anew when the log has been sealed or replaced."""
    inode, rest = None, b""
    while True:
        try:
            with open(path, "rb") as stream:
                status = os.fstat(stream.fileno())
                if inode not in (None, status.st_ino) or status.st_size < offset:
                    offset, rest = 0, b""
                inode = status.st_ino
                stream.seek(offset)
                data = stream.read()
        except FileNotFoundError:
            data = b""
        offset += len(data)
        *lines, rest = (rest + data).split(b"\n")
        yield from (line for line in lines if line.strip())
        time.sleep(_POLL_SECONDS)


def _line(event: UsageEvent, zone: tzinfo) -> str:
    at = moment(event.occurred_at)
    when = "undated            " if at is None else at.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")
    names = ", ".join(one_line("/".join(record.key)) for record in event.records)
    actor = "" if event.actor == "agent" else f" [{one_line(event.actor)}]"
    session = "" if event.session_id is None else f"  ({one_line(event.session_id)})"
    return f"{when}  {one_line(event.source)}{actor}  {names}{session}\n"


def _json_line(event: UsageEvent) -> str:
    return encode_event(event).decode("utf-8").encode("ascii", "backslashreplace").decode("ascii")
