"""Put memtally's hooks into a host's settings, and take them out again: never a byte of anybody else's."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import stat
import sys
from dataclasses import dataclass
from typing import Any

from memtally._files import read_small
from memtally.errors import MemtallyError
from memtally.hosts._json_edit import Document, JsonError
from memtally.hosts.hooking import config_folder_of

__all__ = [
    "SCOPES",
    "Change",
    "hook_command",
    "installed_in",
    "plan_install",
    "plan_uninstall",
    "settings_path",
]

_MOST_BYTES = 16 * 1_048_576
_BACKUP = ".before-memtally"

_FILES = {"claude-code": "settings.json", "codex": "hooks.json", "gemini-cli": "settings.json"}
SCOPES = {
    "claude-code": ("user", "project", "local"),
    "codex": ("user", "project"),
    "gemini-cli": ("user", "project"),
}
"""Whose settings a hook may stand in: the user's, those that come with a project, this clone's own."""

_FOLDERS = {"claude-code": ".claude", "codex": ".codex", "gemini-cli": ".gemini"}

_EVENTS: dict[str, tuple[tuple[str, str | None], ...]] = {
    "claude-code": (
        ("PostToolUse", "Read|Skill|{tools}"),
        ("UserPromptExpansion", None),
        ("InstructionsLoaded", None),
        ("SessionStart", None),
        ("SubagentStart", None),
        ("SubagentStop", None),
    ),
    "codex": (("PostToolUse", "Bash|{tools}"),),
    "gemini-cli": (("AfterTool", "read_file|activate_skill|{tools}"),),
}
"""The events that each host's hook is for, with the tools that it is asked about."""


@dataclass(frozen=True, slots=True)
class Change:
    """What is to become of a settings file: ``path`` itself (links resolved), its bytes before and after
    (``None``: it is not there). ``said``: what is done, in a few words.
    """

    path: str
    before: bytes | None
    after: bytes | None
    said: str
    keeps_backup: bool = True

    @property
    def needed(self) -> bool:
        """Whether there is anything to do."""
        return self.before != self.after

    def carry_out(self) -> str | None:
        """Do it, whole or not at all; the backup that was kept, if any. Raises ``MemtallyError``."""
        try:
            return self._carry_out()
        except OSError as error:
            raise MemtallyError(
                f"{self.path}: cannot be changed ({error.strerror}); check its mode and its folder's"
            ) from None

    def _carry_out(self) -> str | None:
        folder = os.path.dirname(self.path)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if self._now() != self.before:
            raise MemtallyError(f"{self.path}: has changed meanwhile; try again")
        backup = None
        if self.before is not None and self.keeps_backup:
            backup = self.path + _BACKUP
            _write_whole(backup, self.before, like=self.path)
        if self.after is None:
            os.unlink(self.path)
        else:
            _write_whole(self.path, self.after, like=self.path if self.before is not None else None)
        return backup

    def _now(self) -> bytes | None:
        return read_small(self.path, _MOST_BYTES) if os.path.lexists(self.path) else None


def _write_whole(path: str, data: bytes, *, like: str | None) -> None:
    temporary = f"{path}.{os.urandom(4).hex()}.tmp"
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            if like is not None:
                status = os.stat(like)
                os.chmod(temporary, stat.S_IMODE(status.st_mode))
                if hasattr(os, "chown"):
                    with contextlib.suppress(OSError):  # only root may give a file away
                        os.chown(temporary, status.st_uid, status.st_gid)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)


def settings_path(host: str, scope: str, root: str) -> str:
    """The settings file of a host for ``user``, ``project`` (shared) or ``local`` (this clone)."""
    if scope == "user":
        return os.path.join(config_folder_of(host, os.path.expanduser("~")), _FILES[host])
    name = _FILES[host] if scope == "project" else "settings.local.json"
    return os.path.join(root, _FOLDERS[host], name)


def hook_command(host: str) -> str:
    """The command line that runs a hook: by the real path, for a shim would take longer than the hook."""
    name = "memtally.exe" if os.name == "nt" else "memtally"
    beside = os.path.join(os.path.dirname(sys.executable), name)
    words = [beside] if os.path.isfile(beside) else [sys.executable, "-P", "-m", "memtally"]
    return shlex.join([*words, "hook", host]) if os.name != "nt" else f'"{words[0]}" hook {host}'


def _is_ours(host: str, entry: object) -> bool:
    command = entry.get("command") if isinstance(entry, dict) else None
    return (
        isinstance(command, str)
        and re.search(rf"memtally\S*\s+hook {re.escape(host)}\s*$", command) is not None
    )


def plan_install(host: str, path: str, tools: list[str]) -> Change:
    """What a settings file has to become, so that the host's hooks are in it, each once.

    ``tools``: further tools that read records. Raises ``MemtallyError`` for a file that is not understood.
    """
    path, before, text = _read(path)
    first = _clean(host, path, text) == text  # the backup is of the file without any hook of ours
    text, done = _installed(host, path, text, tools)
    _check(path, host, before, text)
    after = text.encode("utf-8", "surrogatepass") if done else before
    return Change(path, before, after, ", ".join(done) or "installed already", keeps_backup=first)


def _installed(host: str, path: str, text: str, tools: list[str]) -> tuple[str, list[str]]:
    """The text with all of our hooks, and what was done to it."""
    done = []
    for event, matcher in _EVENTS[host]:
        entry: dict[str, Any] = {"type": "command", "command": hook_command(host)}
        if host == "claude-code":
            entry["async"] = True  # the host goes on meanwhile
        group: dict[str, Any] = {"hooks": [entry]}
        if matcher is not None:
            wanted = matcher.replace("|{tools}", "".join(f"|{re.escape(tool)}" for tool in sorted(tools)))
            group = {"matcher": wanted, **group}
        text, what = _with_group(host, path, text, event, group)
        done += [f"{what} {event}"] if what else []
    return text, done


def _with_group(host: str, path: str, text: str, event: str, group: dict[str, Any]) -> tuple[str, str]:
    """The text with a hook of ours for an event, and what was done about it."""
    document = _parse(path, text)
    hooks = document.root.items.get("hooks")
    if hooks is None:
        return document.inserted(document.root, {event: [group]}, "hooks"), "added"
    if not hooks.is_object:
        raise MemtallyError(f"{path}: hooks is no object; mend it, then try again")
    groups = hooks.items.get(event)
    if groups is None:
        return document.inserted(hooks, [group], event), "added"
    if not groups.is_list:
        raise MemtallyError(f"{path}: hooks.{event} is no list; mend it, then try again")
    for present in groups.items.values():
        entries = present.items.get("hooks") if present.is_object else None
        for entry in entries.items.values() if entries is not None and entries.is_list else ():
            if _is_ours(host, entry.value):
                if entry.value["command"] != group["hooks"][0]["command"]:
                    return document.replaced(entry.items["command"], group["hooks"][0]["command"]), "renewed"
                matcher = present.items.get("matcher")
                if matcher is not None and present.value["matcher"] != group.get("matcher"):
                    return document.replaced(matcher, group.get("matcher", "")), "renewed"
                return text, ""
    return document.inserted(groups, group), "added"


def plan_uninstall(host: str, path: str, tools: list[str]) -> Change:
    """What a settings file has to become, so that no hook of ours is in it."""
    path, before, text = _read(path)
    clean = _clean(host, path, text)
    if before is None or clean == text:
        return Change(path, before, before, "not installed")
    _check(path, host, before, clean)
    kept = _kept_before(host, path, text, tools)
    if kept is not None:
        return Change(path, before, kept, "removed", keeps_backup=False)
    if not _parse(path, clean).root.value and not os.path.exists(path + _BACKUP):
        return Change(
            path, before, None, "removed, and with it the file, which had nothing else", keeps_backup=False
        )
    return Change(path, before, clean.encode("utf-8", "surrogatepass"), "removed", keeps_backup=False)


def _kept_before(host: str, path: str, text: str, tools: list[str]) -> bytes | None:
    """The file as it was before the installation, where nothing but that has changed in it since."""
    try:
        kept = read_small(path + _BACKUP, _MOST_BYTES)
        said = kept.decode("utf-8", "surrogatepass")
        pristine = _clean(host, path, said) == said
        return kept if pristine and _installed(host, path, said, tools)[0] == text else None
    except (OSError, UnicodeDecodeError, MemtallyError):
        return None


def _clean(host: str, path: str, text: str) -> str:
    """The text without our hooks, and without what is empty now for want of them."""
    while True:
        document = _parse(path, text)
        changed = _first_removal(host, document)
        if changed is None:
            return text
        text = changed


def _first_removal(host: str, document: Document) -> str | None:
    hooks = document.root.items.get("hooks")
    for event, groups in hooks.items.items() if hooks is not None and hooks.is_object else ():
        for number, group in groups.items.items() if groups.is_list else ():
            entries = group.items.get("hooks") if group.is_object else None
            if entries is None or not entries.is_list:
                continue
            ours = [index for index, entry in entries.items.items() if _is_ours(host, entry.value)]
            if not ours:
                continue
            if len(entries.items) > 1:
                return document.without(entries, ours[0])
            if len(groups.items) > 1:
                return document.without(groups, number)
            assert hooks is not None
            if len(hooks.items) > 1:
                return document.without(hooks, event)
            return document.without(document.root, "hooks")
    return None


def installed_in(host: str, path: str) -> dict[str, str]:
    """The events for which a settings file has hooks of ours, and their commands; none where it cannot be
    understood.
    """
    try:
        _, _, text = _read(path)
        hooks = _parse(path, text).root.value.get("hooks")
    except MemtallyError:
        return {}
    return {
        event: entry["command"]
        for event, groups in (hooks.items() if isinstance(hooks, dict) else ())
        for group in (groups if isinstance(groups, list) else ())
        for entry in (group.get("hooks") or () if isinstance(group, dict) else ())
        if _is_ours(host, entry)
    }


def _read(path: str) -> tuple[str, bytes | None, str]:
    """The file that a path leads to, its bytes and its text. Raises ``MemtallyError``."""
    real = os.path.realpath(path)
    try:
        before = read_small(real, _MOST_BYTES)
        if not os.stat(real).st_mode & 0o222 or not os.access(real, os.W_OK):
            raise MemtallyError(f"{path}: is read-only; make it writable, then try again")
        text = before.decode("utf-8", "surrogatepass")
    except FileNotFoundError:
        return real, None, "{}\n"
    except OSError as error:
        raise MemtallyError(f"{path}: cannot be read ({error.strerror}); check its mode") from None
    except UnicodeDecodeError:
        raise MemtallyError(f"{path}: is not UTF-8; mend it, then try again") from None
    return real, before, text if text.strip("\ufeff \t\r\n") else f"{text.rstrip()}{{}}\n"


def _parse(path: str, text: str) -> Document:
    try:
        document = Document(text)
    except JsonError as error:
        raise MemtallyError(f"{path}: is no JSON ({error}); mend it, then try again") from None
    if not document.root.is_object:
        raise MemtallyError(f"{path}: holds no object; mend it, then try again")
    return document


def _check(path: str, host: str, before: bytes | None, text: str) -> None:
    """Refuse to write what would have changed anything but our hooks."""
    old = _parse(
        path, "{}" if before is None or not before.strip() else before.decode("utf-8", "surrogatepass")
    )
    if _without_ours(host, old.root.value) != _without_ours(host, _parse(path, text).root.value):
        raise MemtallyError(f"{path}: cannot be edited safely; add the hooks by hand (see --dry-run)")


def _without_ours(host: str, value: dict[str, Any]) -> dict[str, Any]:
    """The settings without our hooks, nor anything that is empty without them."""
    hooks = value.get("hooks")
    if not isinstance(hooks, dict):
        return value
    kept: dict[str, Any] = {}
    for event, groups in hooks.items():
        if not isinstance(groups, list):
            kept[event] = groups
            continue
        left = []
        for group in groups:
            entries = group.get("hooks") if isinstance(group, dict) else None
            if not isinstance(entries, list):
                left.append(group)
                continue
            others = [entry for entry in entries if not _is_ours(host, entry)]
            if others or not entries:
                left.append({**group, "hooks": others})
        if left:
            kept[event] = left
    rest = {key: item for key, item in value.items() if key != "hooks"}
    return {**rest, "hooks": kept} if kept else rest
