"""OpenAI Agents: ``Runner.run(agent, prompt, hooks=MemtallyRunHooks({"read_note": ("memory", "name")}))``.

Only the function tools that are mapped read records, those of MCP servers among them. A call that fails is no
use, although the SDK gives the model a text in its place; neither is an answer that a guardrail holds back.
Hosted search tools never are.
"""

from __future__ import annotations

import functools
import json
import types
import weakref
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from memtally._calls import OpenCall
from memtally.decorators import has_content
from memtally.errors import InvalidValueError
from memtally.hosts._seam import Seam
from memtally.hosts._tools import ToolMap, tool_seams
from memtally.recording import guarded, recording_enabled

try:
    from agents import FunctionTool, RunHooks, default_tool_error_function
except ImportError as error:
    raise ImportError(
        "The OpenAI Agents SDK is not installed: pip install 'memtally[openai-agents]'"
    ) from error

__all__ = ["MemtallyRunHooks"]

_SEARCHES = ("file_search", "web_search")
_MARK = "__memtally__"

_said: ContextVar[list[bool] | None] = ContextVar("memtally_openai_agents_said", default=None)
"""For the recorded call around it: of each call of an MCP server, whether it answered with an error."""


class MemtallyRunHooks(RunHooks):
    """Run hooks that record the reads of mapped tools. ``then``: the application's own hooks, called as ever.

    The SDK runs hooks in tasks of their own, so they cannot stand around a call. They make sure that the
    tool's function does so itself, for the calls of this run. Raises ``InvalidValueError`` for a wrong
    mapping.
    """

    def __init__(self, tools: ToolMap, then: Any = None) -> None:
        if then is not None and not callable(getattr(then, "on_tool_end", None)):
            raise InvalidValueError("then", type(then).__name__, "no run hooks", "pass a RunHooks instance")
        self._seams = tool_seams(tools, _answer, never=_SEARCHES)
        self._begun: weakref.WeakKeyDictionary[Any, _Begun] = weakref.WeakKeyDictionary()
        self._then = RunHooks() if then is None else then

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """See that the call which begins now is recorded."""
        with guarded("record", "MemtallyRunHooks"):
            seam = self._seams.get(getattr(context, "tool_name", ""))
            if seam is not None and isinstance(tool, FunctionTool) and recording_enabled():
                # what is none of the agent's own comes from one of its servers
                served = not any(own is tool for own in getattr(agent, "tools", None) or ())
                for server in (getattr(agent, "mcp_servers", None) or ()) if served else ():
                    with guarded("watch", "MemtallyRunHooks"):
                        _watch(server)
                waiting = _waiting_for(tool)
                waiting[:] = [begun for begun in waiting if begun.context() is not None]
                # where hooks of ours hand on to others of ours, the first ones have the say
                if not any(begun.context() is context for begun in waiting):
                    self._begun[context] = _Begun(seam, context, served)
                    waiting.append(self._begun[context])
        await self._then.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        """Record it, where the model gets what the tool's function gave."""
        with guarded("record", "MemtallyRunHooks"):
            begun = self._begun.pop(context, None)
            if begun is not None:
                begun.end(result)
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


class _Begun:
    """A call of a tool that hooks of ours have seen begin, until they see it end.

    Known by the object that is the call's context, never by the call's id: models of small servers say
    ``call_1`` in every run.
    """

    __slots__ = ("arguments", "call", "context", "result", "seam", "served", "usage")

    def __init__(self, seam: Seam, context: Any, served: bool) -> None:
        self.seam = seam
        self.served = served
        self.context = weakref.ref(context)
        self.arguments = context.tool_arguments
        self.usage = context.usage
        self.call: OpenCall | None = None
        self.result: Any = None

    def is_of(self, context: Any, arguments: object) -> bool:
        """Whether this is the call that a tool's function is given these for.

        A function that wants no more than the run's context gets a copy, which shares the run's usage.
        """
        if hasattr(context, "tool_call_id"):
            return self.context() is context
        return self.usage is getattr(context, "usage", None) and self.arguments == arguments

    async def around(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """What the tool's function gives, with reads inside it known to be this call's."""
        call = OpenCall(self.seam, (), dict(_named(self.arguments)))
        before = call.enter()
        said: list[bool] = []
        token = _said.set(said)
        try:
            result = await function(*args)
        except BaseException:
            call.failed()
            raise
        finally:
            call.leave(before)
            _said.reset(token)
        with guarded("record", "MemtallyRunHooks"):
            if self.served and any(said):
                call.failed()  # the SDK hands the error of an MCP server on like any other text
            else:
                call.read_now()
                self.call, self.result = call, result
        return result

    def end(self, result: Any) -> None:
        """The model gets ``result``: the read counts where it is what the function gave."""
        if self.call is None:
            return
        if result is self.result and has_content(result):
            self.call.returned(result)
        else:
            self.call.failed()


def _bound_to(invoker: Any) -> Any:
    """The object that a method is bound to."""
    return invoker.__self__ if isinstance(invoker, types.MethodType) else None


def _waiting_for(tool: Any) -> list[_Begun]:
    """The calls that a tool's function is still to be asked for. It looks there whenever it is called.

    Below where the SDK makes a text of an exception: there a failure is still one.
    """
    invoker = tool.on_invoke_tool
    inner = getattr(invoker, "_invoke_tool_impl", None)
    found: list[_Begun] | None = getattr(invoker if inner is None else inner, _MARK, None)
    if found is not None:
        return found
    made: list[_Begun] = []
    if inner is not None:
        invoker._invoke_tool_impl = _recorded(inner, made)
    elif _bound_to(invoker) is tool:
        # a copy of the tool binds its own method anew, and still has to
        tool.on_invoke_tool = types.MethodType(_recorded(invoker.__func__, made), tool)
    else:
        tool.on_invoke_tool = _recorded(invoker, made)
    return made


def _recorded(function: Callable[..., Any], waiting: list[_Begun]) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        begun = None
        if waiting and len(args) >= 2 and not kwargs:
            with guarded("record", "MemtallyRunHooks"):
                begun = next((b for b in waiting if b.is_of(args[-2], args[-1])), None)
                if begun is not None:
                    waiting.remove(begun)
        if begun is None:
            return await function(*args, **kwargs)
        return await begun.around(function, args)

    functools.update_wrapper(call, function)
    setattr(call, _MARK, waiting)
    return call


def _watch(server: Any) -> None:
    """Have an MCP server's calls say whether they failed, which the SDK does not."""
    asked = server.call_tool
    if hasattr(asked, _MARK):
        return

    @functools.wraps(asked)
    async def call_tool(*args: Any, **kwargs: Any) -> Any:
        result = await asked(*args, **kwargs)
        with guarded("record", "MemtallyRunHooks"):
            said = _said.get()
            if said is not None:
                failed = getattr(
                    result, "is_error", None
                )  # by MCP's second release; some warn of the first's name
                said.append(bool(getattr(result, "isError", False) if failed is None else failed))
        return result

    setattr(call_tool, _MARK, True)
    server.call_tool = call_tool


def _named(arguments: object) -> Mapping[str, Any]:
    try:
        named = json.loads(arguments) if isinstance(arguments, str) and arguments else {}
    except (ValueError, RecursionError):
        return {}
    return named if isinstance(named, dict) else {}


def _answer(result: Any) -> tuple[bool, str | bytes | None]:
    """Whether a tool gave content, and the text that the model sees, where it is plain text."""
    if isinstance(result, (str, bytes)):
        # the SDK's text of a failure gets here where an application's own function is around the SDK's
        return has_content(result) and result != default_tool_error_function(None, Exception()), result
    if not has_content(result):
        return False, None
    parts = [_text(part) for part in (result if isinstance(result, list) else [result])]
    text = None if None in parts else "".join(filter(None, parts))
    return text != "", text


def _text(part: Any) -> str | None:
    """The text of a part that the SDK knows for text: its class of them, or a dictionary of that form."""
    if isinstance(part, dict):
        text = part.get("text") if part.get("type") == "text" else None
    else:
        try:
            text = part.text if part.type == "text" else None
        except Exception:  # another type has neither, and a host's own may fail at anything asked of it
            text = None
    return text if isinstance(text, str) else None
