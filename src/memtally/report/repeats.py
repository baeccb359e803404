"""Find the events that a log holds more than once, and what they are: the same again, or a conflict.

The survey of a log counts every line. Here it is corrected: the same event again is taken back from the
counts (it cannot have moved any first or latest time), and of an id with several contents none is left,
but the one that counts by (time, bytes).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from memtally.events import UsageEvent, encode_event
from memtally.ledger import bulk
from memtally.ledger.bulk import FIRST_TAIL_AT, ID_AT, Columns, id_entry
from memtally.ledger.decode import decode_line
from memtally.ledger.ids import holds_between, is_timed, pack_id, pack_uuids, repeated, text_of, unpacked
from memtally.ledger.reader import OpenLogs
from memtally.report.counting import PieceCounter
from memtally.report.each import rank
from memtally.report.survey import Piece, Survey
from memtally.report.tally import Tally

__all__ = ["Repeats", "core_of", "find_repeats", "repeated_ids"]

_MOST_AT_ONCE = 65_536


class Repeats:
    """What is to be corrected. ``again``: the same events again, each counted once too often.

    ``settled``: of each id with several contents the version that counts; none of them may be in the tally.
    """

    def __init__(self, again: Tally) -> None:
        self.again = again
        self.settled: dict[str, UsageEvent] = {}
        self.duplicates = 0
        self.conflicts = 0


def repeated_ids(survey: Survey, logs: OpenLogs) -> Iterator[list[bytes]]:
    """The packed ids that may be met more than once, in order, some at a time."""
    survey.close_run()
    opened = _open_pieces(survey)
    survey.pieces = [
        piece._replace(low=b"", high=b"") if piece in opened else piece for piece in survey.pieces
    ]
    for piece in sorted(opened):
        survey.add_loose(core_of(piece, logs))
    survey.close_run()
    return repeated(survey.runs)


def core_of(piece: Piece, logs: OpenLogs) -> list[bytes]:
    """The packed ids between the first and the last of a piece's core, read again."""
    found: list[bytes] = []
    for _, data in logs.pieces(piece.file, piece.start, piece.start + piece.size):
        timed = filter(bulk.is_timed, Columns(data, FIRST_TAIL_AT).ids)
        packed = unpacked(pack_uuids(one[ID_AT] for one in timed))
        found += [one for one in packed if piece.low <= one <= piece.high]
    return found


def _open_pieces(survey: Survey) -> set[Piece]:
    """The pieces whose cores meet another core, or a loose id."""
    cores = sorted((piece for piece in survey.pieces if piece.low), key=lambda piece: piece.low)
    meeting: set[Piece] = set()
    furthest: Piece | None = None  # of those before, the one that reaches furthest
    for piece in cores:
        if furthest is not None and piece.low <= furthest.high:
            meeting |= {furthest, piece}
        if furthest is None or piece.high > furthest.high:
            furthest = piece
        if any(holds_between(run, piece.low, piece.high) for run in survey.runs):
            meeting.add(piece)
    return meeting


def find_repeats(
    survey: Survey, logs: OpenLogs, ids: Iterable[list[bytes]], make: Callable[[], Tally]
) -> Repeats:
    """What the repeated ids of a log are. ``make``: a tally of the same settings."""
    found = Repeats(make())
    pieces = sorted(survey.pieces)
    for some in _in_batches(ids):
        timed = list(filter(is_timed, some))
        holding = [piece for piece in pieces if _may_hold(piece, timed, len(timed) < len(some))]
        _Batch(some, found).settle(holding, logs)
    return found


def _in_batches(groups: Iterable[list[bytes]]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    for group in groups:
        batch += group
        if len(batch) >= _MOST_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _may_hold(piece: Piece, timed: list[bytes], untimed: bool) -> bool:
    """Whether some of the wanted ids may be in a piece: of the sorted timed ones, of the untimed ones."""
    if untimed and piece.untimed:
        return True
    at = bisect_left(timed, piece.least)
    return bool(piece.most) and at < len(timed) and timed[at] <= piece.most


class _Batch:
    """Some of the repeated ids, all of whose events are looked at together.

    Canonical lines are compared as they are, and decoded only where an id has several.
    """

    def __init__(self, wanted: list[bytes], found: Repeats) -> None:
        self._wanted = set(wanted)
        self._texts = {id_entry(text_of(packed)) for packed in wanted}
        self._found = found
        self._doubtful: set[bytes] = set()

    def settle(self, pieces: list[Piece], logs: OpenLogs) -> None:
        contents: dict[bytes, int] = {}
        for lines, others in self._events(pieces, logs):
            self._doubtful.update(packed for packed, _ in others)
            for event_id, line in lines:
                content = hash(line)
                if contents.setdefault(event_id, content) != content:
                    self._doubtful.add(pack_id(event_id[ID_AT].decode()))
        met: set[bytes] = set()
        versions: dict[bytes, Counter[bytes]] = {packed: Counter() for packed in self._doubtful}
        counter = PieceCounter(self._found.again)
        for lines, others in self._events(pieces, logs):
            repeated_lines = []
            for event_id, line in lines:
                if event_id in met:
                    repeated_lines.append(line)
                elif self._doubtful and (packed := pack_id(event_id[ID_AT].decode())) in versions:
                    versions[packed].update(
                        encode_event(event) for event in decode_line(line.rstrip(b"\n"))[0]
                    )
                else:
                    met.add(event_id)
            for packed, event in others:
                versions[packed][encode_event(event)] += 1
            self._found.duplicates += len(repeated_lines)
            counter.add(b"".join(repeated_lines))
        counter.finish()
        for known in versions.values():
            self._settle_doubtful(known)

    def _settle_doubtful(self, known: Counter[bytes]) -> None:
        """Settle one id by its versions and how often each was met."""
        events = [event for line in known for event in decode_line(line.rstrip(b"\n"))[0]]
        self._found.duplicates += known.total() - len(known)
        if len(events) > 1:
            self._found.conflicts += len(events) - 1
            earliest = min(events, key=rank)
            self._found.settled[earliest.id] = earliest
        for event in events * (known.total() - 1) if len(events) == 1 else ():
            self._found.again.add(event)

    def _events(
        self, pieces: list[Piece], logs: OpenLogs
    ) -> Iterator[tuple[list[tuple[bytes, bytes]], list[tuple[bytes, UsageEvent]]]]:
        """The events of the wanted ids, piece by piece: canonical lines, and what other lines hold."""
        for piece in pieces:
            for _, data in logs.pieces(piece.file, piece.start, piece.start + piece.size):
                split = Columns(data, FIRST_TAIL_AT)
                hits = [index for index, event_id in enumerate(split.ids) if event_id in self._texts]
                if not piece.odd:
                    yield [(split.ids[index], _whole(split.lines[index])) for index in hits], []
                    continue
                # among damaged lines, an event may stand in the middle of any
                every = [*split.lines, *split.other]
                events = (event for line in every for event in decode_line(line.rstrip(b"\n"))[0])
                named = [(pack_id(event.id), event) for event in events]
                yield [], [(packed, event) for packed, event in named if packed in self._wanted]


def _whole(line: bytes) -> bytes:
    return line if line.endswith(b"\n") else line + b"\n"
