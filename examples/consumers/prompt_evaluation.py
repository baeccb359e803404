"""What a prompt evaluation takes from the figures: reads and exposure tokens before and after a change.

Run it on a workspace, with the day of the change (UTC) and how many days of each side to compare::

    python prompt_evaluation.py WORKSPACE 2026-06-01 14

The table is CSV on stdout; what the two periods hold goes to stderr. Counts are not divided by sessions or
days: how much work either period saw is the evaluation's own to say.
"""

from __future__ import annotations

import csv
import sys
from datetime import UTC, datetime, timedelta

import memtally
from memtally import RecordUsage


def main(workspace: str, change: datetime, days: int) -> None:
    """Print a line for each record that was read or placed in either period."""
    span = timedelta(days=days)
    # since is inclusive and until exclusive, so no event is in both
    before = memtally.build_report(workspace, since=change - span, until=change)
    after = memtally.build_report(workspace, since=change, until=change + span)

    for label, report in (("before", before), ("after", after)):
        held = report.coverage
        sources = ", ".join(map(repr, held.sources)) or "none"
        print(f"{label}: {held.events} events, {held.sessions} sessions, sources {sources}", file=sys.stderr)

    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["record", "uses_before", "uses_after", "tokens_before", "tokens_after", "tokenizers"])
    # every record of the inventory is in both reports; one that is gone only where it was met
    for kind, slug in sorted({(r.kind, r.slug) for report in (before, after) for r in report.records}):
        old = before.get(kind, slug) or RecordUsage(kind, slug)
        new = after.get(kind, slug) or RecordUsage(kind, slug)
        if any(r.use_count or r.resident_exposure_count for r in (old, new)):
            # figures by two tokenizers differ without any change of the prompt
            makers = " ".join(sorted({*old.tokenizers, *new.tokenizers}))
            table.writerow([old.name, old.use_count, new.use_count, tokens(old), tokens(new), makers])


def tokens(record: RecordUsage) -> str:
    """The exposure tokens; empty where a placing was not measured, for then the sum is not known."""
    if record.unmeasured_exposure_count:
        return ""
    return str(record.estimated_total_resident_exposure_tokens)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: prompt_evaluation.py WORKSPACE DAY DAYS")
    main(sys.argv[1], datetime.fromisoformat(sys.argv[2]).replace(tzinfo=UTC), int(sys.argv[3]))
