"""Which folder is the workspace.

Discovery: an explicit folder, else ``MEMTALLY_WORKSPACE``, else the nearest ancestor with
``.memtally/``, else the git root, else the current folder. A folder in a linked git worktree is first
taken to the same folder of the main worktree, so that the log outlives the worktree.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from memtally._discovery import find_root
from memtally.config import Config, load_config, write_config
from memtally.errors import ConfigError, WorkspaceError
from memtally.ledger.layout import DIRECTORY, LOG_FILE, ensure_directory, segments, within

__all__ = ["CONFIG_FILE", "Workspace", "find_workspace"]

CONFIG_FILE = "config.toml"


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace folder: ``root`` is absolute, ``found_by`` says by which rule it was chosen."""

    root: Path
    found_by: str

    @property
    def directory(self) -> Path:
        """The ``.memtally`` folder."""
        return self.root / DIRECTORY

    @property
    def log_path(self) -> Path:
        """The live log."""
        return self.directory / LOG_FILE

    @property
    def config_path(self) -> Path:
        """The configuration file."""
        return self.directory / CONFIG_FILE

    @property
    def checkpoint_path(self) -> Path:
        """What the last report has counted; it may be removed at any time."""
        return self.directory / "cache" / "report"

    def logs(self) -> list[str]:
        """The files of the usage log, sealed and imported segments included."""
        return segments(str(self.directory))

    def config(self) -> Config:
        """The configuration. Raises ``ConfigError`` naming the file, the key and what to do."""
        return load_config(self.config_path)

    def config_if_readable(self) -> Config:
        """The same, and the empty one where it cannot be read: what root has left behind stops no host."""
        try:
            return self.config()
        except ConfigError as error:
            if error.unreadable:
                return Config()
            raise

    def ensure(self) -> Config:
        """Create ``.memtally/`` and a configuration with an id where they are missing; the configuration.

        Raises ``OSError`` when that is impossible, ``WorkspaceError`` for a folder that leads out of the
        workspace, ``ConfigError`` for a file that is there but wrong.
        """
        self.ensure_directory()
        if not self.config_path.exists():
            write_config(self.config_path, None)
        return self.config()

    def ensure_directory(self) -> None:
        """Create ``.memtally/`` where it is missing; refuse one that a link leads out of the workspace."""
        if not within(str(self.directory), str(self.root)):
            raise WorkspaceError(
                f"{self.directory}: leads out of the workspace; replace the link by a folder"
            )
        self.root.mkdir(parents=True, exist_ok=True)  # a folder that only the linked worktree has so far
        ensure_directory(str(self.directory))


def find_workspace(explicit: str | os.PathLike[str] | None = None) -> Workspace:
    """The workspace by the rules of this module. Raises ``WorkspaceError`` for a folder that is none."""
    root, found_by = find_root(explicit)
    return Workspace(Path(root), found_by)
