"""Google's ADK: ``Runner(..., plugins=[MemtallyPlugin({"read_note": ("memory", "name")})])``.

Only the mapped tools read records, and ``load_skill``, which is there without being mapped. What answers with
an error is no use; ``load_memory`` and ``preload_memory`` search, and never are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memtally._calls import Instrumented, OpenCall
from memtally.context import current_session_id, session
from memtally.hosts._tools import ToolMap, tool_settings
from memtally.recording import guarded, recording_enabled

try:
    from google.adk.plugins.base_plugin import BasePlugin
except ImportError as error:
    raise ImportError("Google's ADK is not installed: pip install 'memtally[adk]'") from error

__all__ = ["MemtallyPlugin"]

_SEARCHES = ("load_memory", "preload_memory")
_MOST_OPEN = 10_000


class MemtallyPlugin(BasePlugin):
    """A plugin that records the reads of mapped tools, with the session of the ADK.

    Raises ``InvalidValueError`` for a wrong mapping, which a search tool in it is too.
    """

    def __init__(self, tools: ToolMap | None = None, name: str = "memtally") -> None:
        super().__init__(name=name)
        skills: ToolMap = {"load_skill": ("skill", "skill_name")}
        self._settings: dict[str, Instrumented] = {
            **tool_settings(skills, _content, source="SkillInvoke"),
            **tool_settings(tools or {}, _content, never=_SEARCHES),
        }
        self._open: dict[str, tuple[OpenCall, OpenCall | None, session]] = {}

    async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> None:
        """Begin a mapped tool's call."""
        with guarded("record", "MemtallyPlugin"):
            self._begin(tool, tool_args, tool_context)

    async def after_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, result: Any
    ) -> None:
        """End it, with what the tool gave."""
        with guarded("record", "MemtallyPlugin"):
            if tool_context.function_call_id not in self._open:
                self._begin(tool, tool_args, tool_context)  # another plugin has answered before our turn
            self._end(tool_context, result)

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, error: BaseException
    ) -> None:
        """End it without a use."""
        with guarded("record", "MemtallyPlugin"):
            self._end(tool_context, None)

    def _begin(self, tool: Any, arguments: Mapping[str, Any], context: Any) -> None:
        settings = self._settings.get(tool.name)
        if settings is None or not recording_enabled() or not context.function_call_id:
            return
        block = session(current_session_id() or getattr(context.session, "id", None))
        block.__enter__()
        call = OpenCall(settings, (), dict(arguments))
        if len(self._open) >= _MOST_OPEN:
            self._open.pop(next(iter(self._open)))
        self._open[context.function_call_id] = (call, call.enter(), block)

    def _end(self, context: Any, result: Any) -> None:
        found = self._open.pop(context.function_call_id, None)
        if found is None:
            return
        call, before, block = found
        call.leave(before)
        if result is None:
            call.failed()
        else:
            call.returned(result)
        block.__exit__(None, None, None)


def _content(result: Any) -> str | None:
    """What a tool's answer holds: of a skill its instructions; nothing of one that says it is an error."""
    if not isinstance(result, dict):
        return result if isinstance(result, str) else None
    if result.get("error"):
        return None
    for name in ("instructions", "result", "content", "text", "output"):
        if isinstance(result.get(name), str):
            text: str = result[name]
            return text
    return json.dumps(result, ensure_ascii=False, default=str)
