"""Rows ``start`` and ``tokens``: a hook's whole process, and what a token estimate costs."""

from __future__ import annotations

import sys
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
"""What a hook has to do: make an event and append its line."""

HEAVY = ("opentelemetry", "rich", "tiktoken", "toktok", "msgspec", "click")
SHOW_HEAVY = f"""
print(*sorted({{name.partition(".")[0] for name in sys.modules}} & {set(HEAVY)!r}))
"""


def start_row(settings: Settings) -> Outcome:
    """A process that appends one line, beside one that does nothing."""
    rounds = settings.rounds_or(80, 20)
    outcome = Outcome("start", {"rounds": rounds})
    say("start")
    with scratch("start") as folder:
        log = folder / "usage.jsonl"
        commands: dict[str, list[str | Path]] = {
            "append one line": [sys.executable, "-c", APPEND, log],
            "python -c pass": [sys.executable, "-c", "pass"],
            "import json": [sys.executable, "-c", "import json"],
            "import click": [sys.executable, "-c", "import click"],
            "import opentelemetry.sdk._logs": [sys.executable, "-c", "import opentelemetry.sdk._logs"],
        }
        for command in commands.values():
            run(command)  # the first has to compile what it imports

        def subject(command: list[str | Path]) -> Subject:
            return lambda: 1_000 * run(command).seconds

        subjects = {name: subject(command) for name, command in commands.items()}
        for name, measured in interleave(subjects, rounds, outcome.absent).items():
            outcome.add(name, "ms", measured)
        loaded = run([sys.executable, "-c", APPEND + SHOW_HEAVY, log]).output.split()
    outcome.add("heavy packages loaded", "", [len(loaded)], " ".join(loaded) or f"none of {', '.join(HEAVY)}")
    return outcome


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
