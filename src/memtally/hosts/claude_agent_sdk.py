"""Claude Agent SDK: ``ClaudeAgentOptions(hooks=memtally.hosts.claude_agent_sdk.hooks())``.

Records go the way of ``memtally.configure()``. The SDK's Python has no hook for what a session starts with:
its exposures are recorded by ``memtally install claude-code``, or found by ``memtally import claude-code``.
A call that both report counts once.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from typing import Any

from memtally import tokens
from memtally._content import decode_text
from memtally._discovery import find_root
from memtally.hosts._place import Place, open_place
from memtally.hosts.claude_code import events_of
from memtally.hosts.hooking import config_folder_of
from memtally.recording import emit_event, guarded, recording_enabled

try:
    from claude_agent_sdk import HookMatcher
except ImportError as error:
    raise ImportError(
        "The Claude Agent SDK is not installed: pip install 'memtally[claude-agent-sdk]'"
    ) from error

__all__ = ["hooks"]

_HOST = "claude-code"
_MOST_PLACES = 64


def hooks(workspace: str | os.PathLike[str] | None = None) -> dict[str, list[Any]]:
    """Hooks that record what Claude reads: files that are records, skills, typed commands, mapped tools.

    To be merged with the application's own. ``workspace``: by default that of the folder which Claude works
    in; its configuration says which files are records, and ``[tools]`` which tools of MCP servers read one.
    Raises ``WorkspaceError`` and ``ConfigError`` for a wrong one.
    """
    named = None if workspace is None else find_root(workspace)[0]
    home = os.path.expanduser("~")
    folder = config_folder_of(_HOST, home)

    @functools.lru_cache(_MOST_PLACES)
    def place_at(root: str, here: str) -> Place:
        return open_place(_HOST, root, home, folder, _count_all, here)

    place = place_at(named or find_root()[0], os.getcwd())

    async def record(payload: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        with guarded("record", "claude_agent_sdk hook"):
            if recording_enabled() and isinstance(payload, dict):
                for event in events_of(payload, _place(payload)):
                    emit_event(event)
        return {}

    def _place(payload: dict[str, Any]) -> Place:
        # what a command names is relative to Claude's folder, which need not be this process's
        here = payload.get("cwd")
        here = here if isinstance(here, str) and here else os.getcwd()
        found = place_at(named or find_root(None, here)[0], here)
        found.measured_files.clear()  # for hook processes, which end; here it would only grow
        return found

    # which tools read records, the workspace says; where each call's folder names it, any tool may be one
    matcher = None if named is None else _matcher(place)
    return {
        "PostToolUse": [HookMatcher(matcher=matcher, hooks=[record])],
        "UserPromptSubmit": [HookMatcher(hooks=[record])],
        "SubagentStart": [HookMatcher(hooks=[record])],
        "SubagentStop": [HookMatcher(hooks=[record])],
    }


def _matcher(place: Place) -> str:
    shell = ["Bash"] if place.config.shell_reads else []
    return "|".join(["Read", "Skill", *shell, *map(re.escape, sorted(place.config.tools))])


def _count_all(texts: Sequence[bytes]) -> tuple[list[int], str]:
    """Estimates by the process's tokenizer; by the formula for all, where one is by it."""
    made = [tokens.estimate(decode_text(text)) for text in texts]
    if len({tokenizer for _, tokenizer in made}) > 1:
        return [tokens.script_estimate(decode_text(text)) for text in texts], tokens.SCRIPT_ESTIMATE
    return [count for count, _ in made], made[0][1]
