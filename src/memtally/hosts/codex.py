"""Codex: what a hook's payload says. Lean, for it runs on every tool call.

Codex shows files by shell commands, so those count unless the workspace says ``shell_reads = false``. What
it places at the start of a session no hook reports: an import finds it in the rollout.
"""

from __future__ import annotations

from memtally.hosts._values import text_of
from memtally.hosts.claude_code import response_text, shell_reads, tool_reads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from memtally.events import UsageEvent
    from memtally.hosts._place import Place

__all__ = ["events_of"]


def events_of(payload: Mapping[str, Any], place: Place) -> list[UsageEvent]:
    """The events that one hook payload amounts to; none for what is no read."""
    if payload.get("hook_event_name") != "PostToolUse":
        return []
    tool, given, response = payload.get("tool_name"), payload.get("tool_input"), payload.get("tool_response")
    if tool == "Bash":
        command = given.get("command") if isinstance(given, dict) else None
        if not isinstance(command, str) or place.config.shell_reads is False or _failed(response):
            return []
        reads = shell_reads(command, response_text(response), place.here, place)
    elif isinstance(tool, str) and tool in place.config.tools:
        reads = tool_reads(tool, given, response, place)
    else:
        return []
    return place.uses(reads, payload.get("tool_use_id"), text_of(payload, "session_id"))


def _failed(response: object) -> bool:
    """Whether a command is known to have failed: by its exit code, where the answer has one."""
    if isinstance(response, dict):
        codes = [response.get("exit_code"), response.get("exitCode")]
        metadata = response.get("metadata")
        codes.append(metadata.get("exit_code") if isinstance(metadata, dict) else None)
        return any(isinstance(code, int) and code != 0 for code in codes)
    return False
