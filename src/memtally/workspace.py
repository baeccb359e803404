"""Which folder is the workspace.

Discovery: an explicit folder, else ``MEMTALLY_WORKSPACE``, else the nearest ancestor with
``.memtally/``, else the git root, else the current folder. A folder in a linked git worktree is first
taken to the same folder of the main worktree, so that the log outlives the worktree.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from memtally._files import read_small
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
    named = explicit if explicit is not None else os.environ.get("MEMTALLY_WORKSPACE") or None
    if named is not None:
        found_by = "argument" if explicit is not None else "MEMTALLY_WORKSPACE"
        try:
            folder = Path(os.path.realpath(os.path.expanduser(named))) if os.fspath(named) else None
            usable = folder is not None and folder.is_dir()
        except (OSError, ValueError):
            usable = False
        if folder is None or not usable:
            raise WorkspaceError(
                f"workspace {os.fspath(named)!r:.200} ({found_by}): no such folder; create it or name another"
            )
        return Workspace(_to_main_worktree(folder), found_by)
    try:
        start = Path(os.path.realpath(os.getcwd()))
    except FileNotFoundError:
        raise WorkspaceError(
            "the current folder has been removed; change to the workspace or name it"
        ) from None
    start = _to_main_worktree(start)
    while not start.is_dir():  # a folder that only the linked worktree has belongs to those above it
        start = start.parent
    for folder in (start, *start.parents):
        if (folder / DIRECTORY).is_dir() and _is_ours(folder / DIRECTORY, start):
            return Workspace(folder, f"{DIRECTORY}/ found")
    for folder in (start, *start.parents):
        if (folder / ".git").exists():
            return Workspace(folder, "git root")
    return Workspace(start, "current folder")


def _is_ours(directory: Path, start: Path) -> bool:
    """Whether a folder that was merely found belongs to us, to root, or to the owner of where we stand.

    Anybody may put one above the folders of others, in ``/tmp`` for example, and read what they log there.
    """
    if not hasattr(os, "geteuid"):  # pragma: no cover - Windows
        return True
    return directory.stat().st_uid in (os.geteuid(), 0, start.stat().st_uid)


def _to_main_worktree(folder: Path) -> Path:
    """The same folder in the main worktree, for a folder in a linked one; any other folder as it is."""
    for top in (folder, *folder.parents):
        marker = top / ".git"
        if marker.is_dir():
            return folder
        if marker.is_file():
            main = _main_worktree(marker)
            return folder if main is None else main / folder.relative_to(top)
    return folder


def _main_worktree(marker: Path) -> Path | None:
    """The main worktree that a linked worktree's ``.git`` file leads to; ``None`` where there is none.

    A submodule's ``.git`` file leads to no other worktree, and a bare repository has none. The repository
    must know of this worktree, or an unpacked archive could send the log anywhere.
    """
    try:
        git_dir = marker.parent / _git_text(marker).strip().removeprefix("gitdir:").strip()
        common = Path(os.path.realpath(git_dir / _git_text(git_dir / "commondir").strip()))
        back = git_dir / _git_text(git_dir / "gitdir").strip()
        if not os.path.samefile(back, marker) or Path(os.path.realpath(git_dir)).parent.parent != common:
            return None
        settings = _core_settings(_git_text(common / "config"))
    except (OSError, ValueError):
        return None
    if settings.get("bare", "").lower() == "true":
        return None
    if "worktree" in settings:
        return Path(os.path.realpath(common / settings["worktree"]))
    return common.parent if common.name == ".git" else None


def _git_text(path: Path) -> str:
    return read_small(path, 65_536).decode("utf-8", "replace")


def _core_settings(text: str) -> dict[str, str]:
    """The settings under ``[core]`` of a git configuration file, as far as plain ones go."""
    found: dict[str, str] = {}
    inside = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            inside = line.lower() == "[core]"
        elif inside and "=" in line:
            name, _, value = line.partition("=")
            found[name.strip().lower()] = value.strip()
    return found
