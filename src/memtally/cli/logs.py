"""``memtally log``: watch, check and seal the usage log itself."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, tzinfo
from itertools import chain
from typing import BinaryIO

import click

from memtally._files import open_regular
from memtally.cli.options import (
    json_option,
    no_color_option,
    period,
    source_options,
    workspace_option,
    zone_of,
)
from memtally.cli.output import note, shows_color
from memtally.errors import LogReadError, MemtallyError
from memtally.events import EXPOSURE, UsageEvent, encode_event
from memtally.ledger.decode import decode_line
from memtally.ledger.layout import LOG_FILE
from memtally.ledger.tailing import last_lines
from memtally.ledger.verify import PROBLEMS, Finding, Verification, folder_findings
from memtally.ledger.writer import LogWriter
from memtally.report._text import counted, local, one_line
from memtally.report.build import microseconds, moment, open_source
from memtally.report.tally import CLOCK_SKEW
from memtally.workspace import find_workspace

__all__ = ["log"]

_POLL_SECONDS = 0.5


@click.group()
def log() -> None:
    """Watch, check and seal the usage log."""


@log.command()
@workspace_option
@click.option(
    "-n", "--lines", "number", type=click.IntRange(min=0), default=10, show_default=True, help="How many."
)
@click.option("-f", "--follow", is_flag=True, help="Go on with what is appended, until interrupted.")
@click.option("--timezone", metavar="ZONE", help="Zone of the times shown; UTC.")
@json_option
@no_color_option
def tail(
    workspace: str | None, number: int, follow: bool, timezone: str | None, as_json: bool, no_color: bool
) -> None:
    """The last events, newest last; with -f also those to come."""
    place = find_workspace(workspace)
    zone = zone_of(timezone)
    color = shows_color(no_color=no_color)

    def show(line: bytes) -> None:
        for event in decode_line(line)[0]:
            sys.stdout.write(_json_line(event) if as_json else _line(event, zone, color=color))

    # opened before anything is shown: what is appended from here on is what --follow begins with
    follower = _Follower(place.logs) if follow else None
    paths = place.logs()
    lines: list[bytes] = []
    try:
        for path in reversed(paths):
            if len(lines) >= number:
                break
            lines[:0] = last_lines(path, number - len(lines))
    except FileNotFoundError:
        pass  # sealed meanwhile
    except OSError as error:
        raise LogReadError(
            path, f"cannot be read ({error.strerror})", "check the path and its mode"
        ) from None
    for line in lines:
        show(line)
    sys.stdout.flush()
    if not paths and follower is None:
        note(f"no usage log yet in {place.directory}")
    while follower is not None:
        for line in follower.new_lines():
            show(line)
        sys.stdout.flush()
        time.sleep(_POLL_SECONDS)


class _Follower:
    """What is appended to a log, across its seals: the open file to its end, then the next segment."""

    def __init__(self, list_segments: Callable[[], list[str]]) -> None:
        self._segments = list_segments
        self._rest = b""
        self._stream: BinaryIO | None = None
        paths = list_segments()
        if paths and os.path.basename(paths[-1]) == LOG_FILE:
            self._open(paths[-1], at_end=True)

    def new_lines(self) -> Iterator[bytes]:
        """The lines that have been completed since the last time."""
        while True:
            yield from self._drain()
            path = self._next_path()
            if path is None:
                return
            yield from self._drain()  # what was written between the last look and the seal
            self._rest = b""
            self._open(path)

    def _drain(self) -> Iterator[bytes]:
        data = b"" if self._stream is None else self._stream.read()
        *lines, self._rest = (self._rest + data).split(b"\n")
        yield from (line for line in lines if line.strip())

    def _next_path(self) -> str | None:
        """The segment after the open one, once that is no longer the live log."""
        paths = self._segments()
        if self._stream is None:
            return paths[-1] if paths and os.path.basename(paths[-1]) == LOG_FILE else None
        mine = os.fstat(self._stream.fileno())
        for index, path in enumerate(paths):
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.stat(path), mine):
                    return paths[index + 1] if index + 1 < len(paths) else None
        # removed or renamed to something else: go on with the live log
        return paths[-1] if paths and os.path.basename(paths[-1]) == LOG_FILE else None

    def _open(self, path: str, *, at_end: bool = False) -> None:
        try:
            stream = open(open_regular(path), "rb")  # noqa: SIM115 - kept open over the calls
        except OSError:
            return  # sealed meanwhile, or no log at all
        if self._stream is not None:
            self._stream.close()
        if at_end:
            stream.seek(0, os.SEEK_END)
        self._stream = stream


def _line(event: UsageEvent, zone: tzinfo, *, color: bool) -> str:
    """One event for people: uses green, exposures blue, maintenance's reads yellow, as in a chart."""
    at = moment(event.occurred_at)
    when = "undated            " if at is None else f"{local(at, zone):%Y-%m-%d %H:%M:%S}"
    names = ", ".join(one_line("/".join(record.key)) for record in event.records)
    actor = "" if event.actor == "agent" else f" [{one_line(event.actor)}]"
    session = "" if event.session_id is None else f"  ({one_line(event.session_id)})"
    source = f"{one_line(event.source)}{actor}"
    if color:
        of = "blue" if event.event == EXPOSURE else "yellow" if event.actor == "maintenance" else "green"
        when, source = click.style(when, dim=True), click.style(source, fg=of)
        session = click.style(session, dim=True)
    return f"{when}  {source}  {names}{session}\n"


def _json_line(event: UsageEvent) -> str:
    return json.dumps(json.loads(encode_event(event)), separators=(",", ":")) + "\n"


@log.command()
@source_options
@click.option(
    "--ignore",
    type=click.Choice(list(PROBLEMS)),
    multiple=True,
    metavar="PROBLEM",
    help="Neither list this problem nor exit 1 for it; may be repeated.",
)
@click.option("--now", metavar="TIME", help="The present, for times that are called future.")
@json_option
@no_color_option
@click.pass_context
def verify(
    ctx: click.Context,
    workspace: str | None,
    logs: tuple[str, ...],
    ignore: tuple[str, ...],
    now: str | None,
    as_json: bool,
    no_color: bool,
) -> None:
    """What is wrong in the log, and where; exit 1 when anything is.

    \b
    Problems:
    {problems}
    """
    present = period(None, None, now, UTC)[2]
    with open_source(workspace, logs or None) as source:
        check = Verification(source.logs, microseconds(present) + CLOCK_SKEW)
        folder = [] if logs or source.place is None else folder_findings(str(source.place.directory))
        findings = (f for f in chain(folder, check.findings()) if f.problem not in ignore)
        if as_json:
            ctx.exit(_print_json(source.logs.files, findings, check))
        counts: Counter[str] = Counter()
        for finding in findings:
            counts[finding.problem] += 1
            click.echo(_finding_line(finding))
    read = [counted(len(source.logs), "file"), counted(check.lines, "line"), counted(check.events, "event")]
    said = ", ".join(f"{number:,} {problem}" for problem, number in counts.items())
    if not len(source.logs) and source.place is not None:
        note(f"no usage log yet in {source.place.directory}")
    click.echo(f"{', '.join(read)}: {said or 'nothing wrong'}")
    ctx.exit(1 if counts else 0)


verify.help = (verify.help or "").format(
    problems="\n    ".join(f"  {name:<10} {text}" for name, text in PROBLEMS.items())
)


def _print_json(files: list[tuple[str, int]], findings: Iterator[Finding], check: Verification) -> int:
    """Print the findings as one object, each as it is found: there may be millions; the exit code."""
    head = {"format_version": 1, "files": [{"file": path, "bytes": length} for path, length in files]}
    click.echo(json.dumps(head, indent=2).removesuffix("\n}") + ',\n  "findings": [', nl=False)
    number = 0
    for number, finding in enumerate(findings, 1):
        click.echo(f"{',' if number > 1 else ''}\n    {json.dumps(dataclasses.asdict(finding))}", nl=False)
    end = "\n  " if number else ""
    click.echo(f'{end}],\n  "lines": {check.lines},\n  "events": {check.events}\n}}')
    return 1 if number else 0


def _finding_line(finding: Finding) -> str:
    where = one_line(finding.file)
    if finding.line is not None:
        where += f":{finding.line}: at byte {finding.offset}"
    recovered = f" ({counted(finding.recovered, 'event')} recovered)" if finding.recovered else ""
    return f"{where}: {finding.problem}{recovered}: {one_line(finding.detail)}"


@log.command()
@workspace_option
@json_option
@no_color_option
def seal(workspace: str | None, as_json: bool, no_color: bool) -> None:
    """Rename the live log to usage-NUMBER.jsonl; the next event begins a new one."""
    place = find_workspace(workspace)
    try:
        segment = LogWriter(str(place.log_path), root=str(place.root)).seal()
    except OSError as error:
        reason = error.strerror or str(error)
        raise MemtallyError(f"{place.log_path}: cannot be sealed ({reason}); nothing was changed") from None
    if as_json:
        click.echo(json.dumps({"format_version": 1, "sealed": segment}))
    elif segment is None:
        note(f"nothing to seal in {place.directory}")
    else:
        click.echo(segment)
