"""The OpenAI Agents SDK's real runner; only its model, which would ask the network, is scripted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    Model,
    ModelResponse,
    RunConfig,
    RunHooks,
    Runner,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

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

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


@function_tool
def read_note(name: str) -> str:
    """Read a note."""
    return NOTES[name]


@function_tool
def search_notes(query: str) -> str:
    """Search the notes."""
    return "the plan"


def run(*turns: list[tuple[str, dict[str, Any]]], tools: list[Any], hooks: Any) -> str:
    """One run with a scripted model; its final answer."""
    agent = Agent(name="a", model=Script(*turns), tools=tools)
    done = Runner.run_sync(agent, "go", hooks=hooks, run_config=RunConfig(tracing_disabled=True))
    return str(done.final_output)


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


def test_from_the_run_to_the_report(figures: Callable[[], dict[str, RecordUsage]]) -> None:
    """Calls end up in the workspace's report, with the session around the run."""
    hooks = MemtallyRunHooks({"read_note": ("memory", "name")})
    with memtally.session("s1"):
        run([("read_note", {"name": "plan"})] * 2, tools=[read_note], hooks=hooks)
    found = figures()["memory/plan"]
    assert (found.use_count, found.file_bytes) == (2, 8)
