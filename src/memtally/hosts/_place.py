"""Where a host's event happened: the workspace, its configuration, and the user's folder of the host."""

from __future__ import annotations

import os
import time

from memtally.config import Config, load_config
from memtally.errors import ConfigError
from memtally.events import EXPOSURE, USE, UsageEvent, new_event_id
from memtally.hosts._ids import host_event_id, names_one_call
from memtally.hosts._record_files import RecordFiles
from memtally.hosts._sizes import Measured, measure_file, snapshots
from memtally.ledger.layout import DIRECTORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from memtally.hosts._sizes import CountAll

__all__ = ["Place", "ToolRead", "open_place"]


class ToolRead:
    """One record that a call of a tool has read: ``path`` is its file, ``shown`` what the tool's answer holds
    of it, where that is all.
    """

    __slots__ = ("kind", "partial", "path", "shown", "slug", "source")

    def __init__(
        self,
        source: str,
        kind: str,
        slug: str,
        path: str | None = None,
        *,
        shown: bytes | None = None,
        partial: bool = False,
    ) -> None:
        self.source = source
        self.kind = kind
        self.slug = slug
        self.path = path
        self.shown = shown
        self.partial = partial

    def measured(self) -> Measured:
        """The record with its sizes as they are now."""
        if self.shown is not None:
            return Measured(self.kind, self.slug, self.shown, partial=self.partial)
        return measure_file(self.kind, self.slug, self.path, partial=self.partial)


class Place:
    """One workspace as a host's events are looked at in it.

    ``root``: the workspace. ``home``: the user's home folder. ``config_folder``: the host's folder there.
    ``files`` says which file is which record, ``count_all`` estimates tokens. ``here``: the folder that the
    host is in.
    """

    def __init__(
        self,
        host: str,
        root: str,
        home: str,
        config_folder: str,
        config: Config,
        files: RecordFiles,
        count_all: CountAll,
        here: str,
    ) -> None:
        self.host = host
        self.root = root
        self.home = home
        self.config_folder = config_folder
        self.config = config
        self.files = files
        self.count_all = count_all
        self.here = here
        self.measured_files: list[str] = []

    def event(
        self,
        event: str,
        source: str,
        records: Sequence[Measured],
        *,
        own_id: str | None,
        session_id: str | None,
        actor: str = "agent",
        occurred_at: int | None = None,
    ) -> UsageEvent:
        """The event of one operation of the host.

        ``own_id``: the host's own id of it, by which it counts once however often it is met; ``None`` where
        there is none. ``occurred_at``: microseconds since the epoch; now by default.
        """
        self.measured_files += [record.path for record in records if record.path is not None]
        measured, tokenizer = snapshots(records, self.count_all)
        first = measured[0]
        return UsageEvent(
            new_event_id() if own_id is None else host_event_id(self.host, own_id, *first.key),
            time.time_ns() // 1000 if occurred_at is None else occurred_at,
            event,
            source,
            measured,
            session_id=session_id or None,
            actor=actor,
            host=self.host,
            tokenizer=tokenizer,
        )

    def uses(
        self, reads: Sequence[ToolRead], call_id: object, session_id: str, *, actor: str = "agent"
    ) -> list[UsageEvent]:
        """The uses of one call of a tool, by the host's own id of it, if that is one."""
        own = str(call_id) if names_one_call(call_id) else None
        return [
            self.event(USE, read.source, [read.measured()], own_id=own, session_id=session_id, actor=actor)
            for read in reads
        ]

    def exposure(
        self, records: Sequence[Measured], session_id: str | None, *, actor: str = "agent"
    ) -> list[UsageEvent]:
        """The placing of always-on records, in a list; an empty one where there are none."""
        if not records:
            return []
        return [
            self.event(
                EXPOSURE, "ResidentInjection", records, own_id=None, session_id=session_id, actor=actor
            )
        ]


def open_place(host: str, root: str, home: str, config_folder: str, count_all: CountAll, here: str) -> Place:
    """The place of a workspace. A configuration that cannot be read is taken for the empty one.

    Raises ``ConfigError`` for one that is wrong.
    """
    try:
        config = load_config(os.path.join(root, DIRECTORY, "config.toml"), cached=True)
    except ConfigError as error:
        if not error.unreadable:
            raise
        config = Config()
    files = RecordFiles(root, home, config, "claude-code", config_folder=config_folder)
    return Place(host, root, home, config_folder, config, files, count_all, here)
