"""Rows ``start`` and ``tokens``: a hook's whole process, and what a token estimate costs."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.harness import Outcome, Settings, Subject, interleave, say
from bench.running import peer_json, run, scratch

__all__ = ["start_row", "tokens_row"]

APPEND = """
import sys
from memtally.events import USE, RecordSnapshot, UsageEvent, encode_event, new_event_id
from memtally.ledger.writer import LogWriter
import time
event = UsageEvent(
    new_event_id(), time.time_ns() // 1000, USE, "ShellRead", (RecordSnapshot("decision", "adopt-otlp"),)
)
if not LogWriter(sys.argv[1]).append(encode_event(event)):
    sys.exit("not appended")
"""
"""The least that a recording process does: make an event and append its line."""

PARALLEL = 30

HEAVY = ("opentelemetry", "rich", "tiktoken", "toktok", "msgspec", "click")
SHOW_HOOK = f"""
import sys, memtally.cli
sys.argv[1:] = ["hook", "claude-code"]
try:
    memtally.cli.main()
except SystemExit:
    pass
print(*sorted({{name.partition(".")[0] for name in sys.modules}} & {set(HEAVY)!r}))
"""


def start_row(settings: Settings) -> Outcome:
    """A hook's whole process, and one that only appends, beside one that does nothing."""
    rounds = settings.rounds_or(80, 20)
    outcome = Outcome("start", {"rounds": rounds, "hooks at once": PARALLEL})
    say("start")
    with scratch("start") as folder:
        log = folder / "usage.jsonl"
        plain: dict[str, list[str | Path]] = {
            "append one line": [sys.executable, "-c", APPEND, log],
            "python -c pass": [sys.executable, "-c", "pass"],
            "import json": [sys.executable, "-c", "import json"],
            "import click": [sys.executable, "-c", "import click"],
            "import opentelemetry.sdk._logs": [sys.executable, "-c", "import opentelemetry.sdk._logs"],
        }
        hook = [Path(sys.executable).with_name("memtally"), "hook", "claude-code"]
        payloads = _payloads(folder)
        subjects: dict[str, Subject] = {}
        for name, command in plain.items():
            subjects[name] = lambda command=command: 1_000 * run(command).seconds  # type: ignore[misc]
        for name, payload in payloads.items():
            subjects[name] = lambda payload=payload: (  # type: ignore[misc]
                1_000 * run(hook, stdin=payload, home=folder).seconds
            )
        read = payloads["hook: a record is read"]
        subjects[f"hook: {PARALLEL} at once, each"] = lambda: _at_once(hook, read, folder)
        for subject in subjects.values():
            subject()  # the first has to compile what it imports, and counts what hooks look up
        for name, measured in interleave(subjects, rounds, outcome.absent).items():
            outcome.add(name, "ms", measured)
        loaded = run([sys.executable, "-c", SHOW_HOOK], stdin=read, home=folder).output.split()
    outcome.add("heavy packages loaded", "", [len(loaded)], " ".join(loaded) or f"none of {', '.join(HEAVY)}")
    return outcome


def _at_once(hook: list[str | Path], payload: Path, folder: Path) -> float:
    """What one of many hooks takes that start together, in milliseconds: their time by their number."""
    begun = time.perf_counter()
    with ThreadPoolExecutor(PARALLEL) as pool:
        list(pool.map(lambda _: run(hook, stdin=payload, home=folder), range(PARALLEL)))
    return 1_000 * (time.perf_counter() - begun) / PARALLEL


def _payloads(folder: Path) -> dict[str, Path]:
    """Payloads of Claude Code in a workspace with a configuration and some records."""
    workspace = folder / "ws"
    (workspace / ".memtally").mkdir(parents=True)
    (workspace / ".memtally" / "config.toml").write_text('preset = "claude-code"\n')
    (workspace / "CLAUDE.md").write_text("Decide in writing.\n" * 100)
    for number in range(10):
        skill = workspace / ".claude" / "skills" / f"s{number}" / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text(f"---\ndescription: Do the {number}th thing\n---\nbody\n" * 20)
    common = {
        "session_id": "s1",
        "cwd": str(workspace),
        "hook_event_name": "PostToolUse",
        "tool_name": "Read",
    }

    def read(name: str, content: str) -> dict[str, object]:
        path = str(workspace / name)
        file = {"filePath": path, "content": content, "numLines": 5, "startLine": 1, "totalLines": 5}
        # an id that is none: the same payload is a read of its own each time
        answer = {"type": "text", "file": file}
        return {**common, "tool_input": {"file_path": path}, "tool_response": answer, "tool_use_id": "t1"}

    made = {
        "hook: a record is read": read("CLAUDE.md", "Decide in writing.\n" * 100),
        "hook: another file is read": read("src/app.py", "x = 1\n" * 100),
        "hook: a session starts": {**common, "hook_event_name": "SessionStart", "source": "startup"},
        "hook: an answer of 10 MB": read("CLAUDE.md", "Some words of a line, and so on.\n" * 300_000),
    }
    paths = {}
    for number, (name, payload) in enumerate(made.items()):
        paths[name] = folder / f"payload-{number}.json"
        paths[name].write_text(json.dumps(payload, separators=(",", ":")))
    return paths


def tokens_row(settings: Settings) -> Outcome:
    """Estimates by memtally's estimator with its vocabulary loaded, and by tiktoken on the same texts."""
    texts = settings.events_or(2_000, 300)
    rounds = settings.rounds_or(5, 2)
    outcome = Outcome("tokens", {"texts of 8 KB": texts, "rounds": rounds, "encoding": "o200k_base"})
    names = {
        "same": "unchanged record, the same text object",
        "anew": "unchanged record, text read anew",
        "first": "first count of 8 KB, memtally",
        "tiktoken": "first count of 8 KB, tiktoken",
    }
    remarks = {"anew": "its hash has to be made"}
    found: dict[str, list[float]] = {key: [] for key in names}
    say("tokens")

    def measure() -> float:
        said = peer_json("tokens_probe.py", str(texts))
        for key, values in found.items():
            if key in said:
                values.append(said[key])
        remarks["first"] = f"counted by {said['maker']}"
        if "tiktoken_absent" in said:
            outcome.absent[names["tiktoken"]] = str(said["tiktoken_absent"])
        return 0.0

    interleave({"memtally's estimator": measure}, rounds, outcome.absent)
    for key, name in names.items():
        outcome.add(name, "us", found[key], remarks.get(key, ""))
    return outcome
