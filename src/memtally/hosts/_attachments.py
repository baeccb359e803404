"""What an ``attachment`` line of Claude Code's transcripts shows to have been placed into a context.

Lean: a hook reads a subagent's transcript by this, since no hook reports what a subagent starts with.
"""

from __future__ import annotations

from memtally.events import EXPOSURE, USE
from memtally.hosts._sizes import Measured
from memtally.hosts._values import list_of, name_of, text_of
from memtally.ledger.layout import led_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memtally.hosts._place import Place

__all__ = ["Placed", "instructions_record", "placed_by", "whole_file"]

_RENDERED_SINCE = (2, 1, 270)


class Placed:
    """What one line shows: a kind of event, its source, the records, and for whom, if that is said."""

    __slots__ = ("actor", "event", "records", "source")

    def __init__(self, event: str, source: str, records: list[Measured], actor: str | None = None) -> None:
        self.event = event
        self.source = source
        self.records = records
        self.actor = actor


def placed_by(entry: dict[str, Any], place: Place) -> Placed | None:
    """What a line has placed; ``None`` where that is nothing, or nothing of it reached the model."""
    attached = entry.get("attachment")
    handler = _ATTACHMENTS.get(text_of(attached, "type"))
    if handler is None or not isinstance(attached, dict) or not _reached_the_model(entry):
        return None
    placed = handler(attached, place)
    return placed if placed.records else None


def _reached_the_model(entry: dict[str, Any]) -> bool:
    """Versions that write what was rendered leave it out where nothing was; older ones never write it."""
    if "rendered" in entry:
        return bool(entry["rendered"])
    numbers = text_of(entry, "version").split("-")[0].split(".")[:3]
    known = len(numbers) == 3 and all(number.isdecimal() and len(number) < 9 for number in numbers)
    return not known or tuple(map(int, numbers)) < _RENDERED_SINCE


def _placed_file(path: str, values: dict[str, Any], place: Place) -> Measured | None:
    """A file that was placed, with what its line shows of it."""
    if not path:
        return None
    kind, slug, _ = instructions_record(path, place)
    placed, raw = values.get("content"), values.get("rawContent")
    injected = placed.encode("utf-8", "surrogatepass") if isinstance(placed, str) else None
    if isinstance(raw, str):
        return Measured(kind, slug, raw.encode("utf-8", "surrogatepass"), injected=injected)
    if values.get("contentDiffersFromDisk") is False:
        return Measured(kind, slug, injected)
    return Measured(kind, slug, injected=injected)  # the file itself is not shown: blank ends are left out


def _instructions(attached: dict[str, Any], place: Place) -> Placed:
    files = [file for file in list_of(attached, "files") if isinstance(file, dict)]
    records = [_placed_file(text_of(file, "path"), file, place) for file in files]
    return Placed(EXPOSURE, "ResidentInjection", [record for record in records if record is not None])


def _nested_memory(attached: dict[str, Any], place: Place) -> Placed:
    content = attached.get("content")
    values = content if isinstance(content, dict) else {"content": content}
    path = text_of(attached, "path") or text_of(values, "path")
    record = _placed_file(path, values, place)
    return Placed(EXPOSURE, "ResidentInjection", [] if record is None else [record])


def _skill_listing(attached: dict[str, Any], place: Place) -> Placed:
    names = [name for name in list_of(attached, "names") if isinstance(name, str) and name.strip()]
    lines = skill_lines(text_of(attached, "content"), set(names))
    if not names:
        names = list(lines)
    return Placed(EXPOSURE, "ResidentInjection", [Measured("skill", n, injected=lines.get(n)) for n in names])


def skill_lines(content: str, names: set[str]) -> dict[str, bytes]:
    """The part of a listing (``- name: description``) that is about each skill; descriptions may go on."""
    parts: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in content.split("\n"):
        head = line[2:].split(": ", 1)[0].rstrip(":") if line.startswith("- ") else ""
        if head and (head in names if names else not set(head) & set(" \t")):
            current = parts.setdefault(head, [])
        if current is not None:
            current.append(line)
    return {name: "\n".join(lines).rstrip().encode("utf-8", "surrogatepass") for name, lines in parts.items()}


def _invoked_skills(attached: dict[str, Any], place: Place) -> Placed:
    records = []
    for skill in list_of(attached, "skills"):
        name, content = name_of(skill, "name"), text_of(skill, "content")
        if name.strip() and not name.startswith("["):  # a placeholder of an edited transcript
            records.append(Measured("skill", name, injected=content.encode("utf-8", "surrogatepass") or None))
    return Placed(EXPOSURE, "ResidentInjection", records)


def _file(attached: dict[str, Any], place: Place) -> Placed:
    """``@file`` in a prompt: a person has it read."""
    path = text_of(attached, "filename") or text_of(attached, "path")
    found = place.files.find(path)
    if found is None:
        return Placed(USE, "FileMention", [])
    content = whole_file(attached.get("content"))
    return Placed(USE, "FileMention", [Measured(found.kind, found.slug, content)], "user")


def _relevant_memories(attached: dict[str, Any], place: Place) -> Placed:
    records = []
    for memory in list_of(attached, "memories"):
        found = place.files.find(text_of(memory, "path"))
        if found is not None:
            content = text_of(memory, "content").encode("utf-8", "surrogatepass")
            records.append(Measured(found.kind, found.slug, injected=content or None))
    return Placed(EXPOSURE, "AutoRecall", records)


_ATTACHMENTS = {
    "file": _file,
    "instructions": _instructions,
    "invoked_skills": _invoked_skills,
    "nested_memory": _nested_memory,
    "relevant_memories": _relevant_memories,
    "skill_listing": _skill_listing,
}


def whole_file(response: object) -> bytes | None:
    """A file's content, where the answer shows all of it as text."""
    file = (
        response.get("file") if isinstance(response, dict) and text_of(response, "type") == "text" else None
    )
    if isinstance(file, dict) and isinstance(file.get("content"), str) and file.get("startLine") in (None, 1):
        lines, total = file.get("numLines"), file.get("totalLines")
        if isinstance(lines, int) and lines == total:
            content: str = file["content"]
            return content.encode("utf-8", "surrogatepass")
    return None


def instructions_record(path: str, place: Place) -> tuple[str, str, str | None]:
    """Kind, slug and file to measure of what the host loads as instructions."""
    found = place.files.find(path)
    if found is not None:
        return found.kind, found.slug, found.path
    measured = None if led_out(path, place.root) else path
    return "instructions", place.files.relative(path), measured
