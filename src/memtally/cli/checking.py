"""``memtally check``: the figures held against limits of the user's own, for CI and pre-commit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from memtally.cli.options import json_option, moment_option, no_color_option, source_options
from memtally.inventory import InventoryRecord, scan
from memtally.report import UsageReport
from memtally.report._text import counted, one_line, utc_stamp
from memtally.report.build import open_source, report_of
from memtally.report.checking import Checked, Cost, Finding, Limits, always_on, check_report
from memtally.report.sharing import available_processes
from memtally.report.tally import Filters
from memtally.tokens import estimator
from memtally.workspace import find_workspace

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
    "--retired",
    multiple=True,
    metavar="SOURCE",
    help="A route no longer used: its silence is meant; may be repeated.",
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
    retired: tuple[str, ...],
    strict: bool,
    now: str | None,
    as_json: bool,
    no_color: bool,
) -> int:
    """Hold the records against limits that you give. Exit 0: within them; 1: findings; 2: wrong use.

    There are no limits but yours. The tokens of an always-on record are those of its latest placing, or of
    its whole file where that has another size since or was never placed. It deletes nothing.
    """
    limits = Limits(max_record_tokens, max_resident_tokens, unused_days, retired)
    if limits == Limits(retired=retired):
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
        )
        records = {} if source.place is None else scan(source.place, source.config).records
    costs = {(one.kind, one.slug): _cost(made, (one.kind, one.slug), records) for one in always_on(made)}
    checked = check_report(made, costs, limits)
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
    if each is not None and record.file_bytes == found.file_bytes:
        return Cost(each, " and ".join(record.tokenizers))
    try:
        text = Path(found.path).read_bytes().decode("utf-8", "replace")
    except OSError:
        return Cost(None, "")
    counter = estimator()
    counter.load()
    return Cost(*counter.estimate(text))


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
                "retired": sorted(limits.retired),
                "strict": strict,
            },
            "findings": plain(checked.findings),
            "unknown": plain(checked.unknown),
        },
        indent=2,
    )
