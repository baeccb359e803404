"""Codex's rollouts: the uses and exposures that a past session's lines show.

Codex has no tool that reads a file: it shows files by shell commands, several of them in one call of late.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from memtally.events import EXPOSURE, USE, UsageEvent
from memtally.hosts._ids import names_one_call
from memtally.hosts._imported import Imported, ReadingCounts, Resolve, line_identity
from memtally.hosts._place import Place
from memtally.hosts._sizes import Measured
from memtally.hosts._values import text_of
from memtally.hosts.claude_code import shell_reads
from memtally.ledger.decode import parse_time

__all__ = ["occurrences", "shell_commands"]

_OF_INTEREST = re.compile(rb'"session_meta"|"turn_context"|_call"|_call_output"|"message"')
_EXIT_CODE = re.compile(r'(?:Process exited with code|Exit code:|"exit_code":)\s*(\d+)')
_AGENTS = re.compile(r"# AGENTS\.md instructions(?: for (?P<folder>[^\n]*))?\n")
_SKILL = re.compile(r"^- (\S[^\n]*?): .*\(file: [^\n]*SKILL\.md\)\s*$", re.MULTILINE)
_SUMMARY = re.compile(r"=+ MEMORY_SUMMARY BEGINS =+\n(.*?)\n=+ MEMORY_SUMMARY ENDS =+", re.DOTALL)
_CALL = re.compile(r"\bexec_command\s*\(\s*\{")
_STRING = r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`)"""
_COMMAND = re.compile(r"\bcmd[\"']?\s*:\s*" + _STRING, re.DOTALL)
_FOLDER = re.compile(r"\bworkdir[\"']?\s*:\s*" + _STRING, re.DOTALL)
_MOST_PENDING = 10_000


def occurrences(lines: Iterable[bytes], resolve: Resolve, counts: ReadingCounts) -> Iterator[Imported]:
    """The events of one rollout, in its order; none for a session of another workspace."""
    reading: _Rollout | None = None
    for line in lines:
        counts.lines += 1
        if not _OF_INTEREST.search(line):
            continue
        try:
            entry = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            entry = None
        payload = entry.get("payload") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(payload, dict):
            counts.unknown += 1
            continue
        if entry.get("type") == "session_meta" and reading is None:
            place = resolve(text_of(payload, "cwd"))
            if place is None:
                counts.elsewhere += 1
                return
            reading = _Rollout(place, payload)
        elif reading is not None:
            try:
                yield from reading.entry(entry, payload, line)
            except (TypeError, ValueError, KeyError, AttributeError):  # a form of another version
                counts.unknown += 1


class _Rollout:
    """One rollout on its way: where it is, and the calls that have no output yet."""

    def __init__(self, place: Place, meta: dict[str, Any]) -> None:
        self.place = place
        self.folder = text_of(meta, "cwd")
        self.session_id = text_of(meta, "id")
        # a hook is certain to name one of them, and not certain to give the calls the ids that stand here
        self.sessions = (self.session_id, text_of(meta, "session_id"))
        source = meta.get("source")
        self.actor = "subagent" if isinstance(source, dict) and "subagent" in source else "agent"
        self.pending: dict[str, list[tuple[str, str]]] = {}

    def entry(self, entry: dict[str, Any], payload: dict[str, Any], line: bytes) -> Iterator[Imported]:
        """The events that one line completes."""
        kind = payload.get("type")
        if entry.get("type") == "turn_context":
            self.folder = text_of(payload, "cwd") or self.folder
        elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
            if len(self.pending) >= _MOST_PENDING:
                self.pending.pop(next(iter(self.pending)))
            self.pending[text_of(payload, "call_id")] = shell_commands(payload, self.folder)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            yield from self.shown(entry, payload, line)
        elif kind == "message" and payload.get("role") in ("developer", "user", "system"):
            yield from self.placed(entry, payload, line)

    def shown(self, entry: dict[str, Any], payload: dict[str, Any], line: bytes) -> Iterator[Imported]:
        """The uses of a call, by its commands and what they have put out."""
        own = text_of(payload, "call_id")
        commands = self.pending.pop(own, [])
        if not commands or self.place.config.shell_reads is False:
            return
        output = _output(payload.get("output"))
        code = _EXIT_CODE.search(output[:2_000])
        if not output.strip() or (code is not None and code[1] != "0") or "Script failed" in output[:200]:
            return
        seen: dict[tuple[str, str], bool] = {}
        for command, folder in commands:
            for read in shell_reads(command, output, folder, self.place):
                key = (read.kind, read.slug)
                seen[key] = seen.get(key, True) and read.partial  # a call reads a record once
        for (record_kind, slug), partial in seen.items():
            record = Measured(record_kind, slug, partial=partial)
            identity = own if names_one_call(own) else line_identity(None, line)
            event = self.event(entry, USE, "ShellRead", [record], identity)
            yield Imported(event, common=False, sessions=self.sessions)

    def placed(self, entry: dict[str, Any], payload: dict[str, Any], line: bytes) -> Iterator[Imported]:
        """What a message places at the start: instructions, the listing of skills, the memory's summary."""
        for block in payload.get("content") or ():
            text = text_of(block, "text")
            records: list[Measured] = []
            if (found := _AGENTS.match(text)) is not None:
                folder = found["folder"] or self.folder
                slug = self.place.files.relative(f"{folder.rstrip('/')}/AGENTS.md")
                records = [Measured("instructions", slug, injected=_bytes(text[found.end() :].strip()))]
            elif "## Skills" in text[:200]:
                lines: dict[str, str] = {}
                for skill in _SKILL.finditer(text):  # two plugins may name theirs alike: both lines cost
                    lines[skill[1]] = f"{lines[skill[1]]}\n{skill[0]}" if skill[1] in lines else skill[0]
                records = [Measured("skill", name, injected=_bytes(said)) for name, said in lines.items()]
            elif (summary := _SUMMARY.search(text)) is not None:
                records = [Measured("memory", "memory_summary", injected=_bytes(summary[1]))]
            if records:
                own = f"{line_identity(None, line)}:{records[0].kind}"
                event = self.event(entry, EXPOSURE, "ResidentInjection", records, own)
                yield Imported(event, common=False, sessions=self.sessions)

    def event(
        self, entry: dict[str, Any], event: str, source: str, records: list[Measured], own: str
    ) -> UsageEvent:
        """The event of one line."""
        made = self.place.event(
            event, source, records, own_id=own, session_id=self.session_id, actor=self.actor
        )
        made.occurred_at = parse_time(entry.get("timestamp"))
        return made


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def shell_commands(call: dict[str, Any], folder: str) -> list[tuple[str, str]]:
    """The shell commands of a call of a tool, each with the folder that it was run in."""
    if call.get("type") == "local_shell_call":
        return _of_arguments(call.get("action"), folder)
    if call.get("type") == "custom_tool_call":
        return _of_script(text_of(call, "input"), folder) if call.get("name") == "exec" else []
    if call.get("name") not in ("exec_command", "shell", "shell_command", "container.exec"):
        return []
    try:
        return _of_arguments(json.loads(text_of(call, "arguments")), folder)
    except ValueError:
        return []


def _of_arguments(given: object, folder: str) -> list[tuple[str, str]]:
    if not isinstance(given, dict):
        return []
    command = given.get("cmd", given.get("command"))
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        import shlex  # noqa: PLC0415 - an older form

        command = shlex.join(command)
    workdir = text_of(given, "workdir") or text_of(given, "working_directory") or folder
    return [(command, workdir)] if isinstance(command, str) else []


def _of_script(script: str, folder: str) -> list[tuple[str, str]]:
    """The commands that a script of JavaScript gives to ``exec_command``, where they stand in it whole."""
    found = []
    starts = [match.end() for match in _CALL.finditer(script)]
    for start, end in zip(starts, [*starts, len(script)][1:], strict=True):
        command = _COMMAND.search(script, start, end)
        workdir = _FOLDER.search(script, start, end)
        text = None if command is None else _string(command[1])
        if text is not None:
            found.append((text, (None if workdir is None else _string(workdir[1])) or folder))
    return found


def _string(literal: str) -> str | None:
    """The value of a string of JavaScript; ``None`` where it is put together as the script runs."""
    if literal[0] == "`" and "${" in literal:
        return None
    body = literal[1:-1]
    if literal[0] != '"':
        body = re.sub(r"\\(['`$])", r"\1", body).replace("\\\n", "")
        body = re.sub(r'(?<!\\)((?:\\\\)*)"', r"\1\\" + '"', body).replace("\n", "\\n").replace("\t", "\\t")
    try:
        value = json.loads(f'"{body}"', strict=False)
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def _output(output: object) -> str:
    if isinstance(output, list):
        return "".join(text_of(block, "text") for block in output)
    return output if isinstance(output, str) else ""
