"""What Claude Code 2.1.332 itself has sent to its hooks, and written of it: kept, so that no run of it is needed.

``captured/payloads.jsonl`` has for each payload the session that it was made in and the way it came, by hooks in
settings or of the Python SDK; ``captured/transcript.jsonl`` the lines of three transcripts and their files. Paths
are replaced, and what is the host's own text is left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from memtally.events import EXPOSURE, USE, UsageEvent
from memtally.hosts._place import Place, open_place
from memtally.hosts.claude_code import events_of

CAPTURED = Path(__file__).with_name("captured")

FILES = {
    "{HOME}/.claude/CLAUDE.md": "user notes\n",
    "{HOME}/.claude/projects/{PROJECT}/memory/MEMORY.md": "- [a](topic-a.md)\n",
    "{HOME}/.claude/projects/{PROJECT}/memory/topic-a.md": "topic a\n",
    "{WORKSPACE}/CLAUDE.md": "# Project\n@docs/style.md\n",
    "{WORKSPACE}/docs/style.md": "style\n",
    "{WORKSPACE}/pkg/CLAUDE.md": "pkg notes\n",
    "{WORKSPACE}/.claude/rules/always.md": "always\n",
    "{WORKSPACE}/.claude/rules/py.md": '---\npaths: "src/*.py"\n---\npy rule\n',
    "{WORKSPACE}/.claude/skills/pdf/SKILL.md": "---\nname: pdf\ndescription: Work with PDFs\n---\nBody\n",
    "{WORKSPACE}/.claude/commands/deploy.md": "---\ndescription: Deploy it\n---\nDeploy $ARGUMENTS\n",
}


class Session:
    """The place that the sessions were in, made anew, and what they sent."""

    def __init__(self, folder: Path) -> None:
        workspace, home = folder / "ws", folder / "home"
        project = "".join(c if c.isalnum() else "-" for c in str(workspace))
        self._paths = {"{WORKSPACE}": str(workspace), "{HOME}": str(home), "{PROJECT}": project}
        for path, content in FILES.items():
            file = Path(self._filled(path))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        self.place: Place = open_place(
            "claude-code", str(workspace), str(home), str(home / ".claude"), _lengths, str(workspace)
        )

    def _filled(self, text: str) -> str:
        for name, path in self._paths.items():
            text = text.replace(name, path)
        return text

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The lines of a captured file, with the paths of this place."""
        return [json.loads(self._filled(line)) for line in (CAPTURED / name).read_text().splitlines()]

    def events(self, session: str) -> list[UsageEvent]:
        """What the payloads of a session amount to."""
        payloads = [line["payload"] for line in self.lines("payloads.jsonl") if line["session"] == session]
        assert payloads
        return [event for payload in payloads for event in events_of(payload, self.place)]


def _lengths(texts: Sequence[bytes]) -> tuple[list[int], str]:
    return [len(text) for text in texts], "bytes"


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """The place of the sessions."""
    return Session(tmp_path)


def records(events: list[UsageEvent], event: str) -> Counter[str]:
    """How often each record was used or placed."""
    named = [f"{record.kind}/{record.slug}" for e in events if e.event == event for record in e.records]
    return Counter(named)


START = {
    "instructions/CLAUDE.md": 1,
    "instructions/docs/style.md": 1,
    "instructions/~/.claude/CLAUDE.md": 1,
    "memory/MEMORY": 1,
    "rule/always": 1,
    "skill/deploy": 1,
    "skill/pdf": 1,
}


def test_a_session_of_reads(session: Session) -> None:
    """Two reads of a topic, a skill and a part of CLAUDE.md; a rule and a nested CLAUDE.md come by their paths."""
    events = session.events("reads")
    assert records(events, USE) == {"memory/topic-a": 2, "skill/pdf": 1, "instructions/CLAUDE.md": 1}
    partial = [bool(record.partial) for e in events if e.event == USE for record in e.records]
    assert partial == [False, False, False, True]
    assert records(events, EXPOSURE) == {**START, "rule/py": 1, "instructions/pkg/CLAUDE.md": 1}
    assert {e.actor for e in events} == {"agent"}


@pytest.mark.parametrize(("name", "skill"), [("typed", "skill/deploy"), ("typed_skill", "skill/pdf")])
def test_a_typed_command_is_reported_twice_and_has_one_id(session: Session, name: str, skill: str) -> None:
    """UserPromptSubmit and UserPromptExpansion both tell of a typed command: by their prompt's id it is one use."""
    uses = [event for event in session.events(name) if event.event == USE]
    assert records(uses, USE) == {skill: 2}
    assert len({event.id for event in uses}) == 1
    assert {(event.source, event.actor) for event in uses} == {("WorkflowInvoke", "user")}


def test_a_subagents_read_is_its_own(session: Session) -> None:
    """What a subagent reads has it as the actor; nothing else of the session is a use."""
    uses = [event for event in session.events("agent") if event.event == USE]
    assert [(e.actor, e.records[0].key) for e in uses] == [("subagent", ("memory", "topic-a"))]


def test_a_compaction_places_what_a_start_does(session: Session) -> None:
    """After a resume and a compaction the index and the listing are placed twice; its helpers start with nothing."""
    events = session.events("compact")
    assert records(events, USE) == {}
    assert records(events, EXPOSURE) == {**START, "memory/MEMORY": 2, "skill/deploy": 2, "skill/pdf": 2}


def test_a_mention_is_no_use_of_a_hooks(session: Session) -> None:
    """No hook tells that a mentioned file was put into the context; the transcript does."""
    assert records(session.events("mention"), USE) == {}


def test_hooks_of_the_sdk_send_the_same(session: Session) -> None:
    """A read and a skill by hooks of the Python SDK; the read that failed came as another event."""
    assert records(session.events("sdk"), USE) == {"memory/topic-a": 1, "skill/pdf": 1}


def test_prompts_and_calls_have_the_ids_of_the_transcript(session: Session) -> None:
    """Each prompt and call of a tool that a hook told of stands in the transcript by the same id."""
    lines = [line["line"] for line in session.lines("transcript.jsonl")]
    prompts = {line["promptId"] for line in lines if "promptId" in line}
    calls = {
        block["id"]
        for line in lines
        if line.get("type") == "assistant"
        for block in line["message"]["content"]
        if block.get("type") == "tool_use"
    }
    told = [
        line["payload"]
        for line in session.lines("payloads.jsonl")
        if line["session"] in ("reads", "typed", "agent")
    ]
    assert {p["prompt_id"] for p in told if "prompt_id" in p} <= prompts
    assert {p["tool_use_id"] for p in told if "tool_use_id" in p} <= calls
