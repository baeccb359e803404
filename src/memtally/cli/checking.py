"""``memtally check``: the figures held against limits of the user's own, for CI and pre-commit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC
from pathlib import Path
from typing import Any

import click

from memtally import health
from memtally.cli.options import json_option, moment_option, no_color_option, source_options
from memtally.inventory import InventoryRecord, scan
from memtally.report import UsageReport
from memtally.report._text import counted, one_line, utc_stamp
from memtally.report.build import open_source, report_of
from memtally.report.checking import Checked, Cost, Finding, Limits, always_on, check_report, start_of
from memtally.report.sharing import available_processes
from memtally.report.tally import Filters
from memtally.tokens import estimator
from memtally.workspace import Workspace, find_workspace

__all__ = ["check"]

_FORMAT_VERSION = 1


@click.command()
@source_options
@click.option(
    "--max-record-tokens", type=click.IntRange(min=0), metavar="N", help="Of one always-on record, a placing."
)
@click.option(
    "--max-resident-tokens",
    type=click.IntRange(min=0),
    metavar="N",
    help="Of all always-on records together.",
)
@click.option(
    "--unused-days",
    type=click.IntRange(min=1),
    metavar="N",
    help="Records without a read for so long, where the log supports saying it.",
)
@click.option(
    "--ignore-source",
    "ignored",
    multiple=True,
    metavar="SOURCE",
    help="A route that need not cover that time: given up, or rarely used; may be repeated.",
)
@click.option("--strict", is_flag=True, help="What cannot be said is a finding, too.")
@click.option("--now", metavar="TIME", help="The time the check is made for (for reproducible output).")
@json_option
@no_color_option
def check(
    workspace: str | None,
    logs: tuple[str, ...],
    max_record_tokens: int | None,
    max_resident_tokens: int | None,
    unused_days: int | None,
    ignored: tuple[str, ...],
    strict: bool,
    now: str | None,
    as_json: bool,
    no_color: bool,
) -> int:
    """Hold the records against limits that you give. Exit 0: within them; 1: findings; 2: wrong use.

    There are no limits but yours. The tokens of an always-on record are those of its latest placing, or of
    its whole file where that has another size since or was never placed. It deletes nothing.
    """
    limits = Limits(max_record_tokens, max_resident_tokens, unused_days, ignored)
    if limits == Limits(ignored_sources=ignored):
        raise click.UsageError(
            "nothing to check; give --max-record-tokens, --max-resident-tokens or --unused-days"
        )
    place = find_workspace(workspace)
    with open_source(place.root, logs or None) as source:
        made = report_of(
            source,
            Filters(),
            now=None if now is None else moment_option("--now", now),
            processes=available_processes(),
            history=None if unused_days is None else UTC,
        )
        records = {} if source.place is None else scan(source.place, source.config).records
    costs = {(one.kind, one.slug): _cost(made, (one.kind, one.slug), records) for one in always_on(made)}
    gaps = [] if unused_days is None else list(_lost(place, made, unused_days))
    checked = check_report(made, costs, limits, gaps)
    click.echo(
        _as_json(made, checked, limits, strict) if as_json else _as_text(checked, costs, limits, strict)
    )
    return 1 if checked.findings or (strict and checked.unknown) else 0


def _cost(
    made: UsageReport, key: tuple[str, str], records: Mapping[tuple[str, str], InventoryRecord]
) -> Cost:
    """What one placing of a record costs now."""
    record, found = made[key], records.get(key)
    each = record.estimated_tokens_per_injection
    if found is None:
        return Cost(None, "")
    if each is not None and record.file_bytes_at_injection == found.file_bytes:
        return Cost(each, " and ".join(record.tokenizers))
    try:
        text = Path(found.path).read_bytes().decode("utf-8", "replace")
    except OSError:
        return Cost(None, "")
    counter = estimator()
    counter.load()
    return Cost(*counter.estimate(text))


def _lost(place: Workspace, made: UsageReport, days: int) -> Iterator[str]:
    """Why reads of these days may be missing, by what recording has left word of."""
    if health.read_waiting(str(place.directory)):
        yield "events wait outside the log, or are lost (memtally status)"
    start = start_of(made, days).timestamp()
    for kind, fault in sorted(health.read_faults(str(place.directory)).items()):
        if fault["at"] >= start:
            yield f"recording has failed ({kind.replace('_', ' ')}; memtally status)"


def _as_text(checked: Checked, costs: Mapping[tuple[str, str], Cost], limits: Limits, strict: bool) -> str:
    lines = [_line(finding) for finding in checked.findings]
    lines += [f"cannot be said: {_line(finding)}" for finding in checked.unknown]
    number = len(checked.findings) + (len(checked.unknown) if strict else 0)
    said = [counted(number, "finding")]
    if limits.unused_days is None or costs:
        tokens = sum(cost.tokens or 0 for cost in costs.values())
        said.append(f"{counted(len(costs), 'always-on record')} with {counted(tokens, 'token')} a placing")
    return "\n".join([*lines, f"{'; '.join(said)}."])


def _line(finding: Finding) -> str:
    name = "" if finding.record is None else f"{one_line('/'.join(finding.record))}: "
    return f"{finding.check}: {name}{one_line(finding.text)}"


def _as_json(made: UsageReport, checked: Checked, limits: Limits, strict: bool) -> str:
    def plain(found: list[Finding]) -> list[dict[str, Any]]:
        return [
            {
                "check": one.check,
                "record": None if one.record is None else {"kind": one.record[0], "slug": one.record[1]},
                "value": one.value,
                "limit": one.limit,
                "text": one_line(one.text),
            }
            for one in found
        ]

    return json.dumps(
        {
            "format_version": _FORMAT_VERSION,
            "generated_at": utc_stamp(made.generated_at),
            "limits": {
                "record_tokens": limits.record_tokens,
                "resident_tokens": limits.resident_tokens,
                "unused_days": limits.unused_days,
                "ignored_sources": sorted(limits.ignored_sources),
                "strict": strict,
            },
            "findings": plain(checked.findings),
            "unknown": plain(checked.unknown),
        },
        indent=2,
    )
