"""Backfill: what past sessions show, into a segment of its own; what is in the log already is left out.

An import that is repeated adds nothing, and one that was a mistake is undone by removing its segment.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from memtally._discovery import root_of
from memtally.config import Config
from memtally.errors import MemtallyError
from memtally.events import EXPOSURE, USE, UsageEvent, encode_event
from memtally.hosts import claude_transcripts, codex_rollouts, yoi
from memtally.hosts._imported import ExactCounts, Imported, ReadingCounts, Resolve
from memtally.hosts._place import Place
from memtally.hosts._record_files import RecordFiles
from memtally.hosts._sizes import chosen_tokenizer
from memtally.hosts.hooking import config_folder_of
from memtally.ledger.decode import decode_line
from memtally.ledger.layout import segments
from memtally.ledger.locking import lock, unlock
from memtally.ledger.reader import OpenLogs, iter_lines, open_segments
from memtally.ledger.writer import LogWriter
from memtally.workspace import Workspace

__all__ = ["Backfill", "ImportResult", "Sessions", "history_files"]

_BATCH = 20_000
_APPEND_BYTES = 1_048_576
_HOMES = re.compile(r"(/home/[^/]+|/Users/[^/]+|/root|[A-Za-z]:\\Users\\[^\\]+)(?=[/\\]|$)")
_READERS = {
    "claude-code": claude_transcripts.occurrences,
    "codex": codex_rollouts.occurrences,
    "yoi": yoi.occurrences,
}


@dataclass(slots=True)
class ImportResult:
    """What an import has done, or would do: numbers of events, and what its reading met.

    ``known``: were in the log already. ``live``: left out, since a live hook has recorded that session.
    ``too_early``: before ``--since``.
    """

    reading: ReadingCounts = field(default_factory=ReadingCounts)
    uses: int = 0
    exposures: int = 0
    known: int = 0
    live: int = 0
    too_early: int = 0


def history_files(host: str, paths: Iterable[str]) -> list[str]:
    """The files of a host's history, oldest first: those named, or all of the user's.

    Raises ``MemtallyError`` for a path that is not there.
    """
    named = list(paths)
    if not named:
        folder = config_folder_of(host, os.path.expanduser("~"))
        named = [os.path.join(folder, {"claude-code": "projects", "codex": "sessions"}[host])]
        if not os.path.isdir(named[0]):
            return []
    found: dict[str, float] = {}
    for path in named:
        if not os.path.exists(path):
            raise MemtallyError(f"{path}: no such file; name a transcript, or a folder of them")
        if not os.path.isdir(path):
            found[path] = os.path.getmtime(path)
            continue
        for above, _, names in os.walk(path):
            for name in names:
                file = os.path.join(above, name)
                if name.endswith(".jsonl") and os.path.isfile(file):
                    found[file] = os.path.getmtime(file)
    return sorted(found, key=lambda file: (found[file], file))


class Sessions:
    """Which workspace a past session belongs to, by the folder that it began in.

    ``whole``: take sessions of other workspaces and machines too, since their files were named.
    """

    def __init__(self, host: str, workspace: Workspace, config: Config, *, whole: bool) -> None:
        self._host = host
        self._root = str(workspace.root)
        self._config = config
        self._whole = whole
        self._home = os.path.expanduser("~")
        self._count_all = ExactCounts(chosen_tokenizer())
        self._places: dict[str, Place | None] = {}

    def resolve(self, folder: str) -> Place | None:
        """The place of a session that began in a folder; ``None`` where it is not to be imported."""
        if folder not in self._places:
            self._places[folder] = self._resolve(folder)
        return self._places[folder]

    def _resolve(self, folder: str) -> Place | None:
        here = os.path.isabs(folder) and (os.path.isdir(folder) or self._below_root(folder))
        root = root_of(folder)[0] if here else folder
        if root == self._root:
            return self._place(root, self._home, here=True, folder=folder)
        if not self._whole or not folder:
            return None
        home = _HOMES.match(folder)
        return self._place(root, self._home if here else home[1] if home else None, here=here, folder=folder)

    def _below_root(self, folder: str) -> bool:
        """Whether a folder that is there no longer was one of the workspace."""
        return f"{os.path.normpath(folder)}/".startswith(f"{self._root}/")

    def _place(self, root: str, home: str | None, *, here: bool, folder: str) -> Place:
        config_folder = config_folder_of(self._host, self._home)
        files = RecordFiles(
            root, home, self._config, "claude-code", config_folder=config_folder if here else None, here=here
        )
        return Place(
            self._host, root, home or "", config_folder, self._config, files, self._count_all, folder
        )


class Backfill:
    """One import of a host's history into a workspace. ``since``: microseconds since the epoch."""

    def __init__(
        self, host: str, workspace: Workspace, *, since: int | None = None, dry_run: bool = False
    ) -> None:
        self.host = host
        self.workspace = workspace
        self.since = since
        self.dry_run = dry_run
        self.result = ImportResult()
        self._live: set[tuple[str, str]] | None = None
        self._batch: dict[str, UsageEvent] = {}
        self._counted: set[bytes] = set()  # of a dry run, where the log does not remember them
        path = str(workspace.directory / f"usage-import-{host}.jsonl")
        self._writer = LogWriter(path, root=str(workspace.root), seal_bytes=0)

    def read(self, files: Iterable[str], resolve: Resolve, progress: Callable[[int], None]) -> None:
        """Import these files. ``progress`` is told how many bytes of them were read since the last time.

        Raises ``MemtallyError`` where another import goes on, or the log cannot be written.
        """
        with self._alone():
            for file in files:
                if self.since is not None and os.path.getmtime(file) * 1e6 < self.since:
                    progress(os.path.getsize(file))
                    continue
                self.result.reading.files += 1
                for found in _READERS[self.host](_lines(file, progress), resolve, self.result.reading):
                    self.take(found)
            self.finish()

    def take(self, found: Imported) -> None:
        """Import one event, unless it is in the log, or a live hook has recorded its like."""
        event = found.event
        if self.since is not None and (event.occurred_at is None or event.occurred_at < self.since):
            self.result.too_early += 1
        elif not found.common and not self._recorded_live().isdisjoint(found.routes):
            self.result.live += 1
        else:
            before = self._batch.get(event.id)
            if before is not None:  # a resumed session repeats it under a later time
                self.result.known += 1
            if before is None or (event.occurred_at or 0) < (before.occurred_at or 0):
                self._batch[event.id] = event
            if len(self._batch) >= _BATCH:
                self.finish()

    def finish(self) -> None:
        """Write what was taken so far. Raises ``MemtallyError`` where the log cannot be written."""
        if not self._batch:
            return
        known = self._known_ids()
        new = [event for event in self._batch.values() if event.id not in known]
        self.result.known += len(self._batch) - len(new)
        self._batch.clear()
        for event in new:
            self.result.uses += event.event == USE
            self.result.exposures += event.event == EXPOSURE
        if self.dry_run:
            self._counted.update(bytes.fromhex(event.id.replace("-", "")) for event in new)
            return
        for lines in _chunks([encode_event(event) for event in new]):
            if not self._writer.append(lines):
                raise MemtallyError(f"{self._writer.path}: cannot be written; see memtally status")

    def _known_ids(self) -> set[str]:
        """Those of the batch's ids that the log holds."""
        found = {
            event_id for event_id in self._batch if bytes.fromhex(event_id.replace("-", "")) in self._counted
        }
        with self._open() as logs:
            for number in range(len(logs)):
                for _, line in logs.lines(number):
                    named = line[7:43] if line.startswith(b'{"id":"') and line[43:44] == b'"' else None
                    if named is not None and named.decode("ascii", "replace") not in self._batch:
                        continue  # as most are; a torn line may have its id all the same, and no event
                    found.update(event.id for event in decode_line(line)[0] if event.id in self._batch)
        return found

    def _recorded_live(self) -> set[tuple[str, str]]:
        """The sessions of the host of which a hook has recorded anything, by what it was."""
        if self._live is None:
            self._live = set()
            mark = f'"host":"{self.host}"'.encode()
            with self._open() as logs:
                for number, (path, _) in enumerate(logs.files):
                    if os.path.basename(path).startswith("usage-import-"):
                        continue
                    for _, line in logs.lines(number):
                        if mark in line:
                            events = decode_line(line)[0]
                            for event in events:
                                self._live.update(Imported(event, common=False).routes)
        return self._live

    def _open(self) -> OpenLogs:
        directory = str(self.workspace.directory)
        return open_segments(lambda: segments(directory))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One import of a host at a time: two would both find an event missing, and both write it."""
        if self.dry_run:
            yield
            return
        self.workspace.ensure_directory()
        cache = self.workspace.directory / "cache"
        cache.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(cache / f"import-{self.host}-lock", flags, 0o600)
        try:
            if not lock(descriptor, time.monotonic()):
                raise MemtallyError(f"another import of {self.host} goes on here; wait for its end")
            try:
                yield
            finally:
                unlock(descriptor)
        finally:
            os.close(descriptor)


def _lines(path: str, progress: Callable[[int], None]) -> Iterator[bytes]:
    try:
        with open(path, "rb", buffering=0) as stream:
            told = 0
            for offset, line in iter_lines(stream):
                if offset - told > 262_144:
                    progress(offset - told)
                    told = offset
                yield line
            progress(max(0, stream.tell() - told))
    except OSError as error:
        raise MemtallyError(f"{path}: cannot be read ({error.strerror}); check its mode") from None


def _chunks(lines: list[bytes]) -> Iterator[bytes]:
    chunk: list[bytes] = []
    size = 0
    for line in lines:
        chunk.append(line)
        size += len(line)
        if size >= _APPEND_BYTES:
            yield b"".join(chunk)
            chunk, size = [], 0
    if chunk:
        yield b"".join(chunk)
