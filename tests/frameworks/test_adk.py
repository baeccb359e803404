"""Google's ADK: its real runner, session service, tools and skills; only the model is scripted."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")  # the ADK warns of its own experimental features

from google.adk.agents import LlmAgent  # noqa: E402
from google.adk.models.base_llm import BaseLlm  # noqa: E402
from google.adk.models.llm_response import LlmResponse  # noqa: E402
from google.adk.plugins.base_plugin import BasePlugin  # noqa: E402
from google.adk.runners import InMemoryRunner  # noqa: E402
from google.adk.tools.agent_tool import AgentTool  # noqa: E402
from google.adk.tools.base_tool import BaseTool  # noqa: E402
from google.adk.tools.load_memory_tool import load_memory_tool  # noqa: E402
from google.genai import types  # noqa: E402

import memtally  # noqa: E402
from memtally import RecordUsage  # noqa: E402
from memtally.hosts.adk import MemtallyPlugin  # noqa: E402
from memtally.testing import Captured  # noqa: E402

NOTES = {"plan": "the plan"}


class Script(BaseLlm):
    """A model that calls these tools, in turns, and then is done."""

    turns: list[list[tuple[str, dict[str, Any]]]] = []
    call_id: str | None = None

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        parts = [types.Part(text="done")]
        if self.turns:
            parts = [
                types.Part(function_call=types.FunctionCall(name=call[0], args=call[1], id=self.call_id))
                for call in self.turns.pop(0)
            ]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def read_note(name: str) -> dict[str, str]:
    """Read a note."""
    if name == "gone":
        return {"error": "no such note"}
    return {"result": NOTES[name]}


Turns = list[list[tuple[str, dict[str, Any]]]]


async def go(
    turns: Turns, tools: list[Any], *plugins: BasePlugin, call_id: str | None = None, **parts: Any
) -> tuple[str, list[Any]]:
    """One run with a scripted model; the id of its session, and what the model got from its tools."""
    model = Script(model="script", turns=turns, call_id=call_id)
    agent = LlmAgent(name="a", model=model, tools=tools, **parts)
    runner = InMemoryRunner(agent=agent, app_name="app", plugins=list(plugins))
    session = await runner.session_service.create_session(app_name="app", user_id="u")
    message = types.Content(role="user", parts=[types.Part(text="go")])
    answers: list[Any] = []
    async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message):
        answers += [answer.response for answer in event.get_function_responses()]
    await runner.close()
    return str(session.id), answers


def run(turns: Turns, tools: list[Any], *plugins: BasePlugin, **parts: Any) -> str:
    """One run with a scripted model; the id of its session."""
    return asyncio.run(go(turns, tools, *plugins, **parts))[0]


def test_a_mapped_tool_is_a_use_in_its_session(captured: Captured) -> None:
    """A mapped tool counts, with the ADK's session, also of two calls at once."""
    plugin = MemtallyPlugin({"read_note": ("memory", "name")})
    calls = [("read_note", {"name": "plan"}), ("read_note", {"name": "plan"})]
    session = run([calls], [read_note], plugin)
    found = [
        (event.records[0].key, event.records[0].file_bytes, event.session_id) for event in captured.events
    ]
    assert found == [(("memory", "plan"), 8, session)] * 2


def test_errors_and_searches_are_no_uses(captured: Captured) -> None:
    """An answer that is an error, a tool that raises, and the search of memory count for nothing."""
    plugin = MemtallyPlugin({"read_note": ("memory", "name")})
    run(
        [[("read_note", {"name": "gone"})], [("load_memory", {"query": "plan"})]],
        [read_note, load_memory_tool],
        plugin,
    )
    with pytest.raises(KeyError):
        run([[("read_note", {"name": "nonesuch"})]], [read_note], plugin)
    assert captured.events == []


def test_a_decorated_reader_beneath_is_the_same_read(captured: Captured) -> None:
    """A tool that calls a decorated reader counts one read, and reads of other records their own."""

    @memtally.instrument_read("MemoryRead")
    def memory_read(kind: str, slug: str) -> str:
        return "text"

    def read(name: str) -> str:
        """Read."""
        return memory_read("memory", name) + memory_read("decision", "other")

    run(
        [[("read", {"name": "a"}), ("read", {"name": "b"})]],
        [read],
        MemtallyPlugin({"read": ("memory", "name")}),
    )
    found = sorted("/".join(event.records[0].key) for event in captured.events)
    assert found == ["decision/other", "decision/other", "memory/a", "memory/b"]


def test_a_skill_that_is_loaded_is_a_use(tmp_path: Path, captured: Captured) -> None:
    """load_skill counts without being mapped, by the skill's name; one that is not there does not."""
    from google.adk.skills import load_skill_from_dir
    from google.adk.tools.skill_toolset import SkillToolset

    folder = tmp_path / "pdf"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: pdf\ndescription: Work with PDFs\n---\nRead them.\n")
    toolset = SkillToolset(skills=[load_skill_from_dir(folder)])
    turns = [[("load_skill", {"skill_name": "pdf"})], [("load_skill", {"skill_name": "nope"})]]
    run(turns, [toolset], MemtallyPlugin())
    assert [(event.source, event.records[0].key) for event in captured.events] == [
        ("SkillInvoke", ("skill", "pdf"))
    ]


def test_a_search_cannot_be_mapped() -> None:
    """Mapping a tool that searches is an error at once, as is any wrong mapping."""
    with pytest.raises(memtally.InvalidValueError, match="a search is no use"):
        MemtallyPlugin({"load_memory": ("memory", "query")})
    with pytest.raises(memtally.InvalidValueError, match="kind, argument"):
        MemtallyPlugin({"read_note": "memory"})  # type: ignore[dict-item]


def test_from_the_run_to_the_report(figures: Callable[[], dict[str, RecordUsage]]) -> None:
    """Calls end up in the workspace's report."""
    plugin = MemtallyPlugin({"read_note": ("memory", "name")})
    run([[("read_note", {"name": "plan"})], [("read_note", {"name": "plan"})]], [read_note], plugin)
    assert figures()["memory/plan"].use_count == 2


READS = {"read": ("memory", "name")}
ONE: Turns = [[("read", {"name": "a"})]]


def reader(answer: object) -> Callable[[str], object]:
    """A tool that answers so, or raises."""

    def read(name: str) -> object:
        """Read."""
        if isinstance(answer, Exception):
            raise answer
        return answer

    return read


@pytest.mark.parametrize(
    ("answer", "sizes"),
    [
        ("text", [4]),
        (b"bytes", [5]),
        ({"result": "text"}, [4]),
        ({"status": "success", "report": "text"}, [None]),
        ({"title": "t", "body": "b"}, [None]),
        (["a", "b"], [None]),
        (
            {"content": [{"type": "text", "text": "a "}, {"type": "text", "text": "note"}], "isError": False},
            [6],
        ),
        ({"content": [{"type": "image", "data": ""}], "isError": False}, [None]),
        ({"content": [], "isError": False}, []),
        ({"content": [{"type": "text", "text": "no such note"}], "isError": True}, []),
        ({"status": "error", "error_message": "no such note"}, []),
        ({"error": "no such note"}, []),
        ({"result": None}, []),
        ({"result": ""}, []),
        ({}, []),
        ([], []),
        ("", []),
        (None, []),
    ],
)
def test_what_counts_as_an_answer(answer: object, sizes: list[int | None], captured: Captured) -> None:
    """Any content counts, measured where it is text; nothing, and what the ADK or MCP call an error, does not."""
    run([*ONE], [reader(answer)], MemtallyPlugin(READS))
    assert [event.records[0].file_bytes for event in captured.events] == sizes


class Recovers(BasePlugin):
    """Answers in the place of a tool that has failed."""

    async def on_tool_error_callback(self, **call: Any) -> dict[str, str]:
        return {"result": "try later"}


class Replaces(BasePlugin):
    """Replaces what a tool has given."""

    async def after_tool_callback(self, *, result: Any, **call: Any) -> dict[str, str]:
        return {"result": f"{result}, replaced"}


class Answers(BasePlugin):
    """Answers instead of a tool."""

    async def before_tool_callback(self, **call: Any) -> dict[str, str]:
        return {"result": "kept"}


@pytest.mark.parametrize("first", [True, False])
def test_a_failure_that_a_plugin_answers_for_is_no_use(first: bool, captured: Captured) -> None:
    """Whatever another plugin, before or behind ours, says for a failed tool, the read has failed."""
    plugins = [MemtallyPlugin(READS), Recovers(name="recovers")]
    turns: Turns = [*ONE]
    _, answers = asyncio.run(go(turns, [reader(KeyError("gone"))], *(plugins if first else plugins[::-1])))
    assert answers == [{"result": "try later"}]
    assert captured.events == []


def test_a_failure_that_the_agent_answers_for_is_no_use(captured: Captured) -> None:
    """So it is with the agent's own callback."""
    run(
        [*ONE],
        [reader(KeyError("gone"))],
        MemtallyPlugin(READS),
        on_tool_error_callback=lambda **call: {"result": "try later"},
    )
    assert captured.events == []


@pytest.mark.parametrize("first", [True, False])
def test_a_plugin_that_replaces_answers_hides_no_read(first: bool, captured: Captured) -> None:
    """A read counts once, as the tool gave it, although another plugin changes the answer; a decorated one too."""

    @memtally.instrument_read("MemoryRead")
    def memory_read(kind: str, slug: str) -> str:
        return "text"

    def read(name: str) -> str:
        """Read."""
        return memory_read("memory", name)

    plugins = [MemtallyPlugin(READS), Replaces(name="replaces")]
    _, answers = asyncio.run(go([*ONE], [read], *(plugins if first else plugins[::-1])))
    assert answers == [{"result": "text, replaced"}]
    assert [(event.records[0].key, event.records[0].file_bytes) for event in captured.events] == [
        (("memory", "a"), 4)
    ]


@pytest.mark.parametrize("first", [True, False])
def test_an_answer_without_the_tool_is_a_read(first: bool, captured: Captured) -> None:
    """Content that a plugin has kept from before is read into the context all the same."""
    plugins = [MemtallyPlugin(READS), Answers(name="answers")]
    run([*ONE], [reader(KeyError("never run"))], *(plugins if first else plugins[::-1]))
    assert [event.records[0].file_bytes for event in captured.events] == [4]


def test_two_plugins_of_ours_count_once(captured: Captured) -> None:
    """A tool that two of our plugins know is read once, by the first's mapping."""
    run(
        [*ONE], [reader("text")], MemtallyPlugin(READS), MemtallyPlugin({"read": ("decision", "name")}, "two")
    )
    assert [event.records[0].key for event in captured.events] == [("memory", "a")]


def test_calls_of_one_id_are_kept_apart(captured: Captured) -> None:
    """Two sessions at once whose models both say call_1 count each their own."""
    plugin = MemtallyPlugin(READS)

    async def read(name: str) -> str:
        """Read."""
        await asyncio.sleep(0.05)
        return "text"

    async def both() -> list[tuple[str, list[Any]]]:
        return await asyncio.gather(
            *(go([[("read", {"name": name})]], [read], plugin, call_id="call_1") for name in ("a", "b"))
        )

    sessions = [session for session, _ in asyncio.run(both())]
    found = sorted((event.records[0].slug, event.session_id) for event in captured.events)
    assert found == [("a", sessions[0]), ("b", sessions[1])]


def test_a_tool_that_is_called_by_its_wrong_arguments_is_no_use(captured: Captured) -> None:
    """What the ADK says of a call without its arguments, or of a tool that is not there, is no content."""
    turns: Turns = [[("read", {})], [("nonesuch", {"name": "a"})]]
    run(turns, [reader("text")], MemtallyPlugin({**READS, "nonesuch": ("memory", "name")}))
    assert captured.events == []


def test_an_agent_called_as_a_tool_reads_in_the_callers_session(captured: Captured) -> None:
    """Reads of an agent that is a tool, and decorated reads in a tool that is not mapped, have the session of the run."""

    @memtally.instrument_read("MemoryRead")
    def memory_read(kind: str, slug: str) -> str:
        return "text"

    def other(name: str) -> str:
        """Read otherwise."""
        return memory_read("decision", name)

    helper = LlmAgent(
        name="helper", description="Helps", model=Script(model="script", turns=[*ONE]), tools=[reader("text")]
    )
    turns: Turns = [[("helper", {"request": "go"})], [("other", {"name": "b"})]]
    session = run(turns, [AgentTool(helper), other], MemtallyPlugin(READS))
    found = [(event.records[0].key, event.session_id) for event in captured.events]
    assert found == [(("memory", "a"), session), (("decision", "b"), session)]


def test_a_copy_of_a_watched_tool_is_itself(captured: Captured) -> None:
    """A toolset's copy of a tool that has run before runs as itself, and counts once."""

    class Named(BaseTool):
        def _get_declaration(self) -> types.FunctionDeclaration:
            return types.FunctionDeclaration(name=self.name, description=self.description)

        async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
            return f"by {self.name}"

    tool = Named(name="read", description="Read")
    plugin = MemtallyPlugin({"read": ("memory", "name"), "x_read": ("memory", "name")})
    run([*ONE], [tool], plugin)
    copied = copy.copy(tool)
    copied.name = "x_read"
    _, answers = asyncio.run(go([[("x_read", {"name": "b"})]], [copied], plugin))
    assert answers == [{"result": "by x_read"}]
    assert [event.records[0].slug for event in captured.events] == ["a", "b"]
