"""Count a workspace's log on from where the last report left off, with the same result as from the start."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable

import msgspec

from memtally.ledger import ids
from memtally.ledger.reader import OpenLogs
from memtally.report import checkpoint as checkpoints
from memtally.report.bulk import count, survey_of, whole
from memtally.report.checkpoint import Checkpoint
from memtally.report.repeats import core_of, repeated_ids
from memtally.report.sharing import Range
from memtally.report.state import survey_from
from memtally.report.survey import Piece, Survey
from memtally.report.tally import Tally

__all__ = ["count_on"]

_WORTH_KEEPING = 1_048_576
"""Bytes that have to be new before they are kept; to count them again takes some milliseconds."""
_MOST_REREAD = 64
"""Pieces that are read again for ids that come late; with more, it is quicker to start anew."""


def count_on(logs: OpenLogs, make: Callable[[], Tally], path: str, root: str, processes: int = 1) -> Survey:
    """Count the logs of a workspace whose folder is ``root``; the checkpoint lies at ``path``.

    Where there is none that holds, or a new line may repeat one that was counted, all is counted from the
    start. Only the tally and the counts of the result are of use.
    """
    before = checkpoints.load(path, logs, make())
    if before is not None:
        try:
            resumed = _resumed(before, logs, make, path, root, processes)
        except (ValueError, msgspec.MsgspecError):
            resumed = None  # damaged where it was not looked at before
        finally:
            before.close()
        if resumed is not None:
            return resumed
    survey = count(logs, whole(logs), make, processes)
    if make().period.unlimited and sum(size for _, size in logs.files) > _WORTH_KEEPING:
        checkpoints.save(path, root, logs, survey, None)
    return survey


def _resumed(
    before: Checkpoint,
    logs: OpenLogs,
    make: Callable[[], Tally],
    path: str,
    root: str,
    processes: int,
) -> Survey | None:
    rest = [
        (number, start, end)
        for (number, _, end), start in zip(whole(logs), before.counted, strict=True)
        if start < end
    ]
    new = survey_of(logs, rest, make, processes)
    if any(repeated_ids(new, logs)) or _meets(new, before, logs):
        return None
    if make().period.unlimited:
        return _joined(before, new, make, lambda joined: _keep(rest, before, joined, logs, path, root))
    if before.survey.conflicts:
        return None  # of the versions of one event, some may lie in the period, and the one that counts not
    first, end = make().bounds
    inside = [piece for piece in before.pieces(logs) if first <= piece.last and piece.first < end]
    ranges = [(piece.file, piece.start, piece.start + piece.size) for piece in inside]
    survey = count(logs, _side_by_side(ranges) + rest, make, processes)
    survey.tally.duplicates = before.survey.duplicates
    survey.counts = before.survey.counts
    survey.counts.damaged_lines += new.counts.damaged_lines
    survey.counts.recovered_events += new.counts.recovered_events
    return survey


def _joined(
    before: Checkpoint, new: Survey, make: Callable[[], Tally], keep: Callable[[Survey], None]
) -> Survey:
    joined = survey_from(before.survey, make())
    new.tally.sessions = {
        session for session in new.tally.sessions if not ids.holds(before.sessions, ids.pack_id(session))
    }
    joined.join(new)
    keep(joined)
    return joined


def _keep(
    rest: list[Range], before: Checkpoint, joined: Survey, logs: OpenLogs, path: str, root: str
) -> None:
    # to write a long list of loose ids anew takes longer
    if sum(end - start for _, start, end in rest) > _WORTH_KEEPING + len(before.ids) // 4:
        checkpoints.save(path, root, logs, joined, before)


def _side_by_side(ranges: Iterable[Range]) -> list[Range]:
    """The ranges in order, those that touch each other as one."""
    joined: list[Range] = []
    for number, start, end in sorted(ranges):
        if joined and joined[-1][0] == number and joined[-1][2] == start:
            joined[-1] = (number, joined[-1][1], end)
        else:
            joined.append((number, start, end))
    return joined


def _meets(new: Survey, before: Checkpoint, logs: OpenLogs) -> bool:
    """Whether a new line may have the id of one that was counted before."""
    for run in new.runs:
        for packed in ids.unpacked(run):
            if not ids.is_timed(packed) and ids.holds(before.ids, packed):
                return True
    if all(piece.least > before.most for piece in new.pieces if piece.least):
        return False
    late = _open_all(new, logs)
    if any(ids.holds(before.ids, packed) for packed in late):
        return True
    cores = sorted((piece for piece in before.pieces(logs) if piece.low), key=lambda piece: piece.low)
    lows = [piece.low for piece in cores]
    wanted: dict[Piece, set[bytes]] = {}
    for packed in late:
        at = bisect_right(lows, packed) - 1
        if at >= 0 and packed <= cores[at].high:
            wanted.setdefault(cores[at], set()).add(packed)
    return len(wanted) > _MOST_REREAD or any(
        not late_ones.isdisjoint(core_of(piece, logs)) for piece, late_ones in wanted.items()
    )


def _open_all(new: Survey, logs: OpenLogs) -> list[bytes]:
    """All version 7 ids of the new lines, which lie among the old: from now on all of them are loose."""
    late = [packed for run in new.runs for packed in ids.unpacked(run) if ids.is_timed(packed)]
    for piece in new.pieces:
        if piece.low:
            core = core_of(piece, logs)
            new.add_loose(core)
            late += core
    new.close_run()
    new.pieces = [piece._replace(low=b"", high=b"") for piece in new.pieces]
    return late
