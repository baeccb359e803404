"""The real Claude Code, with memtally's hooks in its settings, and the transcripts that it leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scripted_claude import BINARY, Turn, call, scripted, text

from memtally import RecordUsage, build_report

MEMTALLY = Path(sys.executable).with_name("memtally")


class Box:
    """A home folder and a workspace with memory of each kind."""

    def __init__(self, folder: Path) -> None:
        self.home, self.workspace = folder / "home", folder / "ws"
        project = "".join(c if c.isalnum() else "-" for c in str(self.workspace))
        self.memory = self.home / ".claude" / "projects" / project / "memory"
        for path, content in {
            self.home / ".claude/CLAUDE.md": "user notes\n",
            self.workspace / "CLAUDE.md": "# Project\n@docs/style.md\n",
            self.workspace / "docs/style.md": "style\n",
            self.workspace / ".claude/rules/always.md": "always\n",
            self.workspace / ".claude/rules/py.md": '---\npaths: "src/*.py"\n---\npy rule\n',
            self.workspace
            / ".claude/skills/pdf/SKILL.md": "---\nname: pdf\ndescription: Work with PDFs\n---\nBody\n",
            self.workspace
            / ".claude/commands/deploy.md": "---\ndescription: Deploy it\n---\nDeploy $ARGUMENTS\n",
            self.workspace
            / ".claude/agents/reviewer.md": "---\nname: reviewer\ndescription: Reviews\nmemory: project\nskills: pdf\n---\nReview\n",
            self.workspace / ".claude/agent-memory/reviewer/MEMORY.md": "- agent memory\n",
            self.workspace / "src/a.py": "x = 1\n",
            self.memory / "MEMORY.md": "- [a](topic-a.md)\n",
            self.memory / "topic-a.md": "topic a\n",
        }.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        subprocess.run(["git", "init", "-q", str(self.workspace)], check=True)

    def environment(self) -> dict[str, str]:
        """That of a user whose home this is, without what this test run's own has of Claude Code."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "ANTHROPIC"))
        }
        return {**kept, "HOME": str(self.home), "MEMTALLY_TOKENIZER": "script-estimate"}

    def memtally(self, *arguments: str) -> str:
        """A command of memtally's in the workspace; what it said."""
        done = subprocess.run(
            [str(MEMTALLY), *arguments, "--workspace", str(self.workspace)],
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stderr + done.stdout

    def claude(self, prompt: str, *turns: Turn, more: tuple[str, ...] = ()) -> str:
        """One session of Claude Code; its id."""
        with scripted(*turns) as api:
            done = subprocess.run(
                [
                    str(BINARY),
                    "-p",
                    prompt,
                    "--output-format",
                    "json",
                    "--dangerously-skip-permissions",
                    *more,
                ],
                cwd=self.workspace,
                env={**self.environment(), **api},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=100,
                check=True,
            )
        return str(json.loads(done.stdout)["session_id"])

    def events(self, at_least: int) -> int:
        """How many events are in the log, once there are so many or five seconds are over."""
        log = self.workspace / ".memtally" / "usage.jsonl"
        for _ in range(50):
            number = log.read_bytes().count(b"\n") if log.exists() else 0
            if number >= at_least:
                break
            time.sleep(0.1)
        time.sleep(0.3)  # and whether more follow
        return log.read_bytes().count(b"\n")

    def figures(self) -> dict[str, RecordUsage]:
        """The report, by ``kind/slug``."""
        return {f"{r.kind}/{r.slug}": r for r in build_report(workspace=self.workspace).records}


@pytest.fixture
def box(tmp_path: Path) -> Box:
    """A box of one's own."""
    return Box(tmp_path)


def resident(found: dict[str, RecordUsage]) -> dict[str, int]:
    """How often each record was placed, without the skills that the host itself brings."""
    own = {"skill/pdf", "skill/deploy"}
    return {
        name: record.resident_exposure_count
        for name, record in found.items()
        if record.resident_exposure_count and (not name.startswith("skill/") or name in own)
    }


EACH_START = {
    "instructions/CLAUDE.md": 1,
    "instructions/docs/style.md": 1,
    "instructions/~/.claude/CLAUDE.md": 1,
    "memory/MEMORY": 1,
    "rule/always": 1,
    "skill/deploy": 1,
    "skill/pdf": 1,
}


def test_a_session_with_hooks_is_recorded_and_its_import_adds_nothing(box: Box) -> None:
    """Reads, skills and commands of real sessions count once each, live and after an import; what is placed does too."""
    box.memtally("install", "claude-code")
    topic = str(box.memory / "topic-a.md")
    first = box.claude(
        "read",
        [call("Read", file_path=topic)],
        [call("Read", file_path=topic)],
        [call("Read", file_path=str(box.workspace / "gone.md"))],
        [call("Skill", skill="pdf")],
        [call("Skill", skill="nope")],
        [call("Read", file_path=str(box.workspace / "src/a.py"))],
        [call("Read", file_path=str(box.workspace / "CLAUDE.md"), offset=1, limit=1)],
        [call("Bash", command="cat CLAUDE.md", description="show")],
        text("done"),
    )
    # two at the start (index, listing), four instructions, two reads, a skill, the rule of src/, a partial read
    assert box.events(11) == 11
    box.claude("/deploy staging", text("deployed"))
    assert box.events(18) == 18  # six at the start, and one use of the command
    box.claude("hello #policy /deploy", text("hi"))
    assert box.events(24) == 24

    found = box.figures()
    uses = {name: record.source_breakdown for name, record in found.items() if record.use_count}
    assert uses == {
        "instructions/CLAUDE.md": {"MemoryRead": 1},
        "memory/topic-a": {"MemoryRead": 2},
        "skill/deploy": {"WorkflowInvoke": 1},
        "skill/pdf": {"SkillInvoke": 1},
    }
    assert found["memory/topic-a"].file_bytes == 8
    assert resident(found) == {**dict.fromkeys(EACH_START, 3), "rule/py": 1}
    coverage = build_report(workspace=box.workspace).coverage
    assert (coverage.sessions, coverage.duplicate_events, coverage.damaged_lines) == (3, 0, 0)
    assert first in (box.workspace / ".memtally" / "usage.jsonl").read_text()

    said = box.memtally("import", "claude-code")
    assert said.startswith("imported 0 uses and 0 exposures from 3 files")
    assert {name: record.use_count for name, record in box.figures().items()} == {
        name: record.use_count for name, record in found.items()
    }


def test_an_import_alone_gives_the_same_uses(box: Box) -> None:
    """Sessions from before any hook are found in their transcripts, once, however often they are imported."""
    topic = str(box.memory / "topic-a.md")
    box.claude("read", [call("Read", file_path=topic)], [call("Skill", skill="pdf")], text("done"))
    box.claude("/deploy staging", text("deployed"))
    assert box.memtally("import", "claude-code").startswith("imported 3 uses and 4 exposures from 2 files")
    again = box.memtally("import", "claude-code")
    assert again.startswith("imported 0 uses and 0 exposures")
    assert "7 events in the log already" in again
    found = box.figures()
    uses = {name: record.source_breakdown for name, record in found.items() if record.use_count}
    assert uses == {
        "memory/topic-a": {"MemoryRead": 1},
        "skill/deploy": {"WorkflowInvoke": 1},
        "skill/pdf": {"SkillInvoke": 1},
    }
    assert found["memory/topic-a"].file_bytes == 8  # the transcript shows all of it
    assert resident(found) == dict.fromkeys(EACH_START, 2)


def test_a_subagents_start_is_recorded(box: Box) -> None:
    """What a subagent starts with counts as its own: instructions, memory, its own memory, skills it is given."""
    box.memtally("install", "claude-code")
    box.claude(
        "agent",
        [call("Agent", description="d", prompt="p", subagent_type="reviewer", run_in_background=False)],
        text("sub done"),
        text("main done"),
        text("and done"),
    )
    # six of the session; of the subagent its memory with the given skill, its listing, its instructions
    assert box.events(9) == 9
    found = resident(box.figures())
    assert found == {
        **dict.fromkeys(EACH_START, 2),
        "memory/reviewer/MEMORY": 1,
        "skill/pdf": 3,  # listed for both, and given whole to the subagent
    }
    said = box.memtally("import", "claude-code")
    assert said.startswith("imported 0 uses and 0 exposures")
    assert resident(box.figures()) == found


def test_uninstalled_it_is_silent(box: Box) -> None:
    """After uninstall nothing is recorded, and the settings are the bytes that they were."""
    settings = box.home / ".claude" / "settings.json"
    before = b'{\n\t"model": "opus", "hooks": {"Stop": []}\n}'
    settings.write_bytes(before)
    box.memtally("install", "claude-code")
    assert settings.read_bytes() != before
    box.memtally("uninstall", "claude-code")
    assert settings.read_bytes() == before
    box.claude("hello", text("hi"))
    time.sleep(1)
    assert not (box.workspace / ".memtally" / "usage.jsonl").exists()
