"""The records that exist now: found by the globs of the workspace's configuration.

A file is read only as far as its front matter. Symbolic links are the file they resolve to, and one
that leads out of its root is no record.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from memtally._files import open_regular
from memtally._git import ask_git
from memtally._globs import fixed_prefix, glob_regex, record_name, slug_of
from memtally._presets import project_folder
from memtally.config import Config
from memtally.events import well_formed
from memtally.workspace import Workspace

__all__ = ["MAX_FOLDERS", "Inventory", "InventoryRecord", "scan", "slug_of"]

_SKIPPED = {".git", ".memtally", ".venv", "node_modules", "__pycache__", ".tox", ".mypy_cache"}
_HEAD_BYTES = 4_096

MAX_FOLDERS = 20_000
"""Folders looked through below one root: a second or two. A home folder or ``/`` as a workspace has more."""

MAX_FILES = 500_000
"""Files looked at below one root; few links can make many of them."""


@dataclass(frozen=True, slots=True)
class InventoryRecord:
    """One record that exists: where, how large, and whether it is always on (``None``: not known)."""

    kind: str
    slug: str
    path: Path
    file_bytes: int
    resident: bool | None
    age_days: int | None = None
    user_level: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """What identifies the record."""
        return (self.kind, self.slug)


@dataclass(frozen=True, slots=True)
class Inventory:
    """The records found, by ``(kind, slug)``. Not ``complete`` where the workspace holds more folders than
    are looked through: what is not in it may exist all the same.
    """

    records: dict[tuple[str, str], InventoryRecord] = field(default_factory=dict)
    complete: bool = True


def scan(workspace: Workspace, config: Config, *, now: float | None = None) -> Inventory:
    """The workspace's records. ``now``: seconds since the epoch, for ages."""
    if config.records is None:
        return Inventory()
    ages = _first_known(workspace.root)
    found: dict[tuple[str, str], InventoryRecord] = {}
    seen: set[tuple[str, str]] = set()  # (kind, real path): a linked file is one record
    project = project_folder(str(workspace.root))
    roots = {False: _Tree(workspace.root), True: _Tree(Path(os.path.expanduser("~")))}
    for kind, globs in config.records.items():
        for glob in globs:
            user_level = glob.startswith("~/")
            tree, pattern = roots[user_level], glob.removeprefix("~/").replace("{project}", project)
            for relative, real in tree.matches(pattern):
                if (kind, real) in seen:
                    continue
                try:
                    status = os.stat(real)
                except OSError:
                    continue
                if not stat.S_ISREG(status.st_mode):
                    continue
                seen.add((kind, real))
                name = record_name(relative, os.path.relpath(real, tree.root).replace(os.sep, "/"), pattern)
                first = None if user_level else ages.get(relative)
                record = InventoryRecord(
                    kind,
                    slug_of(kind, name, pattern, user_level=user_level),
                    Path(real),
                    status.st_size,
                    _resident(kind, real, config),
                    age_days=None if first is None else max(0, int(((now or time.time()) - first) // 86_400)),
                    user_level=user_level and "{project}" not in glob,
                )
                found.setdefault(record.key, record)
    return Inventory(found, complete=all(tree.complete for tree in roots.values()))


class _Tree:
    """The files below one root. Linked folders are followed inside the root, never in a circle."""

    def __init__(self, root: Path) -> None:
        self.root = os.path.realpath(root)
        self.complete = True
        self._listed: dict[str, list[str]] = {}

    def matches(self, pattern: str) -> Iterator[tuple[str, str]]:
        """Relative and real paths of the files that a pattern matches; ``**`` is any number of folders.

        Files that stand there themselves come before those that a link leads to.
        """
        prefix = fixed_prefix(pattern)
        if prefix not in self._listed:
            self._listed[prefix] = list(self._files(prefix))
        expression = re.compile(glob_regex(pattern))
        found = []
        for name in filter(expression.fullmatch, self._listed[prefix]):
            here = os.path.join(self.root, name)
            real = os.path.realpath(here)
            if self._holds(real):
                found.append((real != here, name, real))
        return ((name, real) for _, name, real in sorted(found))

    def _holds(self, real: str) -> bool:
        return real == self.root or real.startswith(self.root.rstrip(os.sep) + os.sep)

    def _files(self, prefix: str) -> Iterator[str]:
        to_visit: list[tuple[str, tuple[str, ...]]] = [(prefix, ())]
        visited = files = 0
        while to_visit:
            visited += 1
            if visited > MAX_FOLDERS or files > MAX_FILES:
                self.complete = False
                return
            folder, above = to_visit.pop()
            real = os.path.realpath(os.path.join(self.root, folder))
            if real in above or not self._holds(real):
                continue
            try:
                with os.scandir(real) as entries:
                    listed = sorted(entries, key=lambda entry: entry.name)
            except OSError:
                continue
            if folder and any(entry.name == ".git" for entry in listed):
                continue  # a repository inside the workspace is a workspace of its own
            files += len(listed)
            for entry in listed:
                try:
                    is_folder = entry.is_dir()
                except OSError:
                    continue  # a link that leads to itself
                if not is_folder:
                    yield f"{folder}{entry.name}"
                elif entry.name not in _SKIPPED:
                    to_visit.append((f"{folder}{entry.name}/", (*above, real)))


def _resident(kind: str, path: str, config: Config) -> bool | None:
    if kind in config.resident_kinds:
        return True
    try:
        with open(open_regular(path), "rb") as stream:
            head = stream.read(_HEAD_BYTES).decode("utf-8-sig", "replace")
    except OSError:
        return None
    matter = re.match(r"---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|$)", head, re.DOTALL)
    if kind == "rule":  # a rule without paths is loaded at every session start
        return matter is None or re.search(r"^(?:paths|globs)\s*:", matter[1], re.MULTILINE) is None
    if matter is None:
        return None
    flag = re.search(rf"^\s*{re.escape(config.resident_key)}\s*:\s*(true|false)\s*$", matter[1], re.MULTILINE)
    return None if flag is None else flag[1] == "true"


def _first_known(root: Path) -> dict[str, float]:
    """For each file of the workspace when git first knew it (seconds); empty where git cannot say."""
    if (ask_git(str(root), "rev-parse", "--is-shallow-repository") or b"").strip() != b"false":
        return {}  # no repository, or its history was cut off: the oldest commit here is not the oldest
    log = ask_git(
        str(root),
        "log",
        "--relative",
        "--no-renames",
        "--diff-filter=A",
        "--name-only",
        "-z",
        "--format=%x01%ct",
    )
    found: dict[str, float] = {}
    stamp: float | None = None
    for entry in (log or b"").split(b"\x00"):
        if entry.startswith(b"\x01") and entry[1:].isdigit():
            stamp = float(entry[1:])
        elif stamp is not None and entry.strip(b"\n"):
            # newest first: the last entry for a name is when git first knew it
            found[well_formed(os.fsdecode(entry.strip(b"\n")))] = stamp
    return found
