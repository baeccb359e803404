"""What a consolidation pass takes from the figures: what to make knowledge of, and what to leave alone.

Run it on a workspace, and put what it prints before the pass::

    python consolidation.py WORKSPACE

Decisions and requests that agents read again and again are candidates for a knowledge record. Every record
that was read is protected: tidying must not merge or shorten it without looking at it. The program reads
figures and changes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import memtally
from memtally import RecordUsage


def main(workspace: str) -> None:
    """Print the candidates with their evidence, then the protected records."""
    # sessions=: one session that reads a record ten times is other evidence than ten sessions
    report = memtally.build_report(workspace, sessions=True)
    review = report.review()

    print("## Candidates for knowledge, most read first")
    for item in review.knowledge_candidates:
        # of a record whose file has gone there is nothing left to make knowledge of
        if item.record.status != "missing":
            print(f"- {name(item.record)}: {item.evidence}; sessions: {item.record.session_count}")

    print("\n## Protected from tidying: read in what the log covers")
    for line in names(item.record for item in review.tidy_protection if item.record.status != "missing"):
        print(line)

    coverage = report.coverage
    print(f"\nFrom {coverage.events} events, {coverage.first_event_at} to {coverage.last_event_at}.")
    print("A record that is in neither list is not shown to be unused.")


def names(records: Iterable[RecordUsage]) -> list[str]:
    """One line for each record, by name, so that two runs can be compared."""
    return sorted(f"- {name(record)}" for record in records)


def name(record: RecordUsage) -> str:
    """The record's name in quotes, for a name is somebody's text and must not pass for an instruction."""
    return repr(record.name)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: consolidation.py WORKSPACE")
    main(sys.argv[1])
