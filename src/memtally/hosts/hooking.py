"""One run of a hook: a payload on its way into the log. Lean, and nothing that happens here reaches the host.

A hook process must not fail the host's tool call, and has nobody to tell: what goes wrong is counted in the
workspace's ``health.jsonl``, where ``memtally status`` shows it.
"""

from __future__ import annotations

import json
import os

from memtally import faults
from memtally._discovery import find_root
from memtally.context import disabled
from memtally.errors import MemtallyError
from memtally.events import encode_event
from memtally.hosts._place import open_place
from memtally.hosts._sizes import KnownCounts
from memtally.ledger.layout import DIRECTORY, LOG_FILE
from memtally.ledger.writer import SEAL_BYTES, LogWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from memtally.events import UsageEvent
    from memtally.hosts._place import Place

    EventsOf = Callable[[dict[str, Any], Place], list[UsageEvent]]

__all__ = ["HOSTS", "config_folder_of", "record_payload"]

HOSTS = {
    "claude-code": ("memtally.hosts.claude_code", "CLAUDE_CONFIG_DIR", ".claude"),
    "codex": ("memtally.hosts.codex", "CODEX_HOME", ".codex"),
    "gemini-cli": ("memtally.hosts.gemini_cli", "", ".gemini"),
}
"""Of each host: the module that knows its payloads, the variable that names its folder, and that folder."""

_LARGE = 262_144
"""Bytes of a payload from which on it is first looked at without the answer of its tool."""
_ANSWERED = {"tool_response": {"type": "text"}}
_RECENT = 65_536
"""Bytes at the end of the log that are looked through for an event that another hook has just recorded."""


def config_folder_of(host: str, home: str) -> str:
    """The host's folder of the user."""
    _, variable, folder = HOSTS[host]
    return os.environ.get(variable) or os.path.join(home, folder) if variable else os.path.join(home, folder)


def record_payload(host: str, data: bytes) -> str | None:
    """Record what a payload amounts to; what to tell whoever looks at the hook's output, if anything.

    Never raises an ``Exception``.
    """
    try:
        return _record(host, data)
    except Exception as error:
        said = str(error) if isinstance(error, MemtallyError) else f"the hook failed ({type(error).__name__})"
        faults.note("hook_failed", f"{said}; nothing was recorded of this event", error)
        return None  # the note has told it


def _record(host: str, data: bytes) -> str | None:
    if host not in HOSTS:
        return f"memtally: hook {host!r:.80}: no such host; use one of {', '.join(HOSTS)}"
    if disabled():
        return None
    payload: Any = _unanswered(data) if len(data) > _LARGE else None
    cut = payload is not None
    try:
        payload = payload if cut else json.loads(data)
    except (ValueError, RecursionError):
        return "memtally: the payload is not JSON; nothing was recorded"
    root = _root(payload)
    if root is None:
        return None  # no workspace, so there is nowhere to record anything
    home = os.path.expanduser("~")
    directory = os.path.join(root, DIRECTORY)
    faults.bind(directory if os.path.isdir(directory) else None)
    counts = KnownCounts(directory)
    here = payload.get("cwd")
    place = open_place(
        host, root, home, config_folder_of(host, home), counts, here if isinstance(here, str) else root
    )
    if not os.path.exists(os.path.join(directory, "config.toml")) and _is_above_all(root, home):
        return None  # it would take the events of every project below it
    events_of = _events_of(host)
    if cut and (payload.get("tool_name") in place.config.tools or events_of({**payload, **_ANSWERED}, place)):
        payload = _answered(data)
    made = events_of(payload, place)
    if not made:
        return None
    if not os.path.exists(os.path.join(directory, "config.toml")):
        _begin_workspace(root)
    path = os.path.join(directory, LOG_FILE)
    made = [event for event in made if not _just_recorded(event, path)]
    if not made:
        return None
    seal_bytes = SEAL_BYTES if place.config.seal_bytes is None else place.config.seal_bytes
    writer = LogWriter(path, root=root, seal_bytes=seal_bytes)
    if not writer.append(b"".join(map(encode_event, made))):
        return f"memtally: {path} cannot be written; {len(made)} event(s) lost; see memtally status"
    if counts.missed:
        from memtally.hosts._background import count_in_background  # noqa: PLC0415 - seldom needed

        count_in_background(directory, place.measured_files)
    return None


def _unanswered(data: bytes) -> Any:
    """A large payload without the answer of its tool; ``None`` where that stands elsewhere than hosts put it.

    Most large answers are of files that are no records, and parsing ten million bytes takes longer than all
    the rest. A quote inside a text has a backslash before it, so what is looked for here is in no text.
    """
    at = data.find(b'"tool_response"', 0, _LARGE)
    if at < 0 or not data[at - 8 : at].rstrip().endswith(b","):
        return None
    try:
        return json.loads(data[:at].rstrip().removesuffix(b",") + b"}")
    except ValueError:
        return None


def _answered(data: bytes) -> Any:
    """A large payload with its answer, of which a file's content, that nobody looks at, is left out."""
    try:
        return json.loads(_without_content(data))
    except ValueError:
        return json.loads(data)


def _without_content(data: bytes) -> bytes:
    start = data.find(b'"content"', 0, _LARGE)
    end = data.rfind(b'"numLines"', max(start, 0))
    if start < 0 or end < 0 or not data[end - 8 : end].rstrip().removesuffix(b",").rstrip().endswith(b'"'):
        return data
    return data[:start] + data[end:]


def _events_of(host: str) -> EventsOf:
    # importlib's own way in would take longer than the module
    found: EventsOf = __import__(HOSTS[host][0], fromlist=["events_of"]).events_of
    return found


def _root(payload: object) -> str | None:
    """The workspace of a payload: of the folder where its session began, else where its host is now."""
    if not isinstance(payload, dict):
        return None
    start = os.environ.get("CLAUDE_PROJECT_DIR") or payload.get("cwd")
    usable = isinstance(start, str) and os.path.isabs(start) and os.path.isdir(start)
    if not usable and not os.environ.get("MEMTALLY_WORKSPACE"):
        return None
    return find_root(None, start if usable and isinstance(start, str) else None)[0]


def _is_above_all(folder: str, home: str) -> bool:
    """Whether a folder is the user's home folder, or the root of the file system."""
    return folder in (os.path.realpath(home), os.path.dirname(folder))


def _begin_workspace(root: str) -> None:
    """Give a workspace without a configuration the host's preset, so that its report has an inventory."""
    from memtally.config import write_config  # noqa: PLC0415 - once in a workspace's life
    from memtally.ledger.layout import ensure_directory, within  # noqa: PLC0415

    directory = os.path.join(root, DIRECTORY)
    if not within(directory, root):
        raise MemtallyError(f"{directory}: leads out of the workspace; replace the link by a folder")
    ensure_directory(directory)
    faults.bind(directory)
    write_config(os.path.join(directory, "config.toml"), "claude-code")


def _just_recorded(event: UsageEvent, path: str) -> bool:
    """Whether the end of the log has the event already: two hooks may report one prompt.

    The id would count once anyhow; this keeps the log free of lines that look like a mistake.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return False
    try:
        os.lseek(descriptor, max(0, os.fstat(descriptor).st_size - _RECENT), os.SEEK_SET)
        return f'"id":"{event.id}"'.encode() in os.read(descriptor, 2 * _RECENT)
    except OSError:
        return False
    finally:
        os.close(descriptor)
