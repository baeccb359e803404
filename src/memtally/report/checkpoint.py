"""What a report has counted, kept in ``.memtally/cache/`` so that the next one counts only what is new.

It may be deleted at any time, and is disregarded at any doubt: unless each file that was counted is still
there (by device and inode: a sealed one has another name), no shorter, and with the same bytes wherever it
is looked at, and the report wants what was counted: the same aliases, and a time at which the same events
lie in the future.
"""

from __future__ import annotations

import os
from datetime import datetime
from hashlib import blake2b
from mmap import ACCESS_READ, ALLOCATIONGRANULARITY, mmap
from typing import BinaryIO, NamedTuple

import msgspec

from memtally._files import open_regular
from memtally.ledger.ids import SIZE, Run, inserted, merged, pack_id
from memtally.ledger.layout import within
from memtally.ledger.reader import OpenLogs
from memtally.report.state import SurveyState, state_of, survey_from
from memtally.report.survey import Piece, Survey
from memtally.report.tally import Tally

__all__ = ["Checkpoint", "load", "save"]

VERSION = 1
_MAGIC = b"memtally"
_PREFIX = 56
_MOST_BYTES = 256 * 1_048_576
"""Of what is read into memory: somebody else may have put the file there."""
_PAGES, _PAGE = 64, 4_096
"""How many places of a file are looked at, and how much of each."""


class _Mark(NamedTuple):
    """A file as far as it was counted."""

    device: int
    inode: int
    size: int
    fingerprint: bytes


class _Header(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: int
    marks: list[_Mark]
    aliases: dict[tuple[str, str], tuple[str, str]]
    most: bytes
    state: SurveyState


class Checkpoint:
    """One that holds for the logs and settings it was loaded for.

    ``survey`` is without pieces, loose ids and named sessions: these are looked up where they lie, in
    ``pieces()``, ``ids`` and ``sessions``. ``most``: the greatest version 7 id. ``counted``: up to where
    each of the logs' files was counted.
    """

    def __init__(
        self, stream: BinaryIO, header: _Header, sizes: list[int], checksum: bytes, counted: list[int]
    ) -> None:
        _, pieces, ids, sessions = sizes
        self.survey = header.state
        self.most = header.most
        self.counted = counted
        self._numbers = [mark[:2] for mark in header.marks]
        self._pieces = (_PREFIX + sizes[0], pieces, checksum)
        at = _aligned(_PREFIX + sizes[0] + pieces)
        self.ids = _mapped(stream, at, ids)
        self.sessions = _mapped(stream, _aligned(at + ids), sessions)
        self._stream = stream

    def pieces(self, logs: OpenLogs) -> list[Piece]:
        """The pieces that were counted, by the numbers that the files have now."""
        at, size, checksum = self._pieces
        self._stream.seek(at)
        kept = msgspec.msgpack.decode(_checked(self._stream.read(size), checksum), type=list[Piece])
        numbers = {identity: number for number, identity in enumerate(logs.identities)}
        return [piece._replace(file=numbers[self._numbers[piece.file]]) for piece in kept]

    def close(self) -> None:
        """Let the file go."""
        for run in (self.ids, self.sessions):
            if isinstance(run, mmap):
                run.close()
        self._stream.close()


def load(path: str, logs: OpenLogs, settings: Tally) -> Checkpoint | None:
    """The checkpoint at that path, if there is one that holds; ``settings``: an empty tally."""
    try:
        stream = open(open_regular(path), "rb")  # noqa: SIM115 - closed by the checkpoint
    except OSError:
        return None
    try:
        prefix = stream.read(_PREFIX)
        sizes = [int.from_bytes(prefix[at : at + 8], "little") for at in range(8, 40, 8)]
        sums = prefix[40:48], prefix[48:56]
        size = os.fstat(stream.fileno()).st_size
        if prefix[:8] == _MAGIC and sum(sizes) <= size and max(sizes[:2]) <= _MOST_BYTES:
            header = msgspec.msgpack.decode(_checked(stream.read(sizes[0]), sums[0]), type=_Header)
            counted = _counted(header.marks, logs)
            if counted is not None and _is_of(header, settings):
                return Checkpoint(stream, header, sizes, sums[1], counted)
    except (OSError, ValueError, msgspec.MsgspecError):
        pass  # damaged, or of another version
    stream.close()
    return None


def _is_of(header: _Header, settings: Tally) -> bool:
    state, horizon = header.state, settings.horizon
    for span in (*state.counted.values(), *(cell.span for cell in state.cells.values())):
        for stamp in filter(None, (span.first, span.last)):
            datetime.fromisoformat(stamp)  # raises, were it none
    return (
        header.version == VERSION
        and header.aliases == dict(settings.aliases)
        and max((span.last for span in state.counted.values()), default="") <= horizon
        and (not state.skewed_from or horizon < state.skewed_from)
    )


def _counted(marks: list[_Mark], logs: OpenLogs) -> list[int] | None:
    """Up to where each of the files was counted; ``None`` where one is not what it was."""
    known = {mark[:2]: mark for mark in marks}
    counted = [0] * len(logs)
    for number, (identity, (_, size)) in enumerate(zip(logs.identities, logs.files, strict=True)):
        mark = known.pop(identity, None)
        if mark is None:
            continue
        if mark.size > size or _fingerprint(logs, number, mark.size) != mark.fingerprint:
            return None
        # behind a line without an end, what comes next would belong to it
        if 0 < mark.size < size and logs.bytes_of(number, [(mark.size - 1, 1)]) != [b"\n"]:
            return None
        counted[number] = mark.size
    return None if known else counted


def _fingerprint(logs: OpenLogs, number: int, size: int) -> bytes:
    """A hash of some of the first bytes of a file: its beginning, its end, and places in between."""
    step = max(_PAGE, size // (_PAGES - 1))
    places = [(at, min(_PAGE, size - at)) for at in range(0, size, step)]
    places.append((max(0, size - _PAGE), min(_PAGE, size)))
    return blake2b(b"".join(logs.bytes_of(number, places)), digest_size=SIZE).digest()


def save(path: str, root: str, logs: OpenLogs, survey: Survey, before: Checkpoint | None) -> None:
    """Keep what was counted of all logs, ``before`` and now; silently not where it cannot be written."""
    directory = os.path.dirname(path)
    temporary = f"{path}.{os.urandom(4).hex()}.tmp"
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        if not within(directory, root):
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with open(os.open(temporary, flags, 0o600), "wb") as stream:
            _write(stream, logs, survey, before)
            stream.flush()
            os.fsync(stream.fileno())  # whole or not at all, also after a power loss
        os.replace(temporary, path)
    except OSError:
        try:
            os.unlink(temporary)
        except OSError:
            pass


def _write(stream: BinaryIO, logs: OpenLogs, survey: Survey, before: Checkpoint | None) -> None:
    pieces = (before.pieces(logs) if before else []) + survey.pieces
    sessions = [b"".join(sorted(map(pack_id, survey.tally.sessions)))]
    most = max((piece.most for piece in survey.pieces), default=b"")
    header = msgspec.msgpack.encode(
        _Header(
            VERSION,
            [
                _Mark(*identity, size, _fingerprint(logs, number, size))
                for number, (identity, (_, size)) in enumerate(zip(logs.identities, logs.files, strict=True))
            ],
            dict(survey.tally.aliases),
            max(most, before.most) if before else most,
            _bare(survey),
        )
    )
    stream.write(bytes(_PREFIX))
    stream.write(header)
    listed = msgspec.msgpack.encode(pieces)
    sizes = [len(header), stream.write(listed)]
    for runs, known in ((survey.runs, before and before.ids), (sessions, before and before.sessions)):
        stream.write(bytes(_aligned(stream.tell()) - stream.tell()))
        sizes.append(sum(map(stream.write, inserted(known, runs) if known else merged(runs))))
    stream.seek(0)
    stream.write(_MAGIC + b"".join(size.to_bytes(8, "little") for size in sizes))
    stream.write(_checksum(header) + _checksum(listed))


def _checksum(data: bytes) -> bytes:
    return blake2b(data, digest_size=8).digest()


def _checked(data: bytes, checksum: bytes) -> bytes:
    if _checksum(data) != checksum:
        raise ValueError("damaged")
    return data


def _bare(survey: Survey) -> SurveyState:
    """The state without what lies beside it."""
    state = state_of(survey)
    return msgspec.structs.replace(
        state,
        sessions=set(),
        sessions_before=state.sessions_before + len(state.sessions),
        pieces=[],
        runs=[],
    )


def _aligned(at: int) -> int:
    return -(-at // ALLOCATIONGRANULARITY) * ALLOCATIONGRANULARITY


def _mapped(stream: BinaryIO, at: int, size: int) -> Run:
    return mmap(stream.fileno(), size, access=ACCESS_READ, offset=at) if size else b""


def restored(checkpoint: Checkpoint, settings: Tally) -> Survey:
    """The survey that a checkpoint keeps, without pieces, loose ids and named sessions."""
    return survey_from(checkpoint.survey, settings)
