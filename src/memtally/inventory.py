"""The records that exist now: found by the globs of the workspace's configuration.

A file is read only as far as its front matter. Symbolic links are the file they resolve to, and one
that leads out of its root is no record.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from memtally.events import normal_slug, well_formed
from memtally.workspace import Config, Workspace

__all__ = ["InventoryRecord", "scan", "slug_of"]

_SKIPPED = {".git", ".memtally", ".venv", "node_modules", "__pycache__", ".tox", ".mypy_cache"}
_HEAD_BYTES = 4_096
_GIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class InventoryRecord:
    """One record that exists: where, how large, and whether it is always on (``None``: not known)."""

    kind: str
    slug: str
    path: Path
    file_bytes: int
    resident: bool | None
    age_days: int | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What identifies the record."""
        return (self.kind, self.slug)


def scan(
    workspace: Workspace, config: Config, *, now: float | None = None
) -> dict[tuple[str, str], InventoryRecord]:
    """The workspace's records by ``(kind, slug)``. ``now``: seconds since the epoch, for ages."""
    if config.records is None:
        return {}
    ages = _first_known(workspace.root)
    found: dict[tuple[str, str], InventoryRecord] = {}
    seen: set[tuple[str, str]] = set()  # (kind, real path): a linked file is one record
    walked: dict[Path, list[str]] = {}
    for kind, globs in config.records.items():
        for glob in globs:
            user_level = glob.startswith("~/")
            root = Path(os.path.expanduser("~")) if user_level else workspace.root
            pattern = glob.removeprefix("~/")
            for relative in _matches(root, pattern, walked):
                real = os.path.realpath(root / relative)
                real_root = os.path.realpath(root)
                if (kind, real) in seen or not real.startswith(real_root.rstrip(os.sep) + os.sep):
                    continue
                seen.add((kind, real))
                # a symbolic link is the file it resolves to
                name = os.path.relpath(real, real_root).replace(os.sep, "/")
                if not name.startswith(_fixed_prefix(pattern)):
                    name = relative  # linked from elsewhere in the workspace: only the link has a slug here
                slug = slug_of(kind, name, pattern, user_level=user_level)
                try:
                    size = os.stat(real).st_size
                except OSError:
                    continue
                first = None if user_level else ages.get(relative)
                age = None if first is None else max(0, int(((now or time.time()) - first) // 86_400))
                record = InventoryRecord(
                    kind, slug, Path(real), size, _resident(kind, slug, real, config), age
                )
                found.setdefault(record.key, record)
    return found


def slug_of(kind: str, relative: str, pattern: str, *, user_level: bool = False) -> str:
    """The slug of a file by DESIGN's rules: ``relative`` to its root, matched by ``pattern``.

    Skills and typed commands go by the name they are invoked by, auto-memory topics by their stem,
    instructions by their whole path, every other kind by the path below its folder without ``.md``.
    """
    if kind == "instructions":
        slug = relative
    elif kind == "skill":
        if relative.rsplit("/", 1)[-1].lower() == "skill.md":
            return normal_slug(relative.rsplit("/", 2)[-2])
        return normal_slug(_below(relative, pattern).replace("/", ":"))
    elif kind == "memory":
        return normal_slug(relative.rsplit("/", 1)[-1].removesuffix(".md"))
    else:
        slug = _below(relative, pattern)
    return normal_slug(f"~/{slug}" if user_level else slug)


def _below(relative: str, pattern: str) -> str:
    return relative.removeprefix(_fixed_prefix(pattern)).removesuffix(".md")


def _fixed_prefix(pattern: str) -> str:
    """The folders of a pattern before its first wildcard, with the final slash."""
    fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    return fixed[: fixed.rfind("/") + 1]


def _matches(root: Path, pattern: str, walked: dict[Path, list[str]]) -> Iterator[str]:
    """Relative paths of the files that a pattern matches, sorted. ``**`` is any number of folders."""
    prefix = _fixed_prefix(pattern)
    base = root / prefix
    if base not in walked:
        walked[base] = sorted(_files(base, prefix))
    expression = re.compile(_regex(pattern))
    return (name for name in walked[base] if expression.fullmatch(name))


def _files(base: Path, prefix: str) -> Iterable[str]:
    top, walked = os.path.realpath(base), set()
    for folder, folders, files in os.walk(base, followlinks=True):
        real = os.path.realpath(folder)
        # linked folders are followed once, and only inside: no cycles, no way out
        if real in walked or not f"{real}/".startswith(f"{top}/"):
            folders.clear()
            continue
        walked.add(real)
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        relative = os.path.relpath(folder, base).replace(os.sep, "/")
        start = prefix if relative == "." else f"{prefix}{relative}/"
        for name in files:
            yield f"{start}{name}"


def _regex(pattern: str) -> str:
    parts = []
    for part in re.split(r"(\*\*/|\*|\?)", pattern):
        parts.append({"**/": "(?:[^/]+/)*", "*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part)))
    return "".join(parts)


def _resident(kind: str, slug: str, path: str, config: Config) -> bool | None:
    if kind in config.resident_kinds:
        return True
    try:
        with open(path, "rb") as stream:
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
    # no setting of somebody else's repository may start a program here
    git = ["git", "-C", str(root), "-c", "log.showSignature=false", "-c", "core.fsmonitor=false"]
    try:
        shallow = subprocess.run(
            [*git, "rev-parse", "--is-shallow-repository"],
            capture_output=True,
            timeout=_GIT_SECONDS,
            check=True,
        )
        if shallow.stdout.strip() != b"false":
            return {}  # the history was cut off: the oldest commit here is not the oldest
        log = subprocess.run(
            [
                *git,
                "log",
                "--relative",
                "--no-renames",
                "--diff-filter=A",
                "--name-only",
                "-z",
                "--format=%x01%ct",
            ],
            capture_output=True,
            timeout=_GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    found: dict[str, float] = {}
    for commit in log.stdout.split(b"\x01")[1:]:
        stamp, _, names = commit.partition(b"\x00")
        for name in names.split(b"\x00"):
            if name.strip(b"\n"):
                # newest first: the last entry for a name is when git first knew it
                found[well_formed(os.fsdecode(name.strip(b"\n")))] = float(stamp)
    return found
