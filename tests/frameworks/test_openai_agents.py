"""The OpenAI Agents SDK's real runner; only its model, which would ask the network, is scripted."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    Model,
    ModelResponse,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    Runner,
    RunResult,
    ToolCallOutputItem,
    ToolGuardrailFunctionOutput,
    Usage,
    UserError,
    function_tool,
    set_tracing_disabled,
    tool_output_guardrail,
)
from agents.mcp import MCPServerStdio
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

import memtally
from memtally import MemoryRecord, RecordUsage
from memtally.hosts.openai_agents import MemtallyRunHooks
from memtally.testing import Captured

set_tracing_disabled(True)
NOTES = {"plan": "the plan", "empty": ""}


class Script(Model):
    """A model that calls these tools, in turns, and then is done."""

    def __init__(self, *turns: list[tuple[str, dict[str, Any]]]) -> None:
        self.turns = list(turns)
        self.calls = 0

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        if not self.turns:
            text = ResponseOutputText(text="done", type="output_text", annotations=[])
            said = ResponseOutputMessage(
                id="m", content=[text], role="assistant", status="completed", type="message"
            )
            return ModelResponse(output=[said], usage=Usage(), response_id=None)
        output = []
        for name, arguments in self.turns.pop(0):
            self.calls += 1
            output.append(
                ResponseFunctionToolCall(
                    arguments=json.dumps(arguments),
                    call_id=f"call_{self.calls}",
                    name=name,
                    type="function_call",
                )
            )
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        answer = await self.get_response()
        response = Response(
            id="r",
            created_at=0,
            model="script",
            object="response",
            output=answer.output,
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(response=response, sequence_number=0, type="response.completed")


@function_tool
def read_note(name: str) -> str:
    """Read a note."""
    return NOTES[name]


@function_tool
def search_notes(query: str) -> str:
    """Search the notes."""
    return "the plan"


async def go(*turns: list[tuple[str, dict[str, Any]]], hooks: Any, **parts: Any) -> RunResult:
    """One run with a scripted model."""
    agent = Agent(name="a", model=Script(*turns), **parts)
    return await Runner.run(agent, "go", hooks=hooks, run_config=RunConfig(tracing_disabled=True))


def run(*turns: list[tuple[str, dict[str, Any]]], tools: list[Any], hooks: Any) -> str:
    """One run with a scripted model; its final answer."""
    return str(asyncio.run(go(*turns, tools=tools, hooks=hooks)).final_output)


def outputs(done: RunResult) -> list[Any]:
    """What the model was given as the answers of its tools."""
    return [item.output for item in done.new_items if isinstance(item, ToolCallOutputItem)]


def test_a_mapped_tool_is_a_use(captured: Captured) -> None:
    """A mapped tool that answers counts, once for each call; others do not."""
    hooks = MemtallyRunHooks({"read_note": ("memory", "name")})
    turns = (
        [("read_note", {"name": "plan"}), ("search_notes", {"query": "plan"})],
        [("read_note", {"name": "plan"})],
    )
    assert run(*turns, tools=[read_note, search_notes], hooks=hooks) == "done"
    found = [(event.source, event.records[0].key, event.records[0].file_bytes) for event in captured.events]
    assert found == [("MemoryRead", ("memory", "plan"), 8)] * 2


@pytest.mark.parametrize("handler", ["default", "own", "none"])
def test_a_failing_tool_is_no_use(captured: Captured, handler: str) -> None:
    """Whatever text the SDK makes of an exception, the failed call counts for nothing, nor an empty answer."""
    options: dict[str, Any] = {
        "default": {},
        "own": {"failure_error_function": lambda context, error: "sorry: no note"},
        "none": {"failure_error_function": None},
    }[handler]

    @function_tool(**options)
    def read(name: str) -> str:
        """Read."""
        return NOTES[name]

    hooks = MemtallyRunHooks({"read": ("memory", "name")})
    calls = [("read", {"name": "gone"})]
    if handler == "none":
        with pytest.raises(Exception, match="gone"):
            run(calls, tools=[read], hooks=hooks)
    else:
        assert run(calls, [("read", {"name": "empty"})], tools=[read], hooks=hooks) == "done"
    assert captured.events == []


def test_a_decorated_reader_beneath_is_the_same_read(captured: Captured) -> None:
    """A tool whose function calls a decorated reader, in a thread or in the loop, counts one read."""

    @memtally.instrument_read("MemoryRead")
    def memory_read(kind: str, slug: str) -> str:
        return "text"

    @function_tool
    def in_thread(name: str) -> str:
        """Read."""
        return memory_read("memory", name)

    @function_tool
    async def in_loop(name: str) -> str:
        """Read."""
        return memory_read("memory", name) + memory_read("decision", "other")

    hooks = MemtallyRunHooks({"in_thread": ("memory", "name"), "in_loop": ("memory", "name")})
    calls = [("in_thread", {"name": "a"}), ("in_loop", {"name": "b"}), ("in_loop", {"name": "c"})]
    run(calls, tools=[in_thread, in_loop], hooks=hooks)
    found = sorted("/".join(event.records[0].key) for event in captured.events)
    assert found == ["decision/other", "decision/other", "memory/a", "memory/b", "memory/c"]


def test_only_the_runs_with_hooks_are_recorded(captured: Captured) -> None:
    """A tool that has been recorded once is silent in a run without the hooks, and counts once with new ones."""
    calls = [("read_note", {"name": "plan"})]
    for _ in range(3):
        run(calls, tools=[read_note], hooks=MemtallyRunHooks({"read_note": ("memory", "name")}))
    assert len(captured.events) == 3
    run(calls, tools=[read_note], hooks=None)
    assert len(captured.events) == 3


def test_a_tool_of_ones_own_class(captured: Captured) -> None:
    """A FunctionTool that is made by hand is recorded too, and its failure is one."""

    async def invoke(context: Any, arguments: str) -> Any:
        return {"type": "text", "text": NOTES[json.loads(arguments)["name"]]}

    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    tool = FunctionTool(name="read", description="d", params_json_schema=schema, on_invoke_tool=invoke)
    hooks = MemtallyRunHooks({"read": lambda arguments, result: MemoryRecord("decision", arguments["name"])})
    run([("read", {"name": "plan"})], tools=[tool], hooks=hooks)
    assert [event.records[0].key for event in captured.events] == [("decision", "plan")]
    with pytest.raises(Exception, match="gone"):
        run([("read", {"name": "gone"})], tools=[tool], hooks=hooks)
    assert len(captured.events) == 1


def test_the_applications_own_hooks_are_called(captured: Captured) -> None:
    """then= gets every call that it would get alone."""

    class Own(RunHooks):
        def __init__(self) -> None:
            self.seen: list[str] = []

        async def on_agent_start(self, context: Any, agent: Any) -> None:
            self.seen.append("agent_start")

        async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
            self.seen.append(f"agent_end {output}")

        async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
            self.seen.append("llm_start")

        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            self.seen.append("llm_end")

        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            self.seen.append(f"tool_start {tool.name}")

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            self.seen.append(f"tool_end {result}")

    own = Own()
    hooks = MemtallyRunHooks({"read_note": ("memory", "name")}, then=own)
    run([("read_note", {"name": "plan"})], tools=[read_note], hooks=hooks)
    assert own.seen == [
        *("agent_start", "llm_start", "llm_end", "tool_start read_note", "tool_end the plan"),
        *("llm_start", "llm_end", "agent_end done"),
    ]


def test_what_is_wrong_is_refused() -> None:
    """A mapping or hooks that can be none are an error at once."""
    with pytest.raises(memtally.InvalidValueError, match="kind, argument"):
        MemtallyRunHooks({"read_note": "memory"})  # type: ignore[dict-item]
    with pytest.raises(memtally.InvalidValueError, match="no run hooks"):
        MemtallyRunHooks({}, then=object())
    with pytest.raises(memtally.InvalidValueError, match="a search is no use"):
        MemtallyRunHooks({"file_search": ("memory", "query")})


def test_from_the_run_to_the_report(figures: Callable[[], dict[str, RecordUsage]]) -> None:
    """Calls end up in the workspace's report, with the session around the run."""
    hooks = MemtallyRunHooks({"read_note": ("memory", "name")})
    with memtally.session("s1"):
        run([("read_note", {"name": "plan"})] * 2, tools=[read_note], hooks=hooks)
    found = figures()["memory/plan"]
    assert (found.use_count, found.file_bytes) == (2, 8)


def test_whatever_a_tool_answers_with_is_a_read(captured: Captured) -> None:
    """A result that is no text counts, with unknown sizes, and reaches a function of the mapping whole."""

    @function_tool
    def as_dict(name: str) -> dict[str, str]:
        """Read."""
        return {"title": "t", "text": "b"}

    @function_tool
    def as_list(name: str) -> list[str]:
        """Read."""
        return ["x", "yz"] if name == "full" else []

    hooks = MemtallyRunHooks(
        {
            "as_dict": ("memory", "name"),
            "as_list": lambda arguments, result: MemoryRecord("memory", arguments["name"], "".join(result)),
        }
    )
    calls = [("as_dict", {"name": "d"}), ("as_list", {"name": "full"}), ("as_list", {"name": "none"})]
    run(*([call] for call in calls), tools=[as_dict, as_list], hooks=hooks)
    found = [(event.records[0].slug, event.records[0].file_bytes) for event in captured.events]
    assert found == [("d", None), ("full", 3)]


def test_runs_at_once_with_the_same_ids_of_calls_are_kept_apart(captured: Captured) -> None:
    """Two runs whose models both say call_1 count each their own, and neither tool fails for the other."""

    class Slow(RunHooks):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            await asyncio.sleep(0.05)

    @function_tool
    async def other(name: str) -> str:
        """Read."""
        return "other"

    async def both() -> list[RunResult]:
        named: dict[str, Any] = {"name": "plan"}
        return await asyncio.gather(
            go(
                [("read_note", named)],
                tools=[read_note],
                hooks=MemtallyRunHooks({"read_note": ("memory", "name")}, then=Slow()),
            ),
            go(
                [("other", named)],
                tools=[other],
                hooks=MemtallyRunHooks({"other": ("decision", "name")}, then=Slow()),
            ),
        )

    assert [outputs(done) for done in asyncio.run(both())] == [["the plan"], ["other"]]
    assert sorted(event.records[0].key for event in captured.events) == [
        ("decision", "plan"),
        ("memory", "plan"),
    ]


def test_what_a_guardrail_holds_back_is_no_use(captured: Captured) -> None:
    """An answer that the model does not get counts for nothing, nor does a decorated reader's beneath it."""

    @memtally.instrument_read("MemoryRead")
    def memory_read(kind: str, slug: str) -> str:
        return "secret"

    @tool_output_guardrail
    def holds_back(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("not for you")

    @function_tool(tool_output_guardrails=[holds_back])
    def read(name: str) -> str:
        """Read."""
        return memory_read("memory", name)

    hooks = MemtallyRunHooks({"read": ("memory", "name")})
    done = asyncio.run(go([("read", {"name": "a"})], tools=[read], hooks=hooks))
    assert outputs(done) == ["not for you"]
    assert captured.events == []


def test_a_call_that_takes_too_long_is_no_use(captured: Captured) -> None:
    """The text that stands in for a call which timed out counts for nothing."""

    @function_tool(timeout=0.05)
    async def read(name: str) -> str:
        """Read."""
        await asyncio.sleep(60)
        return "late"

    run([("read", {"name": "a"})], tools=[read], hooks=MemtallyRunHooks({"read": ("memory", "name")}))
    assert captured.events == []


def test_a_function_that_wants_the_runs_context_only(captured: Captured) -> None:
    """A tool whose function is given a copy of the context counts, each of two equal calls at once."""

    async def invoke(context: RunContextWrapper[Any], arguments: str) -> str:
        await asyncio.sleep(0.01)
        return "content"

    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    tool = FunctionTool(name="read", description="d", params_json_schema=schema, on_invoke_tool=invoke)
    calls = [("read", {"name": "a"})] * 2
    run(calls, tools=[tool], hooks=MemtallyRunHooks({"read": ("memory", "name")}))
    assert [event.records[0].key for event in captured.events] == [("memory", "a")] * 2


def test_a_failure_below_a_function_of_the_applications_own(captured: Captured) -> None:
    """Where the application has wrapped the tool's function, the SDK's text of a failure is no use either."""

    @function_tool
    def read(name: str) -> str:
        """Read."""
        return NOTES[name]

    inner = read.on_invoke_tool

    async def wrapped(context: Any, arguments: str) -> Any:
        return await inner(context, arguments)

    read.on_invoke_tool = wrapped
    hooks = MemtallyRunHooks({"read": ("memory", "name")})
    run([("read", {"name": "gone"})], [("read", {"name": "plan"})], tools=[read], hooks=hooks)
    assert [event.records[0].slug for event in captured.events] == ["plan"]


def test_hooks_of_ours_behind_ours_count_once(captured: Captured) -> None:
    """A tool that two hooks of ours know is read once a call, by the first's mapping, also in equal calls at once."""

    async def invoke(context: RunContextWrapper[Any], arguments: str) -> str:
        await asyncio.sleep(0.01)
        return "content"

    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    tool = FunctionTool(name="read", description="d", params_json_schema=schema, on_invoke_tool=invoke)
    second = MemtallyRunHooks({"read": ("decision", "name")})
    hooks = MemtallyRunHooks({"read": ("memory", "name")}, then=second)
    run([("read", {"name": "a"})] * 2, tools=[tool], hooks=hooks)
    assert [event.records[0].key for event in captured.events] == [("memory", "a")] * 2


def test_a_run_that_ends_before_its_call_leaves_nothing(captured: Captured) -> None:
    """A call that the application's hooks stop is not counted for a later call of the same id."""

    class Stops(RunHooks):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            raise RuntimeError("stopped")

    calls = [("read_note", {"name": "plan"})]
    with pytest.raises(UserError, match="stopped"):
        run(calls, tools=[read_note], hooks=MemtallyRunHooks({"read_note": ("memory", "name")}, then=Stops()))
    assert run(calls, tools=[read_note], hooks=None) == "done"
    assert captured.events == []


def test_a_streamed_run_counts_as_any(captured: Captured) -> None:
    """Tools of a streamed run count once each."""

    async def streamed() -> None:
        agent = Agent(name="a", model=Script([("read_note", {"name": "plan"})] * 2), tools=[read_note])
        hooks = MemtallyRunHooks({"read_note": ("memory", "name")})
        done = Runner.run_streamed(agent, "go", hooks=hooks, run_config=RunConfig(tracing_disabled=True))
        async for _ in done.stream_events():
            pass

    asyncio.run(streamed())
    assert [event.records[0].key for event in captured.events] == [("memory", "plan")] * 2


SERVER = """
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError

server = FastMCP("notes")

@server.tool
def read_note(name: str) -> str:
    if name == "gone":
        raise ToolError("no such note")
    return "the plan"

server.run(transport="stdio", show_banner=False)
"""


def test_the_tools_of_an_mcp_server(tmp_path: Path, captured: Captured) -> None:
    """A mapped tool of a real server counts with the size of its text; its error, which is a text too, does not."""
    script = tmp_path / "server.py"
    script.write_text(SERVER)

    async def served() -> RunResult:
        parameters: Any = {"command": sys.executable, "args": ["-W", "ignore", str(script)]}
        async with MCPServerStdio(params=parameters, client_session_timeout_seconds=60) as server:
            calls = [[("read_note", {"name": name})] for name in ("plan", "gone", "plan")]
            hooks = MemtallyRunHooks({"read_note": ("memory", "name")})
            return await go(*calls, mcp_servers=[server], hooks=hooks)

    answers = [str(output) for output in outputs(asyncio.run(served()))]
    assert ["the plan" in answer for answer in answers] == [True, False, True]
    assert "no such note" in answers[1]
    found = [(event.records[0].key, event.records[0].file_bytes) for event in captured.events]
    assert found == [(("memory", "plan"), 8)] * 2


def test_what_is_odd_about_an_answer_stays_with_us(captured: Captured) -> None:
    """A result that fails at whatever is asked of it reaches the model as ever, and is a read of unknown size."""

    class Odd:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

        def __str__(self) -> str:
            return "odd"

    odd = Odd()

    @function_tool
    def read(name: str) -> Any:
        """Read."""
        return odd

    done = asyncio.run(
        go([("read", {"name": "a"})], tools=[read], hooks=MemtallyRunHooks({"read": ("memory", "name")}))
    )
    assert outputs(done) == [odd]
    assert done.final_output == "done"
    assert [event.records[0].file_bytes for event in captured.events] == [None]
