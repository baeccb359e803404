"""Claude Code: what a hook's payload says, by the rules of counting. Lean, for it runs on every tool call.

One authority for each kind of exposure: instructions and rules by ``InstructionsLoaded``; what no hook
reports (``MEMORY.md``, the listing of skills, a subagent's memory) is worked out when a session or subagent
starts, and only as far as it is certain.
"""

from __future__ import annotations

import os

from memtally._files import open_regular
from memtally._stamps import microseconds_of
from memtally.events import USE
from memtally.hosts._attachments import instructions_record, placed_by
from memtally.hosts._front_matter import front_matter
from memtally.hosts._ids import is_uuid
from memtally.hosts._place import ToolRead
from memtally.hosts._sizes import Measured, measure_file
from memtally.hosts._skills import find_skill, listing, memory_head
from memtally.hosts._values import name_of, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from memtally.events import UsageEvent
    from memtally.hosts._place import Place

_MOST_OF_TRANSCRIPT = 1_048_576
_MOST_LINES = 200
"""What a subagent starts with stands in the first lines of its transcript."""

__all__ = [
    "BUILT_IN",
    "events_of",
    "response_text",
    "shell_reads",
    "tool_reads",
]

_BUILT_IN = """
add-dir agents allowed-tools auto-mode-setup background batch bashes btw bug chrome claude-api clear color
compact config context continue copy cost debug desktop diff doctor effort exit export extra-usage fast
feedback focus fork goal heapdump help hooks ide init insights install-github-app install-slack-app
keybindings login logout loop mcp memory migrate-installer mobile model new output-style output-style:new
passes permissions plan plugin plugins powerup pr-comments privacy-settings quit rate-limit-options recap
release-notes reload-plugins reload-skills remote-control remote-env rename reset resume review rewind sandbox
schedule scroll-speed security-review settings setup-bedrock setup-vertex simplify skills stats status
statusline stickers stop tasks team-onboarding teleport terminal-setup theme think-back todos tui ultraplan
ultrareview upgrade usage usage-credits vim voice web-setup
"""
BUILT_IN = frozenset(_BUILT_IN.split())
"""Commands of Claude Code itself, which are no records unless a workspace has one of that name."""


def events_of(payload: Mapping[str, Any], place: Place) -> list[UsageEvent]:
    """The events that one hook payload amounts to; none for what is no read and no placing."""
    handler = _HANDLERS.get(text_of(payload, "hook_event_name"))
    return [] if handler is None else handler(payload, place)


def _actor(payload: Mapping[str, Any]) -> str:
    return "subagent" if text_of(payload, "agent_id") else "agent"


# -- uses --------------------------------------------------------------------------------------------


def _post_tool_use(payload: Mapping[str, Any], place: Place) -> list[UsageEvent]:
    reads = tool_reads(
        text_of(payload, "tool_name"), payload.get("tool_input"), payload.get("tool_response"), place
    )
    session = text_of(payload, "session_id")
    return place.uses(reads, payload.get("tool_use_id"), session, actor=_actor(payload))


def tool_reads(tool: str, given: object, response: object, place: Place) -> list[ToolRead]:
    """The records that a call of a tool has read; none where it failed."""
    if not isinstance(given, dict) or _failed(response):
        return []
    if tool == "Read":
        found = place.files.find(text_of(given, "file_path"))
        if found is None or _unchanged(response):
            return []
        return [ToolRead("MemoryRead", found.kind, found.slug, found.path, partial=_partial(given, response))]
    if tool == "Skill":
        name = name_of(given, "skill")
        return [ToolRead("SkillInvoke", "skill", name, find_skill(place, name))] if name else []
    if tool in place.config.tools:
        kind, argument = place.config.tools[tool]
        slug, text = name_of(given, argument), response_text(response)
        return (
            [ToolRead("MemoryRead", kind, slug, shown=text.encode("utf-8", "replace"))]
            if slug and text
            else []
        )
    if tool == "Bash" and place.config.shell_reads:
        return shell_reads(text_of(given, "command"), response_text(response), place.here, place)
    return []


def shell_reads(command: str, output: str, folder: str, place: Place) -> list[ToolRead]:
    """The records that a shell command has shown, by what it is and what it said of files it lacks."""
    from memtally.hosts._shell import files_read  # noqa: PLC0415 - only where it is switched on

    found = [
        (place.files.find(path), whole)
        for path, whole in files_read(command, folder, place.home)
        if f"{os.path.basename(path)}: No such file" not in output
    ]
    return [
        ToolRead("ShellRead", record.kind, record.slug, record.path, partial=not whole)
        for record, whole in found
        if record is not None
    ]


def _failed(response: object) -> bool:
    """Whether a tool answered with an error although its hook is the one for successes."""
    if not isinstance(response, dict):
        return response in (None, "", [])
    return response.get("success") is False or any(
        response.get(key) is True for key in ("is_error", "isError")
    )


def _unchanged(response: object) -> bool:
    """Whether a stub stood in for the content: the file has not changed since it was read before."""
    if isinstance(response, dict):
        return text_of(response, "type") == "file_unchanged"
    return isinstance(response, str) and response.startswith("File unchanged since last read")


def _partial(given: Mapping[str, Any], response: object) -> bool:
    """Whether a read gave less than the whole file: by the lines that came, else by what was asked for."""
    file = response.get("file") if isinstance(response, dict) else None
    if isinstance(file, dict):
        lines, total = file.get("numLines"), file.get("totalLines")
        if isinstance(lines, int) and isinstance(total, int):
            return lines < total
    return given.get("offset") is not None or given.get("limit") is not None


def response_text(response: object) -> str:
    """The text of a tool's answer: itself, that of its content blocks, or what a command has put out."""
    if isinstance(response, str):
        return response
    if isinstance(response, dict) and ("stdout" in response or "stderr" in response):
        return text_of(response, "stdout") + text_of(response, "stderr")
    if isinstance(response, dict):
        response = response.get("content", response.get("text"))
        if isinstance(response, str):
            return response
    if isinstance(response, list):
        return "".join(text_of(block, "text") for block in response)
    return ""


def _expansion(payload: Mapping[str, Any], place: Place) -> list[UsageEvent]:
    if text_of(payload, "expansion_type") not in ("slash_command", ""):
        return []  # a prompt of an MCP server is no record
    return _typed(name_of(payload, "command_name").removeprefix("/"), payload, place, known=False)


def _prompt(payload: Mapping[str, Any], place: Place) -> list[UsageEvent]:
    """A typed command of a host that has no ``UserPromptExpansion``, or its second report of one prompt."""
    text = text_of(payload, "prompt")
    words = text[1:].split(None, 1) if text.startswith("/") and text[1:2].strip() else []
    return _typed(words[0], payload, place, known=True) if words else []


def _typed(name: str, payload: Mapping[str, Any], place: Place, *, known: bool) -> list[UsageEvent]:
    path = find_skill(place, name)
    if not name or (path is None and (known or name in BUILT_IN)):
        return []
    prompt = text_of(payload, "prompt_id")
    return [
        place.event(
            USE,
            "WorkflowInvoke",
            [measure_file("skill", name, path)],
            own_id=prompt or None,
            session_id=text_of(payload, "session_id"),
            actor="user",
        )
    ]


# -- exposures ---------------------------------------------------------------------------------------


def _instructions(payload: Mapping[str, Any], place: Place) -> list[UsageEvent]:
    path = text_of(payload, "file_path")
    if not path:
        return []
    record = measure_file(*instructions_record(path, place))
    return place.exposure([record], text_of(payload, "session_id"), actor=_actor(payload))


def _session_start(payload: Mapping[str, Any], place: Place) -> list[UsageEvent]:
    session = text_of(payload, "session_id")
    memory = _memory_index(payload, place)
    return [*place.exposure(memory, session), *place.exposure(listing(place), session)]


def _memory_index(payload: Mapping[str, Any], place: Place) -> list[Measured]:
    """``MEMORY.md`` of the session's project, as far as it is placed."""
    folder = auto_memory_folder(place, text_of(payload, "transcript_path"))
    path = None if folder is None else os.path.join(folder, "MEMORY.md")
    if path is None or not os.path.isfile(path):
        return []
    return [memory_head(measure_file("memory", "MEMORY", path))]


def auto_memory_folder(place: Place, transcript: str) -> str | None:
    """The folder of the project's automatic memory; ``None`` where it is switched off."""
    from memtally.hosts._settings import claude_settings  # noqa: PLC0415 - at the start of a session only

    settings = claude_settings(place.config_folder, place.root)
    if settings.get("autoMemoryEnabled") is False or os.environ.get("CLAUDE_CODE_DISABLE_AUTO_MEMORY") == "1":
        return None
    named = settings.get("autoMemoryDirectory")
    if isinstance(named, str) and named:
        return os.path.expanduser(named)
    from memtally._presets import project_folder  # noqa: PLC0415 - as above

    by_root = os.path.join(place.config_folder, "projects", project_folder(place.root))
    folders = [by_root, *([os.path.dirname(transcript)] if os.path.isabs(transcript) else [])]
    # a linked worktree has a folder of its own for transcripts, and shares the memory of the main one
    for folder in reversed(folders):
        if os.path.isdir(os.path.join(folder, "memory")):
            return os.path.join(folder, "memory")
    return None


def _subagent_start(payload: Mapping[str, Any], place: Place) -> list[UsageEvent]:
    """What a subagent's definition has it start with: its own memory, and skills that it is given whole."""
    name = text_of(payload, "agent_type")
    text = _agent_definition(place, name)
    if text is None:
        return []
    matter = front_matter(text)
    scopes = {
        "user": os.path.join(place.config_folder, "agent-memory"),
        "project": os.path.join(place.root, ".claude", "agent-memory"),
        "local": os.path.join(place.root, ".claude", "agent-memory-local"),
    }
    records = []
    if (scope := scopes.get(matter.get("memory", ""))) is not None:
        path = os.path.join(scope, name, "MEMORY.md")
        found = place.files.find(path) if os.path.isfile(path) else None
        if found is not None:
            records.append(memory_head(measure_file(found.kind, found.slug, found.path)))
    for skill in matter.get("skills", "").replace(",", "\n").split("\n"):
        if (path_of_skill := find_skill(place, skill.strip())) is not None:
            records.append(measure_file("skill", skill.strip(), path_of_skill))
    return place.exposure(records, text_of(payload, "session_id"), actor="subagent")


def _subagent_stop(payload: Mapping[str, Any], place: Place) -> list[UsageEvent]:
    """What its transcript shows a subagent to have started with, which no hook reports: instructions, and the
    listing of skills. The ids are those of the lines, as an import has them.
    """
    import json  # noqa: PLC0415 - loaded with the hook

    found = []
    for line in _first_lines(text_of(payload, "agent_transcript_path")):
        if b'"attachment"' not in line:
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(entry, dict) or not is_uuid(entry.get("uuid")):
            continue
        if text_of(entry.get("attachment"), "type") not in ("instructions", "skill_listing"):
            continue  # rules that a path has brought in are reported as they come
        placed = placed_by(entry, place)
        if placed is not None:
            event = place.event(
                placed.event,
                placed.source,
                placed.records,
                own_id=text_of(entry, "uuid"),
                session_id=text_of(payload, "session_id"),
                actor="subagent",
                occurred_at=microseconds_of(entry.get("timestamp")),
            )
            found.append(event)
    return found


def _first_lines(path: str) -> list[bytes]:
    try:
        with open(open_regular(path), "rb") as stream:
            return stream.read(_MOST_OF_TRANSCRIPT).split(b"\n")[:_MOST_LINES]
    except (OSError, ValueError):
        return []


def _agent_definition(place: Place, name: str) -> str | None:
    if not name or "/" in name or "\\" in name or name.startswith("."):
        return None
    for folder in (os.path.join(place.root, ".claude"), place.config_folder):
        record = measure_file("agent", name, os.path.join(folder, "agents", f"{name}.md"))
        if record.content is not None:
            return record.content.decode("utf-8", "replace")
    return None


_HANDLERS = {
    "PostToolUse": _post_tool_use,
    "UserPromptExpansion": _expansion,
    "UserPromptSubmit": _prompt,
    "InstructionsLoaded": _instructions,
    "SessionStart": _session_start,
    "SubagentStart": _subagent_start,
    "SubagentStop": _subagent_stop,
}
