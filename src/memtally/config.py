"""``.memtally/config.toml``: the workspace's id, which files are records, aliases. Meant to be committed."""

from __future__ import annotations

import os

from memtally._files import read_small
from memtally._presets import OPEN_KINDS, PRESETS, RESIDENT_KINDS
from memtally.errors import ConfigError, InvalidValueError, short
from memtally.events import check_kind, normal_slug
from memtally.ledger.layout import within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

__all__ = ["Config", "add_preset", "load_config", "write_config"]

_MAX_BYTES = 262_144


class Config:
    """What ``config.toml`` says, checked. Treated as immutable.

    ``records`` is ``None`` where no inventory is configured. ``stated_kinds``: kinds whose globs the
    workspace has given itself. ``open_kinds``: kinds of which records exist where no glob looks; what is not
    found there is not called missing. ``tools``: ``(kind, argument)`` of each tool of a host that reads a
    record. ``shell_reads``: whether ``cat`` of a record is a use; ``None`` leaves it to the host.
    """

    __slots__ = (
        "aliases",
        "open_kinds",
        "preset",
        "records",
        "resident_key",
        "resident_kinds",
        "seal_bytes",
        "shell_reads",
        "sources",
        "stated_kinds",
        "tools",
        "workspace_id",
    )

    def __init__(  # no dataclass, which a hook process would have to load
        self,
        *,
        workspace_id: str | None = None,
        preset: str | None = None,
        records: dict[str, tuple[str, ...]] | None = None,
        resident_kinds: tuple[str, ...] = (),
        resident_key: str = "model_invokation",
        aliases: dict[tuple[str, str], tuple[str, str]] | None = None,
        sources: tuple[str, ...] = (),
        seal_bytes: int | None = None,
        stated_kinds: frozenset[str] = frozenset(),
        open_kinds: frozenset[str] = frozenset(),
        tools: dict[str, tuple[str, str]] | None = None,
        shell_reads: bool | None = None,
    ) -> None:
        self.workspace_id = workspace_id
        self.preset = preset
        self.records = records
        self.resident_kinds = resident_kinds
        self.resident_key = resident_key
        self.aliases = aliases or {}
        self.sources = sources
        self.seal_bytes = seal_bytes
        self.stated_kinds = stated_kinds
        self.open_kinds = open_kinds
        self.tools = tools or {}
        self.shell_reads = shell_reads

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Config):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]


def load_config(path: str | os.PathLike[str], *, cached: bool = False) -> Config:
    """Read and check a configuration file; an absent one is the empty configuration.

    ``cached``: take what was read before, where the file is still the same; a hook process has no time to
    parse TOML. Raises ``ConfigError``.
    """
    path = os.fspath(path)
    if not within(path, os.path.dirname(os.path.dirname(path))):
        raise ConfigError(path, "leads out of the workspace", "replace the link by a file")
    try:
        data = _cached_data(path) if cached else _parsed(path)
    except FileNotFoundError:
        return Config()
    except (ValueError, RecursionError) as error:  # also TOMLDecodeError and UnicodeDecodeError
        raise ConfigError(
            path,
            f"not valid TOML ({_without_content(error)})",
            "mend it, or remove the file and run memtally init",
        ) from None
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise ConfigError(path, problem, "check its mode", unreadable=True) from None
    return _Reader(path, data).config()


def _parsed(path: str) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - a report on a file of somebody else's starts without it

    return tomllib.loads(read_small(path, _MAX_BYTES).decode())


def _cached_data(path: str) -> dict[str, Any]:
    """The file's content, from ``cache/config`` where that was made from the very same file."""
    import json  # noqa: PLC0415 - loaded by whoever asks for this

    status = os.stat(path)
    seen = [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    cache = os.path.join(os.path.dirname(path), "cache", "config")
    try:
        kept = json.loads(read_small(cache, 4 * _MAX_BYTES))
        if kept["of"] == seen and isinstance(kept["data"], dict):
            found: dict[str, Any] = kept["data"]
            return found
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    data = _parsed(path)
    try:
        os.makedirs(os.path.dirname(cache), mode=0o700, exist_ok=True)
        _write_whole(cache, json.dumps({"of": seen, "data": data}), replace=True)
    except (OSError, TypeError):  # TypeError: TOML has dates, JSON has none
        pass
    return data


def _without_content(error: Exception) -> str:
    """What a TOML error says, where that is its place; never a piece of a file that may be no TOML at all."""
    import re  # noqa: PLC0415 - only once something is wrong

    found = re.search(r"\(at (line \d+, column \d+|end of document)\)", str(error))
    return found[1] if found else type(error).__name__


class _Reader:
    """Takes a configuration apart; every complaint names the file and the key."""

    def __init__(self, path: str, data: dict[str, Any]) -> None:
        self.path, self.data = path, data

    def fail(self, key: str, problem: str, instead: str) -> ConfigError:
        return ConfigError(self.path, f"{key}: {problem}", instead)

    def config(self) -> Config:
        data = self.data
        known = {
            *("workspace_id", "preset", "records", "resident", "aliases", "sources", "seal_bytes"),
            *("tools", "shell_reads"),
        }
        for key in data:
            if key not in known:
                raise self.fail(short(key), "no such setting", f"use one of {', '.join(sorted(known))}")
        preset = data.get("preset")
        if preset is not None and (not isinstance(preset, str) or preset not in PRESETS):
            raise self.fail("preset", f"{short(preset)} is no preset", f"use one of {', '.join(PRESETS)}")
        records = dict(PRESETS[preset]) if preset is not None else {}
        own = self.records()
        records.update(own)
        resident = self.table("resident")
        kinds = self.texts(
            resident.get("kinds", list(RESIDENT_KINDS.get(preset or "", ()))), "resident.kinds"
        )
        seal_bytes = data.get("seal_bytes")
        if seal_bytes is not None and (
            not isinstance(seal_bytes, int) or isinstance(seal_bytes, bool) or seal_bytes < 0
        ):
            raise self.fail(
                "seal_bytes", f"{short(seal_bytes)} is no size", "use a number of bytes, or 0 for never"
            )
        shell_reads = data.get("shell_reads")
        if shell_reads is not None and not isinstance(shell_reads, bool):
            raise self.fail("shell_reads", f"{short(shell_reads)} is no truth value", "use true or false")
        return Config(
            workspace_id=self.workspace_id(),
            preset=preset,
            records=records if records else None,
            resident_kinds=kinds,
            resident_key=self.text(resident.get("key", "model_invokation"), "resident.key"),
            aliases=self.aliases(),
            sources=self.texts(data.get("sources", []), "sources"),
            seal_bytes=seal_bytes,
            open_kinds=frozenset(OPEN_KINDS.get(preset or "", ())) - own.keys(),
            stated_kinds=frozenset(own),
            tools=self.tools(),
            shell_reads=shell_reads,
        )

    def workspace_id(self) -> str | None:
        value = self.data.get("workspace_id")
        return None if value is None else self.text(value, "workspace_id")

    def records(self) -> dict[str, tuple[str, ...]]:
        found = {}
        for kind, globs in self.table("records").items():
            try:
                check_kind(kind)
            except InvalidValueError as error:
                raise self.fail(
                    "records", f"{short(kind)} is no kind, which is one lower-case word", "rename it"
                ) from error
            found[kind] = self.texts(globs, f"records.{kind}")
            for glob in found[kind]:
                if glob.startswith("/") or ".." in glob.split("/") or "\0" in glob:
                    raise self.fail(
                        f"records.{kind}",
                        f"{short(glob)} leads out of the workspace",
                        "use a relative glob, or one with ~/",
                    )
                if glob.startswith("~/") and ("*" in glob.split("/")[1] or not glob.endswith(".md")):
                    # a workspace from elsewhere must not list what else lies in the home folder
                    raise self.fail(
                        f"records.{kind}",
                        f"{short(glob)} reaches too much of the home folder",
                        "name a folder of it and end in .md, such as ~/.claude/rules/**/*.md",
                    )
        return found

    def tools(self) -> dict[str, tuple[str, str]]:
        found = {}
        for name, tool in self.table("tools").items():
            key = f"tools.{short(name)}"
            if name.startswith("mcp__memtally__"):
                raise self.fail(key, "its answers are figures and no record", "leave it out")
            if not isinstance(tool, dict) or tool.keys() != {"kind", "argument"}:
                raise self.fail(
                    key, "does not say which record", 'write { kind = "memory", argument = "name" }'
                )
            try:
                kind = check_kind(tool["kind"])
            except InvalidValueError as error:
                raise self.fail(
                    key, f"{short(tool['kind'])} is no kind, which is one lower-case word", "rename it"
                ) from error
            found[name] = (kind, self.text(tool["argument"], f"{key}.argument"))
        return found

    def aliases(self) -> dict[tuple[str, str], tuple[str, str]]:
        found = {}
        for old, new in self.table("aliases").items():
            for name in (old, new):
                if not isinstance(name, str) or "/" not in name.strip("/"):
                    raise self.fail(
                        "aliases", f"{short(name)} names no record", 'write "kind/old" = "kind/new"'
                    )
            found[_record_key(old)] = _record_key(new)
        for start in found:
            chain, key = {start: None}, found[start]
            while key in found:
                if key in chain:
                    raise self.fail(
                        "aliases", f"{short('/'.join(key))} leads back to itself", "break the cycle"
                    )
                chain[key] = None
                key = found[key]
            found.update(dict.fromkeys(chain, key))  # each is followed once, however long the chain
        return found

    def table(self, key: str) -> dict[str, Any]:
        value = self.data.get(key, {})
        if not isinstance(value, dict):
            raise self.fail(key, f"{short(value)} is no table", f"write it under [{key}]")
        return value

    def text(self, value: object, key: str) -> str:
        if not isinstance(value, str) or not value:
            raise self.fail(key, f"{short(value)} is no text", "write it in quotes")
        return value

    def texts(self, value: object, key: str) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise self.fail(key, f"{short(value)} is no list of texts", 'write it as ["one", "two"]')
        return tuple(value)


def _record_key(name: str) -> tuple[str, str]:
    kind, slug = name.split("/", 1)
    return kind, normal_slug(slug)


def config_text(preset: str | None, workspace_id: str) -> str:
    """The text of a new configuration file."""
    lines = [
        "# memtally: which records this workspace has. Meant to be committed; the log is not.",
        "",
        "# Shared by all clones of this workspace; travels as memtally.workspace.id.",
        f'workspace_id = "{workspace_id}"',
        "",
    ]
    if preset is None:
        lines += [
            "# Without records there is no inventory, and nothing is called never read or missing.",
            f'# preset = "generic"   # or one of: {", ".join(PRESETS)}',
        ]
    else:
        lines += [f'preset = "{preset}"', "", "# Adds to the preset, or replaces a kind of it:"]
        lines += [
            f"#   {kind} = {list(globs)!r}".replace("'", '"') for kind, globs in PRESETS[preset].items()
        ]
    lines += [
        "# [records]",
        '# decision = ["decisions/**/*.md"]',
        "",
        "# Records that were renamed, joined only because you say so:",
        "# [aliases]",
        '# "decision/old-name" = "decision/new-name"',
        "",
    ]
    return "\n".join(lines)


def add_preset(path: Path, preset: str) -> None:
    """Give an existing configuration without a preset one, and keep whatever else it says."""
    workspace_id = load_config(path).workspace_id
    text = path.read_text("utf-8")
    if workspace_id is not None and text == config_text(None, workspace_id):
        text = config_text(preset, workspace_id)
    else:
        text = f'preset = "{preset}"\n{text}'  # before the first table, where it is a setting of its own
    _write_whole(path, text, replace=True)


def write_config(path: str | os.PathLike[str], preset: str | None, *, replace: bool = False) -> bool:
    """Write a new configuration, whole or not at all; ``False`` where one stood already.

    ``replace`` keeps the workspace's id and writes the rest anew.
    """
    import uuid  # noqa: PLC0415 - a hook process reads this file, and seldom makes one

    workspace_id = str(uuid.uuid4())
    if replace:
        workspace_id = load_config(path).workspace_id or workspace_id
    return _write_whole(path, config_text(preset, workspace_id), replace=replace)


def _write_whole(path: str | os.PathLike[str], text: str, *, replace: bool) -> bool:
    temporary = f"{os.fspath(path)}.{os.urandom(4).hex()}.tmp"
    try:
        # its mode is not the umask's to give: whoever writes this file says what is read
        with open(
            os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w", encoding="utf-8"
        ) as stream:
            os.chmod(temporary, 0o644)
            stream.write(text)
        if replace:
            os.replace(temporary, path)
        else:
            os.link(temporary, path)  # fails where another process was first: its id holds
    except FileExistsError:
        return False
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)
    return True
