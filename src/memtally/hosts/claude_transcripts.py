"""Claude Code's transcripts: the uses and exposures that a past session's lines show.

The form is undocumented and has changed; what is not known is passed over and counted. What a line does not
show is unknown: today's file says nothing of the one that was read then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from memtally.events import EXPOSURE, USE
from memtally.hosts._ids import names_one_call
from memtally.hosts._imported import Imported, ReadingCounts, Resolve, line_identity
from memtally.hosts._place import Place
from memtally.hosts._sizes import Measured
from memtally.hosts._skills import find_skill
from memtally.hosts.claude_code import BUILT_IN, instructions_record, tool_reads
from memtally.ledger.decode import parse_time

__all__ = ["occurrences"]

_OF_INTEREST = re.compile(rb'"tool_use"|"tool_result"|"attachment"|<command-(?:name|message)>|"cwd"')
_TYPED = re.compile(
    r"\s*<command-message>[^<]{0,500}</command-message>\s*<command-name>\s*/?([^<\s]{1,300})\s*</command-name>"
)
_RENDERED_SINCE = (2, 1, 270)
_MOST_PENDING = 10_000


def occurrences(lines: Iterable[bytes], resolve: Resolve, counts: ReadingCounts) -> Iterator[Imported]:
    """The events of one transcript, in its order; none for a session of another workspace."""
    reading: _Session | None = None
    for line in lines:
        counts.lines += 1
        if not _OF_INTEREST.search(line):
            if line.strip() and not line.lstrip().startswith(b"{"):
                counts.unknown += 1
            continue
        entry = _decode(line)
        if entry is None:
            counts.unknown += 1
            continue
        if reading is None:
            folder = entry.get("cwd")
            if not isinstance(folder, str):
                if entry.get("type") in ("user", "assistant", "attachment"):
                    counts.unknown += 1
                continue
            place = resolve(folder)
            if place is None:
                counts.elsewhere += 1
                return
            reading = _Session(place)
        try:
            yield from reading.entry(entry, line)
        except (TypeError, ValueError, KeyError, AttributeError):  # a form of another version
            counts.unknown += 1


def _decode(line: bytes) -> dict[str, Any] | None:
    try:
        entry = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        entry = _decode_tolerantly(line)
    return entry if isinstance(entry, dict) else None


def _decode_tolerantly(line: bytes) -> object:
    import json  # noqa: PLC0415 - takes lone surrogates, which the fast decoder does not

    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _text(values: object, key: str) -> str:
    value = values.get(key) if isinstance(values, dict) else None
    return value if isinstance(value, str) else ""


class _Session:
    """One transcript on its way: the calls of tools that have no answer yet."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.pending: dict[str, tuple[dict[str, Any], str]] = {}

    def entry(self, entry: dict[str, Any], line: bytes) -> Iterator[Imported]:
        """The events that one line completes."""
        if entry.get("type") == "attachment":
            yield from self.attachment(entry, line)
            return
        message = entry.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str):
            yield from self.typed(content, entry, line)
            return
        for block in content if isinstance(content, list) else ():
            kind = block.get("type") if isinstance(block, dict) else None
            if kind == "tool_use":
                self.called(block, line_identity(entry.get("uuid"), line))
            elif kind == "tool_result":
                yield from self.answered(block, entry)
            elif kind == "text" and entry.get("type") == "user":
                yield from self.typed(_text(block, "text"), entry, line)

    # -- uses

    def called(self, block: dict[str, Any], identity: str) -> None:
        """Keep a call of a tool until its answer comes."""
        own = block.get("id")
        if isinstance(own, str):
            if len(self.pending) >= _MOST_PENDING:
                self.pending.pop(next(iter(self.pending)))
            self.pending[own] = (block, identity)

    def answered(self, block: dict[str, Any], entry: dict[str, Any]) -> Iterator[Imported]:
        """The uses of a call that has succeeded."""
        own = _text(block, "tool_use_id")
        call, identity = self.pending.pop(own, (None, ""))
        if call is None or block.get("is_error") is True:
            return
        response = entry.get("toolUseResult")
        if not isinstance(response, (dict, list)) or not response:
            response = block.get("content")
        if response_is_stub(block.get("content")):
            return
        common = names_one_call(own)
        self.place.here = _text(entry, "cwd") or self.place.here
        for read in tool_reads(_text(call, "name"), call.get("input"), response, self.place):
            shown = _whole_file(response) if read.shown is None and not read.partial else read.shown
            measured = Measured(read.kind, read.slug, shown, partial=read.partial)
            yield Imported(
                self.event(entry, USE, read.source, [measured], own if common else identity), common=common
            )

    def typed(self, text: str, entry: dict[str, Any], line: bytes) -> Iterator[Imported]:
        """The use of a command that a person has typed. Built-in ones write their name first."""
        found = (
            _TYPED.match(text) if entry.get("type") == "user" and entry.get("isMeta") is not True else None
        )
        if found is None or (found[1] in BUILT_IN and find_skill(self.place, found[1]) is None):
            return
        prompt = entry.get("promptId")
        common = names_one_call(prompt)
        own = str(prompt) if common else line_identity(entry.get("uuid"), line)
        record = Measured("skill", found[1])
        yield Imported(self.event(entry, USE, "WorkflowInvoke", [record], own, actor="user"), common=common)

    # -- exposures

    def attachment(self, entry: dict[str, Any], line: bytes) -> Iterator[Imported]:
        """What a line shows to have been placed into the context."""
        attached = entry.get("attachment")
        kind = _text(attached, "type")
        handler = _ATTACHMENTS.get(kind)
        if handler is None or not isinstance(attached, dict) or not _reached_the_model(entry):
            return
        event, source, records, actor = handler(attached, self.place)
        if records:
            own = line_identity(entry.get("uuid"), line)
            yield Imported(self.event(entry, event, source, records, own, actor=actor), common=False)

    def event(
        self,
        entry: dict[str, Any],
        event: str,
        source: str,
        records: list[Measured],
        own: str,
        *,
        actor: str | None = None,
    ) -> Any:
        """The event of one line."""
        made = self.place.event(
            event,
            source,
            records,
            own_id=own,
            session_id=_text(entry, "sessionId"),
            actor="subagent" if entry.get("isSidechain") is True else actor or "agent",
        )
        made.occurred_at = parse_time(entry.get("timestamp"))
        return made


def response_is_stub(content: object) -> bool:
    """Whether the model was told that a file has not changed, in place of the file."""
    if isinstance(content, list):
        content = "".join(_text(block, "text") for block in content[:1])
    return isinstance(content, str) and content.lstrip().startswith("File unchanged since last read")


def _whole_file(response: object) -> bytes | None:
    """A file's content, where the answer shows all of it as text."""
    file = response.get("file") if isinstance(response, dict) and _text(response, "type") == "text" else None
    if isinstance(file, dict) and isinstance(file.get("content"), str) and file.get("startLine") in (None, 1):
        lines, total = file.get("numLines"), file.get("totalLines")
        if isinstance(lines, int) and lines == total:
            content: str = file["content"]
            return content.encode("utf-8", "surrogatepass")
    return None


def _reached_the_model(entry: dict[str, Any]) -> bool:
    """Versions that write what was rendered leave it out where nothing was; older ones never write it."""
    if "rendered" in entry:
        return bool(entry["rendered"])
    numbers = re.match(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})", _text(entry, "version"))
    return numbers is None or tuple(map(int, numbers.groups())) < _RENDERED_SINCE


_Placed = tuple[str, str, list[Measured], str | None]


def _placed_file(path: str, values: dict[str, Any], place: Place) -> Measured | None:
    """A file that was placed, with what its line shows of it."""
    if not path:
        return None
    kind, slug, _ = instructions_record(path, place)
    placed, raw = values.get("content"), values.get("rawContent")
    injected = placed.encode("utf-8", "surrogatepass") if isinstance(placed, str) else None
    if isinstance(raw, str):
        return Measured(kind, slug, raw.encode("utf-8", "surrogatepass"), injected=injected)
    if values.get("contentDiffersFromDisk") is True or slug == "MEMORY":
        return Measured(kind, slug, injected=injected)  # the file itself is not shown
    return Measured(kind, slug, injected)


def _instructions(attached: dict[str, Any], place: Place) -> _Placed:
    files = [file for file in attached.get("files") or () if isinstance(file, dict)]
    records = [_placed_file(_text(file, "path"), file, place) for file in files]
    return EXPOSURE, "ResidentInjection", [record for record in records if record is not None], None


def _nested_memory(attached: dict[str, Any], place: Place) -> _Placed:
    content = attached.get("content")
    values = content if isinstance(content, dict) else {"content": content}
    path = _text(attached, "path") or _text(values, "path")
    record = _placed_file(path, values, place)
    return EXPOSURE, "ResidentInjection", [] if record is None else [record], None


def _skill_listing(attached: dict[str, Any], place: Place) -> _Placed:
    names = [name for name in attached.get("names") or () if isinstance(name, str) and name.strip()]
    lines = skill_lines(_text(attached, "content"), set(names))
    if not names:
        names = list(lines)
    return EXPOSURE, "ResidentInjection", [Measured("skill", n, injected=lines.get(n)) for n in names], None


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


def _invoked_skills(attached: dict[str, Any], place: Place) -> _Placed:
    records = []
    for skill in attached.get("skills") or ():
        name, content = _text(skill, "name"), _text(skill, "content")
        if name.strip() and not name.startswith("["):  # a placeholder of an edited transcript
            records.append(Measured("skill", name, injected=content.encode("utf-8", "surrogatepass") or None))
    return EXPOSURE, "ResidentInjection", records, None


def _file(attached: dict[str, Any], place: Place) -> _Placed:
    """``@file`` in a prompt: a person has it read."""
    path = _text(attached, "filename") or _text(attached, "path")
    found = place.files.find(path)
    if found is None:
        return USE, "FileMention", [], None
    content = _whole_file(attached.get("content"))
    return USE, "FileMention", [Measured(found.kind, found.slug, content)], "user"


def _relevant_memories(attached: dict[str, Any], place: Place) -> _Placed:
    records = []
    for memory in attached.get("memories") or ():
        found = place.files.find(_text(memory, "path"))
        if found is not None:
            content = _text(memory, "content").encode("utf-8", "surrogatepass")
            records.append(Measured(found.kind, found.slug, injected=content or None))
    return EXPOSURE, "AutoRecall", records, None


_ATTACHMENTS = {
    "file": _file,
    "instructions": _instructions,
    "invoked_skills": _invoked_skills,
    "nested_memory": _nested_memory,
    "relevant_memories": _relevant_memories,
    "skill_listing": _skill_listing,
}
