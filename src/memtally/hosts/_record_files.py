"""Which record a file is that a host has read: by the workspace's globs, and where its host looks too."""

from __future__ import annotations

import os
import re

from memtally._discovery import to_main_worktree
from memtally._globs import fixed_prefix, glob_regex, record_name, slug_of
from memtally._presets import ELSEWHERE, PRESETS
from memtally.config import Config

__all__ = ["FoundRecord", "RecordFiles"]


class FoundRecord:
    """A file that is a record. ``path`` is where to measure it; ``None`` where a link leads out."""

    __slots__ = ("kind", "path", "slug")

    def __init__(self, kind: str, slug: str, path: str | None) -> None:
        self.kind = kind
        self.slug = slug
        self.path = path


class RecordFiles:
    """The files that are records in one workspace, by its globs and its user's.

    ``root``: the workspace; ``home``: the user's home folder, of which ``config_folder`` is ``.claude`` where
    it lies elsewhere. ``preset``: that of the host, for a workspace that names no records.
    ``here=False``: the paths are those of another machine, and nothing is looked up on this one's disk.
    """

    def __init__(
        self,
        root: str,
        home: str | None,
        config: Config,
        preset: str,
        *,
        config_folder: str | None = None,
        here: bool = True,
    ) -> None:
        self.root = root
        self.home = home
        self._config_folder = config_folder
        self._here = here
        own = config.records is not None and config.preset != preset
        found = dict(config.records or PRESETS.get(preset, {}))
        self._globs: list[tuple[str, str]] = [(kind, glob) for kind, globs in found.items() for glob in globs]
        if not own:
            extra = ELSEWHERE.get(preset, {})
            stated = config.stated_kinds
            self._globs += [(k, glob) for k, globs in extra.items() if k not in stated for glob in globs]

    def find(self, path: str) -> FoundRecord | None:
        """The record that a file is, or ``None``. ``path`` is absolute, or it is nothing of this machine."""
        if not _is_absolute(path):
            return None
        path = os.path.normpath(path) if self._here else path
        names = [path]
        if self._here:
            folder, name = os.path.split(path)
            names += [os.path.join(os.path.realpath(folder), name), os.path.realpath(path)]
        for candidate in dict.fromkeys(names):
            for user_level, relative in self._places(candidate):
                found = self._match(user_level, relative, path)
                if found is not None:
                    return found
        return None

    def relative(self, path: str) -> str:
        """The path as instructions are called: below the workspace, below home (``~/``), or as it is."""
        candidates = [path]
        if self._here:
            candidates.append(os.path.realpath(path))
        for candidate in candidates:
            for user_level, relative in self._places(candidate, nested=True):
                return f"~/{relative}" if user_level else relative
        return path

    def _places(self, path: str, *, nested: bool = False) -> list[tuple[bool, str]]:
        """Whether a path is a user-level one, and its name below the root or the home folder.

        A repository inside the workspace is a workspace of its own, unless ``nested``.
        """
        found = []
        if self._here:
            folder, name = os.path.split(path)
            path_here = os.path.join(to_main_worktree(folder), name)
        else:
            path_here = path
        inside = _below(path_here, self.root)
        if inside is not None and (nested or not self._in_another_repository(path_here)):
            found.append((False, inside))
        if self._config_folder is not None and (below := _below(path, self._config_folder)) is not None:
            found.append((True, f".claude/{below}"))
        if self.home is not None and (below := _below(path, self.home)) is not None:
            found.append((True, below))
        return found

    def _in_another_repository(self, path: str) -> bool:
        above = os.path.dirname(path)
        while self._here and len(above) > len(self.root):
            if os.path.exists(os.path.join(above, ".git")):
                return True
            above = os.path.dirname(above)
        return False

    def _match(self, user_level: bool, relative: str, path: str) -> FoundRecord | None:
        for kind, glob in self._globs:
            if glob.startswith("~/") is not user_level:
                continue
            pattern = glob.removeprefix("~/").replace("{project}", "*")
            if not relative.startswith(fixed_prefix(pattern)):
                continue  # most patterns are passed over without being compiled
            if not re.fullmatch(glob_regex(pattern), relative):
                continue
            real, measured = self._real(user_level, path) if self._here else (relative, None)
            name = record_name(relative, real, pattern)
            return FoundRecord(kind, slug_of(kind, name, pattern, user_level=user_level), measured)
        return None

    def _real(self, user_level: bool, path: str) -> tuple[str | None, str | None]:
        """The name below its root of what a path leads to, and where to measure it.

        Not where a link leads out of the workspace, which may come from anywhere; the user's own links are
        followed.
        """
        real = os.path.realpath(path)
        for level, relative in self._places(real):
            if level is user_level:
                return relative, real
        return None, path if user_level else None


def _below(path: str, folder: str) -> str | None:
    """The path relative to a folder, with ``/`` between its names; ``None`` for what does not lie in it."""
    if not path.startswith(folder):
        return None
    rest = path[len(folder) :].replace("\\", "/") if "\\" in folder else path[len(folder) :]
    if os.sep != "/":
        rest = rest.replace(os.sep, "/")
    if not folder.endswith(("/", "\\")):
        if not rest.startswith("/"):
            return None
        rest = rest[1:]
    return rest or None


def _is_absolute(path: str) -> bool:
    """Whether a path is absolute here, or on the machine that it comes from."""
    return path.startswith("/") or re.match(r"[A-Za-z]:[\\/]", path) is not None
