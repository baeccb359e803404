"""Google's ADK: ``Runner(..., plugins=[MemtallyPlugin({"read_note": ("memory", "name")})])``.

Only the mapped tools read records, and ``load_skill``, which is there without being mapped. What answers with
an error is no use; ``load_memory`` and ``preload_memory`` search, and never are. What ``preload_memory`` puts
into a prompt names no record, so that it is no exposure of one either.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Mapping
from typing import Any

from memtally._calls import OpenCall
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
_MARK = "__memtally__"

_seen: weakref.WeakKeyDictionary[Any, _Seen] = weakref.WeakKeyDictionary()
"""Calls in progress, by the object that is a call's context; never by its id, which some models repeat."""


class MemtallyPlugin(BasePlugin):
    """A plugin that records the reads of mapped tools, with the session of the ADK.

    The ADK asks no further plugin once one has answered, so that the place among the plugins would decide
    what this one sees. It has the tool itself say how a call went; what is said later is not the tool's own.
    Raises ``InvalidValueError`` for a wrong mapping, which a search tool in it is too.
    """

    def __init__(self, tools: ToolMap | None = None, name: str = "memtally") -> None:
        super().__init__(name=name)
        skills: ToolMap = {"load_skill": ("skill", "skill_name")}
        self._seams: dict[str, Seam] = {
            **tool_seams(skills, _answer, source="SkillInvoke"),
            **tool_seams(tools or {}, _answer, never=_SEARCHES),
        }

    async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> None:
        """Begin a tool's call."""
        with guarded("record", "MemtallyPlugin"):
            self._begin(tool, tool_args, tool_context)
            _watch(tool)

    async def after_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, result: Any
    ) -> None:
        """End it, where the tool has not run because another plugin answered for it."""
        with guarded("record", "MemtallyPlugin"):
            self._begin(tool, tool_args, tool_context)  # that one may have answered before our turn
            _end(tool_context, result)

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, error: BaseException
    ) -> None:
        """End it without a use, where it failed before the tool ran."""
        with guarded("record", "MemtallyPlugin"):
            _end(tool_context, None)

    def _begin(self, tool: Any, arguments: Mapping[str, Any], context: Any) -> None:
        if not recording_enabled():
            return
        if context not in _seen:
            _seen[context] = _Seen(context)
        _seen[context].open(self._seams.get(tool.name), arguments)


class _Seen:
    """One call of a tool. Each has a context of its own, in which what it reads has the ADK's session.

    So have the reads of an agent that is called as a tool: its own session is made for that call only.
    """

    __slots__ = ("_before", "_block", "_call", "_ended")

    def __init__(self, context: Any) -> None:
        self._ended = False
        self._call: OpenCall | None = None
        self._before: OpenCall | None = None
        self._block = session_of(lambda: context.session.id)
        self._block.__enter__()

    def open(self, seam: Seam | None, arguments: Mapping[str, Any]) -> None:
        """It is a read as this seam says; of several plugins of ours the first that maps it counts."""
        if seam is not None and self._call is None and not self._ended:
            self._call = OpenCall(seam, (), dict(arguments))
            self._before = self._call.enter()

    def end(self, result: Any) -> None:
        """The tool gave this, or failed (``None``)."""
        if self._ended:
            return
        self._ended = True
        if self._call is not None:
            self._call.leave(self._before)
            if has_content(result):
                self._call.returned(result)
            else:
                self._call.failed()
        self._block.__exit__(None, None, None)


def _end(context: Any, result: Any) -> None:
    found = None if context is None else _seen.get(context)
    if found is not None:
        found.end(result)


def _watch(tool: Any) -> None:
    """Have a tool end its calls itself."""
    inner = tool.run_async
    if hasattr(inner, _MARK):
        if getattr(inner, _MARK)() is tool:
            return
        del tool.run_async  # a copy of a tool that was watched, with the other one's method
        inner = tool.run_async

    @functools.wraps(inner)
    async def run_async(*args: Any, **kwargs: Any) -> Any:
        context = kwargs.get("tool_context")
        try:
            result = await inner(*args, **kwargs)
        except BaseException:
            with guarded("record", "MemtallyPlugin"):
                _end(context, None)
            raise
        with guarded("record", "MemtallyPlugin"):
            _end(context, result)
        return result

    setattr(run_async, _MARK, weakref.ref(tool))
    tool.run_async = run_async


def _answer(result: Any) -> tuple[bool, str | bytes | None]:
    """Whether a tool gave content, and what it is: of a skill its instructions, of others one text.

    The ADK makes a mapping of what a tool returns; one of its own is more than a record's text. An error is
    no content, be it said as the ADK's tools do (``error``), its guide has it (``status``) or MCP does.
    """
    if not isinstance(result, dict):
        return has_content(result), result if isinstance(result, (str, bytes)) else None
    if any(result.get(name) for name in ("error", "isError", "is_error")) or result.get("status") == "error":
        return False, None
    if "instructions" in result:
        value = result["instructions"]
    elif list(result) == ["result"]:
        value = result["result"]
    elif "isError" in result or "is_error" in result:
        return _of_mcp(result)
    else:
        return any(map(has_content, result.values())), None
    return has_content(value), value if isinstance(value, (str, bytes)) else None


def _of_mcp(result: Mapping[str, Any]) -> tuple[bool, str | None]:
    """The same of an MCP server's answer, whose content is a list of blocks."""
    blocks = result.get("content") or []
    texts = [block.get("text") if isinstance(block, dict) else None for block in blocks]
    if not texts or not all(isinstance(text, str) for text in texts):
        return bool(blocks) or has_content(result.get("structuredContent")), None
    text = "".join(text for text in texts if text)
    return bool(text), text
