"""What counting a part of a log brings: the tally, and what is needed to find the events that were met twice.

The ids of a log are too many to keep. Version 7 ids come nearly in order, so that each piece of a log holds
a stretch of them: its core, for which two ids stand, the lowest and the highest. What does not fit in (some
at either edge, where writers overtake each other, and all ids without an order) is loose: sixteen bytes each.
Cores that lie apart from each other and from every loose id hold nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from operator import lt
from typing import NamedTuple

from memtally.ledger import bulk
from memtally.ledger.bulk import ID_AT
from memtally.ledger.ids import is_timed, pack_id, pack_uuids, unpacked
from memtally.ledger.reader import ReadCounts
from memtally.report.counting import Counted
from memtally.report.tally import Tally

__all__ = ["Piece", "Survey"]

_EDGE = 16
_RUN = 65_536


class Piece(NamedTuple):
    """Lines that were counted together, where they stand, and what ids and times are among them.

    ``low``, ``high``: the core's first and last id, empty where there is none. ``least``, ``most``: of
    all loose version 7 ids and the core's. ``untimed``: whether there are ids of other kinds. ``odd``:
    whether there are lines without a canonical form. ``first``, ``last``: the times.
    """

    file: int
    start: int
    size: int
    low: bytes
    high: bytes
    least: bytes
    most: bytes
    untimed: bool
    odd: bool
    first: str
    last: str


class Survey:
    """A tally in the making. ``runs``: the loose ids, sorted; those met twice in one piece are loose, too."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.counts = ReadCounts()
        self.pieces: list[Piece] = []
        self.runs: list[bytes] = []
        self._loose: list[bytes] = []

    def note(self, file: int, start: int, size: int, counted: Counted) -> None:
        """Keep what has to be kept of a piece that has been counted."""
        timed, loose = _sorted_out(counted)
        if not (counted.ascending or all(map(lt, timed, timed[1:]))):
            loose += [one for pair in pairwise(timed) if pair[0] == pair[1] for one in pair]
        core = timed[_EDGE:-_EDGE]
        loose += timed[:_EDGE] + timed[_EDGE:][-_EDGE:]
        packed = [*map(pack_id, counted.others), *unpacked(pack_uuids(one[ID_AT] for one in loose))]
        low, high = unpacked(pack_uuids(core[at][ID_AT] for at in (0, -1))) if core else (b"", b"")
        known = [one for one in (*packed, low, high) if one and is_timed(one)]
        untimed = not all(map(is_timed, packed))
        least, most = min(known, default=b""), max(known, default=b"")
        first, last = counted.first, counted.last
        self.pieces.append(
            Piece(file, start, size, low, high, least, most, untimed, counted.odd, first, last)
        )
        self.add_loose(packed)

    def close_run(self) -> None:
        """Pack up the loose ids; to be called when all is noted."""
        if self._loose:
            self.runs.append(b"".join(sorted(self._loose)))
            self._loose = []

    def add_loose(self, packed: Iterable[bytes]) -> None:
        """Keep loose ids, packed."""
        self._loose += packed
        if len(self._loose) >= _RUN:
            self.close_run()

    def join(self, other: Survey) -> None:
        """Add another part of the same log."""
        self.tally.join(other.tally)
        self.counts.damaged_lines += other.counts.damaged_lines
        self.counts.recovered_events += other.counts.recovered_events
        self.pieces += other.pieces
        self.runs += other.runs


def _sorted_out(counted: Counted) -> tuple[list[bytes], list[bytes]]:
    """The canonical lines' version 7 ids, sorted, and the others."""
    ids = counted.ids
    untimed: list[bytes] = []
    if not counted.timed:
        untimed = [one for one in ids if not bulk.is_timed(one)]
        ids = list(filter(bulk.is_timed, ids))
    return ids if counted.ascending else sorted(ids), untimed
