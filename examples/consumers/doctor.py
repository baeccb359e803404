"""What a Doctor takes from the figures: always-on records without a use, and records never read.

Run it on a workspace, and put what it prints into the Doctor's prompt::

    python doctor.py WORKSPACE

It prints evidence. It deletes nothing and recommends nothing: what a record is worth, the Doctor has to find
out by other means, and whoever answers for the memory decides.
"""

from __future__ import annotations

import sys

import memtally
from memtally import RecordUsage, UsageReport


def main(workspace: str) -> None:
    """Print the two lists, and what they rest on."""
    report = memtally.build_report(workspace)

    print("## Always-on records without a use, the costliest first")
    # resident_review is ranked by uses, then by cost
    for item in report.review().resident_review:
        record = item.record
        if record.use_count == 0 and record.status != "missing":
            latest = record.estimated_tokens_per_injection
            cost = "unknown" if latest is None else f"{latest} tokens"
            print(f"- {record.name!r}: {item.evidence}; the latest injection cost {cost}{elsewhere(record)}")

    print("\n## Records that were never read, and are not always on")
    # never_read is empty where there is no inventory; names are quoted, for they are somebody's text
    for record in report.never_read:
        if not record.resident and not record.resident_exposure_count:
            print(f"- {record.name!r}: {covered(record, report)}")

    print("\n## What this rests on")
    coverage = report.coverage
    print(f"log: {coverage.log_state}, {coverage.events} events since {coverage.first_event_at}")
    print(f"inventory: {coverage.inventory_state}")
    print(f"sources seen: {', '.join(map(repr, coverage.sources)) or 'none'}")
    # a route that never reported says nothing about the records that it reads
    print(f"sources configured and never seen: {', '.join(map(repr, coverage.silent_sources)) or 'none'}")


def elsewhere(record: RecordUsage) -> str:
    """A record of the user's own serves every workspace, and this log knows of one."""
    return "; other workspaces may use it" if record.user_level else ""


def covered(record: RecordUsage, report: UsageReport) -> str:
    """How much of a record's life the log covers; a young log says little about an old record."""
    # placings and the maintenance agent's reads do not show that agents' reads were recorded
    firsts = [source.first for source in report.coverage.read_sources.values() if source.first]
    if not firsts:
        return "no read was recorded, so nothing can be said"
    days = max((report.generated_at - min(firsts)).days, 0)
    if record.age_days is None:
        return f"age unknown, the log covers {days} days"
    return f"{record.age_days} days old, the log covers {min(days, record.age_days)} of them"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: doctor.py WORKSPACE")
    main(sys.argv[1])
