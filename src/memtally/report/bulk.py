"""Count logs in bulk: in pieces, by more than one process where there is much, each event once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from memtally.ledger.reader import OpenLogs
from memtally.report.counting import PieceCounter
from memtally.report.repeats import Repeats, find_repeats, repeated_ids
from memtally.report.sharing import Range, share
from memtally.report.survey import Survey
from memtally.report.tally import Tally

__all__ = ["count"]


def count(logs: OpenLogs, make: Callable[[], Tally], processes: int = 1) -> Survey:
    """Count the events of some logs, each once. ``make``: an empty tally of the settings wanted.

    ``processes``: how many may work at it, the present one included.
    """
    ranges = [(number, 0, size) for number, (_, size) in enumerate(logs.files)]
    survey = _surveyed(logs, ranges, make, frozenset(), processes)
    repeats = find_repeats(survey, logs, repeated_ids(survey, logs), make)
    return corrected(survey, repeats, logs, make, processes)


def _surveyed(
    logs: OpenLogs,
    ranges: Iterable[Range],
    make: Callable[[], Tally],
    left_out: frozenset[str],
    processes: int,
) -> Survey:
    def work(mine: Iterable[Range]) -> Survey:
        survey = Survey(make())
        counter = PieceCounter(survey.tally, left_out)
        for number, start, end in mine:
            for offset, data in logs.pieces(number, start, end):
                survey.note(number, offset, len(data), counter.add(data))
        counter.finish()
        survey.counts = counter.counts
        return survey

    return share(list(ranges), work, make, processes)


def corrected(
    survey: Survey, repeats: Repeats, logs: OpenLogs, make: Callable[[], Tally], processes: int
) -> Survey:
    """The survey without what it counted twice."""
    if repeats.settled:
        # a version that does not count may have moved first and latest times: count again without them
        ranges = [(number, 0, size) for number, (_, size) in enumerate(logs.files)]
        survey = _surveyed(logs, ranges, make, frozenset(repeats.settled), processes)
        for event in repeats.settled.values():
            survey.tally.add(event)
    survey.tally.take_back(repeats.again)
    survey.tally.duplicates = repeats.duplicates
    survey.tally.conflicts = repeats.conflicts
    return survey
