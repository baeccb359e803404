"""Google's ADK: ``Runner(..., plugins=[MemtallyPlugin({"read_note": ("memory", "name")})])``.

Only the mapped tools read records, and ``load_skill``, which is there without being mapped. What answers with
an error is no use; ``load_memory`` and ``preload_memory`` search, and never are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memtally._calls import OpenCall
from memtally.context import session
from memtally.decorators import has_content
from memtally.hosts._seam import Seam, session_of
from memtally.hosts._tools import ToolMap, tool_seams
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
        self._seams: dict[str, Seam] = {
            **tool_seams(skills, _answer, source="SkillInvoke"),
            **tool_seams(tools or {}, _answer, never=_SEARCHES),
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
        seam = self._seams.get(tool.name)
        if seam is None or not recording_enabled() or not context.function_call_id:
            return
        block = session_of(lambda: context.session.id)
        block.__enter__()
        call = OpenCall(seam, (), dict(arguments))
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


def _answer(result: Any) -> tuple[bool, str | None]:
    """Whether a tool gave content, and what it is: of a skill its instructions, of others one text.

    The ADK makes a mapping of what a tool returns; one of its own is more than a record's text.
    """
    if not isinstance(result, dict):
        return has_content(result), result if isinstance(result, str) else None
    if result.get("error"):
        return False, None
    if "instructions" in result:
        value = result["instructions"]
    elif list(result) == ["result"]:
        value = result["result"]
    else:
        return has_content(result), None
    return has_content(value), value if isinstance(value, str) else None
