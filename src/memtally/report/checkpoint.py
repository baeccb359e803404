"""What a report has counted, kept in ``.memtally/cache/`` so that the next one counts only what is new.

It may be deleted at any time, and is disregarded at any doubt: unless each file that was counted is still
there (by device and inode: a sealed one has another name), no shorter, and with the same bytes wherever it
is looked at, and the report wants what was counted: the same aliases, and a time at which the same events
lie in the future.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from hashlib import blake2b
from mmap import ACCESS_READ, ALLOCATIONGRANULARITY, mmap
from typing import BinaryIO, NamedTuple
from zlib import crc32

import msgspec

from memtally._files import open_regular
from memtally._version import __version__
from memtally.ledger.ids import SIZE, Run, inserted, merged, pack_id
from memtally.ledger.layout import within
from memtally.ledger.reader import OpenLogs
from memtally.report.state import SurveyState, state_of
from memtally.report.survey import Piece, Survey
from memtally.report.tally import Tally

__all__ = ["Checkpoint", "load", "save"]

VERSION = 1
_MAGIC = b"memtally"
_SECTIONS = 4
_PREFIX = 8 + _SECTIONS * 16
_MOST_BYTES = 256 * 1_048_576
"""Of what is read into memory: somebody else may have put the file there."""
_PAGES, _PAGE = 64, 4_096
"""How many places of a file are looked at, and how much of each."""
_STAMP_LENGTH = 27


class _Mark(NamedTuple):
    """A file as far as it was counted; none is empty."""

    device: int
    inode: int
    size: int
    fingerprint: bytes


class _Header(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: int
    memtally: str
    marks: list[_Mark]
    aliases: dict[tuple[str, str], tuple[str, str]]
    most: bytes
    state: SurveyState


class Checkpoint:
    """One that holds for the logs and settings it was loaded for.

    ``survey`` is without pieces, loose ids and named sessions: these are looked up where they lie, in
    ``pieces()``, ``ids`` and ``sessions``. ``most``: the greatest version 7 id. ``counted``: up to where
    each of the logs' files was counted. Asking for what is damaged raises ``ValueError``.
    """

    def __init__(
        self, stream: BinaryIO, header: _Header, sections: list[_Section], counted: list[int]
    ) -> None:
        self.survey = header.state
        self.most = header.most
        self.counted = counted
        self._marks = header.marks
        self._stream = stream
        self._sections = sections
        self._open: dict[int, Run] = {}

    @property
    def ids(self) -> Run:
        """The loose ids, sorted."""
        return self._run(2)

    @property
    def sessions(self) -> Run:
        """The sessions' names, packed and sorted."""
        return self._run(3)

    def _run(self, number: int) -> Run:
        if number not in self._open:
            at, size, checksum = self._sections[number]
            run = mmap(self._stream.fileno(), size, access=ACCESS_READ, offset=at) if size else b""
            self._open[number] = run
            if crc32(run) != checksum:
                raise ValueError("damaged")
        return self._open[number]

    def pieces(self, logs: OpenLogs) -> list[Piece]:
        """The pieces that were counted, by the numbers that the files have now."""
        kept = msgspec.msgpack.decode(_read(self._stream, self._sections[1]), type=list[Piece])
        numbers = {identity: number for number, identity in enumerate(logs.identities)}
        for piece in kept:
            if not (0 <= piece.file < len(self._marks) and piece.start >= 0 and piece.size >= 0):
                raise ValueError("no such piece")
        return [piece._replace(file=numbers[self._marks[piece.file][:2]]) for piece in kept]

    def close(self) -> None:
        """Let the file go."""
        for run in self._open.values():
            if isinstance(run, mmap):
                run.close()
        self._stream.close()


_Section = tuple[int, int, int]
"""Where it begins, its size, its checksum."""


def load(path: str, logs: OpenLogs, settings: Tally) -> Checkpoint | None:
    """The checkpoint at that path, if there is one that holds; ``settings``: an empty tally."""
    try:
        stream = open(open_regular(path), "rb")  # noqa: SIM115 - closed by the checkpoint
    except OSError:
        return None
    try:
        sections = _sections(stream)
        if sections and _is_ours(stream):
            header = msgspec.msgpack.decode(_read(stream, sections[0]), type=_Header)
            counted = _counted(header.marks, logs)
            if counted is not None and _is_of(header, settings):
                return Checkpoint(stream, header, sections, counted)
    except (OSError, ValueError, msgspec.MsgspecError):
        pass  # damaged, or of another version
    stream.close()
    return None


def _sections(stream: BinaryIO) -> list[_Section]:
    prefix = stream.read(_PREFIX)
    if prefix[:8] != _MAGIC or len(prefix) < _PREFIX:
        return []
    numbers = [int.from_bytes(prefix[at : at + 8], "little") for at in range(8, _PREFIX, 8)]
    sizes, checksums = numbers[:_SECTIONS], numbers[_SECTIONS:]
    at, sections = _PREFIX, []
    for number, (size, checksum) in enumerate(zip(sizes, checksums, strict=True)):
        at = _aligned(at) if number > 1 else at
        sections.append((at, size, checksum))
        at += size
    whole = at <= os.fstat(stream.fileno()).st_size or not any(sizes[2:])
    return sections if whole and max(sizes[:2]) <= _MOST_BYTES else []


def _is_ours(stream: BinaryIO) -> bool:
    """Whether nobody else can have written it: what it says is believed."""
    if not hasattr(os, "geteuid"):  # pragma: no cover - Windows
        return True
    status = os.fstat(stream.fileno())
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _is_of(header: _Header, settings: Tally) -> bool:
    state, horizon = header.state, settings.horizon
    spans = [*state.counted.values(), *(cell.span for cell in state.cells.values())]
    for stamp in {*(span.first for span in spans), *(span.last for span in spans), ""} - {""}:
        if len(stamp) != _STAMP_LENGTH or not stamp.endswith("Z"):
            return False
        datetime.fromisoformat(stamp)  # raises, were it none
    return (
        (header.version, header.memtally) == (VERSION, __version__)
        and min((span.events for span in spans), default=0) >= 0
        and not (state.pieces or state.runs or state.sessions)
        and header.aliases == dict(settings.aliases)
        and max((span.last for span in state.counted.values()), default="") <= horizon
        and (not state.skewed_from or horizon < state.skewed_from)
    )


def _counted(marks: list[_Mark], logs: OpenLogs) -> list[int] | None:
    """Up to where each of the files was counted; ``None`` where one is not what it was."""
    if not marks or min(mark.size for mark in marks) <= 0:
        return None  # nothing would bind it to these files
    known = {mark[:2]: mark for mark in marks}
    counted = [0] * len(logs)
    for number, (identity, (_, size)) in enumerate(zip(logs.identities, logs.files, strict=True)):
        mark = known.pop(identity, None)
        if mark is None:
            continue
        if mark.size > size or _fingerprint(logs, number, mark.size) != mark.fingerprint:
            return None
        # behind a line without an end, what comes next would belong to it
        if mark.size < size and logs.bytes_of(number, [(mark.size - 1, 1)]) != [b"\n"]:
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
        listed = _listed(logs, survey, before)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        if not within(directory, root):
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        descriptor = os.open(temporary, flags, 0o600)
    except (OSError, ValueError, OverflowError, msgspec.MsgspecError):
        return  # also figures beyond what can be written down
    try:
        with open(descriptor, "wb") as stream:
            _write(stream, listed, survey, before)
            stream.flush()
            os.fsync(stream.fileno())  # whole or not at all, also after a power loss
        os.replace(temporary, path)
    except OSError:
        pass
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def _listed(logs: OpenLogs, survey: Survey, before: Checkpoint | None) -> tuple[bytes, bytes]:
    """The two sections that are read into memory: the header, and the pieces."""
    pieces = (before.pieces(logs) if before else []) + survey.pieces
    files = [number for number, (_, size) in enumerate(logs.files) if size]
    places = {number: place for place, number in enumerate(files)}
    most = max((piece.most for piece in survey.pieces), default=b"")
    header = _Header(
        VERSION,
        __version__,
        [_mark(logs, number) for number in files],
        dict(survey.tally.aliases),
        max(most, before.most) if before else most,
        _bare(survey),
    )
    encode = msgspec.msgpack.encode
    return encode(header), encode([piece._replace(file=places[piece.file]) for piece in pieces])


def _mark(logs: OpenLogs, number: int) -> _Mark:
    size = logs.files[number][1]
    return _Mark(*logs.identities[number], size, _fingerprint(logs, number, size))


def _write(stream: BinaryIO, listed: tuple[bytes, bytes], survey: Survey, before: Checkpoint | None) -> None:
    sessions = [b"".join(sorted(map(pack_id, survey.tally.sessions)))]
    stream.write(bytes(_PREFIX) + b"".join(listed))
    sizes, checksums = [len(part) for part in listed], [crc32(part) for part in listed]
    for runs, known in ((survey.runs, before and before.ids), (sessions, before and before.sessions)):
        stream.write(bytes(_aligned(stream.tell()) - stream.tell()))
        size = checksum = 0
        for part in inserted(known, runs) if known else merged(runs):
            size, checksum = size + stream.write(part), crc32(part, checksum)
        sizes.append(size)
        checksums.append(checksum)
    stream.seek(0)
    stream.write(_MAGIC + b"".join(number.to_bytes(8, "little") for number in (*sizes, *checksums)))


def _read(stream: BinaryIO, section: _Section) -> bytes:
    at, size, checksum = section
    stream.seek(at)
    data = stream.read(size)
    if crc32(data) != checksum:
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
