"""Gemini CLI: what a hook's payload says. Lean, for the host waits for it.

Reads of files and activated skills; what is placed at the start of a session no hook reports.
"""

from __future__ import annotations

import os

from memtally.hosts._place import ToolRead
from memtally.hosts._values import name_of, text_of
from memtally.hosts.claude_code import tool_reads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from memtally.events import UsageEvent
    from memtally.hosts._place import Place

__all__ = ["events_of"]


def events_of(payload: Mapping[str, Any], place: Place) -> list[UsageEvent]:
    """The events that one hook payload amounts to; none for what is no read."""
    given, response = payload.get("tool_input"), payload.get("tool_response")
    if payload.get("hook_event_name") != "AfterTool" or not isinstance(given, dict):
        return []
    if isinstance(response, dict) and response.get("error"):
        return []
    reads = _reads(payload.get("tool_name"), given, response, place)
    return place.uses(reads, None, text_of(payload, "session_id"))  # the host gives a call of a tool no id


def _reads(tool: object, given: Mapping[str, Any], response: object, place: Place) -> list[ToolRead]:
    if tool == "read_file":
        path = given.get("file_path") or given.get("absolute_path")
        found = place.files.find(os.path.join(place.here, path)) if isinstance(path, str) else None
        if found is None:
            return []
        partial = any(given.get(key) is not None for key in ("offset", "limit", "start_line", "end_line"))
        return [ToolRead("MemoryRead", found.kind, found.slug, found.path, partial=partial)]
    if tool == "activate_skill":
        name = name_of(given, "name")
        return [ToolRead("SkillInvoke", "skill", name)] if name else []
    if isinstance(tool, str) and tool in place.config.tools:
        if isinstance(response, dict):
            response = response.get("llmContent")
        return tool_reads(tool, given, response, place)
    return []
