"""Count logs in bulk: in pieces, by more than one process where there is much, each event once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from memtally.ledger.reader import OpenLogs
from memtally.report.counting import PieceCounter
from memtally.report.repeats import find_repeats, repeated_ids
from memtally.report.sharing import Range, share
from memtally.report.survey import Survey
from memtally.report.tally import Tally

__all__ = ["count", "survey_of", "whole"]


def whole(logs: OpenLogs) -> list[Range]:
    """All bytes of some logs."""
    return [(number, 0, size) for number, (_, size) in enumerate(logs.files)]


def count(logs: OpenLogs, ranges: list[Range], make: Callable[[], Tally], processes: int = 1) -> Survey:
    """Count the events that stand in some ranges of bytes, each once.

    ``make``: an empty tally of the settings wanted. ``processes``: how many may work at it, this one
    included.
    """
    survey = survey_of(logs, ranges, make, processes)
    repeats = find_repeats(survey, logs, repeated_ids(survey, logs), make)
    if repeats.settled:
        # a version that does not count may have moved first and latest times: count again without them
        again = survey_of(logs, ranges, make, processes, frozenset(repeats.settled))
        survey.tally = again.tally
        for event in repeats.settled.values():
            survey.tally.add(event)
    survey.tally.take_back(repeats.again)
    survey.tally.duplicates = repeats.duplicates
    survey.tally.conflicts = repeats.conflicts
    return survey


def survey_of(
    logs: OpenLogs,
    ranges: list[Range],
    make: Callable[[], Tally],
    processes: int = 1,
    left_out: frozenset[str] = frozenset(),
) -> Survey:
    """Count every line in some ranges, whatever was met before; not the events whose ids are left out."""

    def work(mine: Iterable[Range]) -> Survey:
        survey = Survey(make())
        counter = PieceCounter(survey.tally, left_out)
        for number, start, end in mine:
            for offset, data in logs.pieces(number, start, end):
                survey.note(number, offset, len(data), counter.add(data))
        counter.finish()
        survey.counts = counter.counts
        return survey

    return share(ranges, work, make, processes)
