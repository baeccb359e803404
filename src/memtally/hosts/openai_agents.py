"""OpenAI Agents: ``Runner.run(agent, prompt, hooks=MemtallyRunHooks({"read_note": ("memory", "name")}))``.

Only the function tools that are mapped read records. A call that fails is no use, although the SDK gives the
model a text in its place; hosted search tools never are.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

from memtally._calls import OpenCall
from memtally.decorators import drive_coroutine, has_content
from memtally.errors import InvalidValueError
from memtally.hosts._seam import Seam
from memtally.hosts._tools import ToolMap, tool_seams
from memtally.recording import guarded, recording_enabled

try:
    from agents import FunctionTool, RunHooks
except ImportError as error:
    raise ImportError(
        "The OpenAI Agents SDK is not installed: pip install 'memtally[openai-agents]'"
    ) from error

__all__ = ["MemtallyRunHooks"]

_MOST_OPEN = 10_000
_open: dict[str, list[dict[str, Seam]]] = {}
"""The calls of tools that hooks of ours have seen begin, by the call's id."""


class MemtallyRunHooks(RunHooks):
    """Run hooks that record the reads of mapped tools. ``then``: the application's own hooks, called as ever.

    The SDK runs hooks in tasks of their own, so they cannot stand around a call. They make sure that the
    tool's function does so itself, for the calls of this run. Raises ``InvalidValueError`` for a wrong
    mapping.
    """

    def __init__(self, tools: ToolMap, then: Any = None) -> None:
        if then is not None and not callable(getattr(then, "on_tool_end", None)):
            raise InvalidValueError("then", type(then).__name__, "no run hooks", "pass a RunHooks instance")
        self._seams = tool_seams(tools, _answer)
        self._then = RunHooks() if then is None else then

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """See that the call which begins now is recorded."""
        with guarded("record", "MemtallyRunHooks"):
            name, call_id = getattr(context, "tool_name", None), getattr(context, "tool_call_id", None)
            if name in self._seams and isinstance(tool, FunctionTool) and isinstance(call_id, str):
                _record_calls_of(tool)
                if len(_open) >= _MOST_OPEN:
                    _open.pop(next(iter(_open)))  # one that never went on to its function
                _open.setdefault(call_id, []).append(self._seams)
        await self._then.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        """Hand it on."""
        await self._then.on_tool_end(context, agent, tool, result)

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        """Hand it on."""
        await self._then.on_agent_start(context, agent)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        """Hand it on."""
        await self._then.on_agent_end(context, agent, output)

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        """Hand it on."""
        await self._then.on_handoff(context, from_agent, to_agent)

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        """Hand it on."""
        await self._then.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """Hand it on."""
        await self._then.on_llm_end(context, agent, response)


def _record_calls_of(tool: Any) -> None:
    """Have a tool's function look, whenever it is called, whether hooks of ours have seen the call begin.

    Below where the SDK makes a text of an exception: there a failure is still one.
    """
    invoker = tool.on_invoke_tool
    inner = getattr(invoker, "_invoke_tool_impl", None)
    if inner is None:
        if not hasattr(invoker, "__memtally__"):
            tool.on_invoke_tool = _recorded(invoker)
    elif not hasattr(inner, "__memtally__"):
        invoker._invoke_tool_impl = _recorded(inner)


def _recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    async def call(context: Any, arguments: str) -> Any:
        waiting = _open.get(getattr(context, "tool_call_id", ""), [])
        seams = waiting.pop() if waiting else None
        if not waiting:
            _open.pop(getattr(context, "tool_call_id", ""), None)
        named = _arguments(arguments)
        if seams is None or named is None or not recording_enabled():
            return await function(context, arguments)
        read = OpenCall(seams[context.tool_name], (), dict(named))
        return await drive_coroutine(function(context, arguments), read)

    functools.update_wrapper(call, function)
    call.__memtally__ = True  # type: ignore[attr-defined]
    return call


def _arguments(arguments: str) -> Mapping[str, Any] | None:
    try:
        named = json.loads(arguments) if arguments else {}
    except (ValueError, TypeError):
        return None
    return named if isinstance(named, dict) else None


def _answer(result: Any) -> tuple[bool, str | bytes | None]:
    """Whether a tool gave content, and the text that the model sees, where it is plain text."""
    if isinstance(result, (str, bytes)):
        return has_content(result), result
    text = result.get("text") if isinstance(result, dict) else getattr(result, "text", None)
    return has_content(result) and text != "", text if isinstance(text, str) else None
