"""Google's ADK: its real runner, session service, tools and skills; only the model is scripted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")  # the ADK warns of its own experimental features

from google.adk.agents import LlmAgent  # noqa: E402
from google.adk.models.base_llm import BaseLlm  # noqa: E402
from google.adk.models.llm_response import LlmResponse  # noqa: E402
from google.adk.runners import InMemoryRunner  # noqa: E402
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

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        parts = [types.Part(text="done")]
        if self.turns:
            parts = [
                types.Part(function_call=types.FunctionCall(name=name, args=arguments))
                for name, arguments in self.turns.pop(0)
            ]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def read_note(name: str) -> dict[str, str]:
    """Read a note."""
    if name == "gone":
        return {"error": "no such note"}
    return {"result": NOTES[name]}


def run(turns: list[list[tuple[str, dict[str, Any]]]], tools: list[Any], plugin: MemtallyPlugin) -> str:
    """One run with a scripted model; the id of its session."""

    async def go() -> str:
        agent = LlmAgent(name="a", model=Script(model="script", turns=turns), tools=tools)
        runner = InMemoryRunner(agent=agent, app_name="app", plugins=[plugin])
        session = await runner.session_service.create_session(app_name="app", user_id="u")
        message = types.Content(role="user", parts=[types.Part(text="go")])
        async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=message):
            pass
        await runner.close()
        return str(session.id)

    return asyncio.run(go())


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
