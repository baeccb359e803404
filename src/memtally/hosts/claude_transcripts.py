"""Claude Code's transcripts: the uses and exposures that a past session's lines show.

The form is undocumented and has changed; what is not known is passed over and counted. What a line does not
show is unknown: today's file says nothing of the one that was read then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from memtally.events import USE
from memtally.hosts._attachments import placed_by, whole_file
from memtally.hosts._ids import names_one_call
from memtally.hosts._imported import Imported, ReadingCounts, Resolve, line_identity
from memtally.hosts._place import Place
from memtally.hosts._sizes import Measured
from memtally.hosts._skills import find_skill
from memtally.hosts._values import text_of
from memtally.hosts.claude_code import BUILT_IN, tool_reads
from memtally.ledger.decode import parse_time

__all__ = ["occurrences"]

_OF_INTEREST = re.compile(rb'"tool_use"|"tool_result"|"attachment"|<command-(?:name|message)>|"cwd"')
_TYPED = re.compile(
    r"\s*<command-message>[^<]{0,500}</command-message>\s*<command-name>\s*/?([^<\s]{1,300})\s*</command-name>"
)
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
                yield from self.typed(text_of(block, "text"), entry, line)

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
        own = text_of(block, "tool_use_id")
        call, identity = self.pending.pop(own, (None, ""))
        if call is None or block.get("is_error") is True:
            return
        response = entry.get("toolUseResult")
        if not isinstance(response, (dict, list)) or not response:
            response = block.get("content")
        if response_is_stub(block.get("content")):
            return
        common = names_one_call(own)
        self.place.here = text_of(entry, "cwd") or self.place.here
        for read in tool_reads(text_of(call, "name"), call.get("input"), response, self.place):
            shown = whole_file(response) if read.shown is None and not read.partial else read.shown
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
        placed = placed_by(entry, self.place)
        if placed is not None:
            own = line_identity(entry.get("uuid"), line)
            event = self.event(entry, placed.event, placed.source, placed.records, own, actor=placed.actor)
            yield Imported(event, common=False)

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
            session_id=text_of(entry, "sessionId"),
            actor="subagent" if entry.get("isSidechain") is True else actor or "agent",
        )
        made.occurred_at = parse_time(entry.get("timestamp"))
        return made


def response_is_stub(content: object) -> bool:
    """Whether the model was told that a file has not changed, in place of the file."""
    if isinstance(content, list):
        content = "".join(text_of(block, "text") for block in content[:1])
    return isinstance(content, str) and content.lstrip().startswith("File unchanged since last read")
