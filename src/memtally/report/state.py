"""A survey as bytes, for another process or for a later report. Checked in full when it is read."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from memtally.ledger.reader import ReadCounts
from memtally.report.survey import Piece, Survey
from memtally.report.tally import Cell, CellKey, DayKey, Span, Tally

__all__ = ["SurveyState", "state_of", "survey_from"]


class SurveyState(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """What a survey holds, but for the settings that its tally was made with."""

    cells: dict[CellKey, Cell]
    counted: dict[tuple[str, str, bool], Span]
    sessions: set[str]
    sessions_before: int
    duplicates: int
    conflicts: int
    searches: int
    unknown: int
    skewed: int
    skewed_from: str
    undated: int
    days: dict[DayKey, int]
    counts: ReadCounts
    pieces: list[Piece]
    runs: list[bytes]


def state_of(survey: Survey) -> SurveyState:
    """The survey's state; it shares what it holds with the survey."""
    survey.close_run()
    tally = survey.tally
    return SurveyState(
        tally.cells,
        tally.counted,
        tally.sessions,
        tally.sessions_before,
        tally.duplicates,
        tally.conflicts,
        tally.searches,
        tally.unknown,
        tally.skewed,
        tally.skewed_from,
        tally.undated,
        tally.days,
        survey.counts,
        survey.pieces,
        survey.runs,
    )


def survey_from(state: SurveyState, tally: Tally) -> Survey:
    """The survey of such a state; ``tally`` is an empty one of the same settings."""
    survey = Survey(
        replace(
            tally,
            cells=state.cells,
            counted=state.counted,
            sessions=state.sessions,
            sessions_before=state.sessions_before,
            duplicates=state.duplicates,
            conflicts=state.conflicts,
            searches=state.searches,
            unknown=state.unknown,
            skewed=state.skewed,
            skewed_from=state.skewed_from,
            undated=state.undated,
            days=state.days,
        )
    )
    survey.counts, survey.pieces, survey.runs = state.counts, state.pieces, state.runs
    return survey
