"""Which folder is the workspace, in plain paths: a hook process asks this on every tool call.

The rules are those of ``memtally.workspace``, which is what all other code uses.
"""

from __future__ import annotations

import os

from memtally._files import read_small
from memtally.errors import WorkspaceError
from memtally.ledger.layout import DIRECTORY

__all__ = ["find_root", "root_of", "to_main_worktree"]


def find_root(explicit: str | os.PathLike[str] | None = None, start: str | None = None) -> tuple[str, str]:
    """The workspace's absolute folder, and by which rule it was found.

    ``start``: where the search begins that no name has settled; the current folder by default. Raises
    ``WorkspaceError`` for a folder that is none.
    """
    named = explicit if explicit is not None else os.environ.get("MEMTALLY_WORKSPACE") or None
    if named is not None:
        found_by = "argument" if explicit is not None else "MEMTALLY_WORKSPACE"
        try:
            folder = os.path.realpath(os.path.expanduser(named)) if os.fspath(named) else None
            usable = folder is not None and os.path.isdir(folder)
        except (OSError, ValueError):
            usable = False
        if folder is None or not usable:
            raise WorkspaceError(
                f"workspace {os.fspath(named)!r:.200} ({found_by}): no such folder; create it or name another"
            )
        return to_main_worktree(folder), found_by
    try:
        here = os.path.realpath(os.getcwd() if start is None else start)
    except FileNotFoundError:
        raise WorkspaceError(
            "the current folder has been removed; change to the workspace or name it"
        ) from None
    return root_of(here)


def root_of(folder: str) -> tuple[str, str]:
    """The workspace that a folder is in, and by which rule; whatever the environment names."""
    here = to_main_worktree(os.path.realpath(folder))
    while not os.path.isdir(here):  # a folder that only the linked worktree has belongs to those above it
        here = os.path.dirname(here)
    for folder in _upwards(here):
        directory = os.path.join(folder, DIRECTORY)
        if os.path.isdir(directory) and _is_ours(directory, here):
            return folder, f"{DIRECTORY}/ found"
    for folder in _upwards(here):
        if os.path.exists(os.path.join(folder, ".git")):
            return folder, "git root"
    return here, "current folder"


def _upwards(folder: str) -> list[str]:
    found = [folder]
    while (above := os.path.dirname(found[-1])) != found[-1]:
        found.append(above)
    return found


def _is_ours(directory: str, start: str) -> bool:
    """Whether a folder that was merely found belongs to us, to root, or to the owner of where we stand.

    Anybody may put one above the folders of others, in ``/tmp`` for example, and read what they log there.
    """
    if not hasattr(os, "geteuid"):  # pragma: no cover - Windows
        return True
    return os.stat(directory).st_uid in (os.geteuid(), 0, os.stat(start).st_uid)


def to_main_worktree(folder: str) -> str:
    """The same folder in the main worktree, for a folder in a linked one; any other folder as it is."""
    for top in _upwards(folder):
        marker = os.path.join(top, ".git")
        if os.path.isdir(marker):
            return folder
        if os.path.isfile(marker):
            main = _main_worktree(marker)
            return (
                folder if main is None else os.path.normpath(os.path.join(main, os.path.relpath(folder, top)))
            )
    return folder


def _main_worktree(marker: str) -> str | None:
    """The main worktree that a linked worktree's ``.git`` file leads to; ``None`` where there is none.

    A submodule's ``.git`` file leads to no other worktree, and a bare repository has none. The repository
    must know of this worktree, or an unpacked archive could send the log anywhere.
    """
    try:
        named = _git_text(marker).strip().removeprefix("gitdir:").strip()
        git_dir = os.path.join(os.path.dirname(marker), named)
        common = os.path.realpath(
            os.path.join(git_dir, _git_text(os.path.join(git_dir, "commondir")).strip())
        )
        back = os.path.join(git_dir, _git_text(os.path.join(git_dir, "gitdir")).strip())
        known_at = os.path.dirname(os.path.dirname(os.path.realpath(git_dir)))
        if not os.path.samefile(back, marker) or known_at != common:
            return None
        settings = _core_settings(_git_text(os.path.join(common, "config")))
    except (OSError, ValueError):
        return None
    if settings.get("bare", "").lower() == "true":
        return None
    if "worktree" in settings:
        return os.path.realpath(os.path.join(common, settings["worktree"]))
    return os.path.dirname(common) if os.path.basename(common) == ".git" else None


def _git_text(path: str) -> str:
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
