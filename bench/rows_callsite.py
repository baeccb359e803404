"""Row ``read``: what one recorded read costs the code that reads, beside everything else that records."""

from __future__ import annotations

from bench.bars import TRACING
from bench.harness import Outcome, Settings, Subject, interleave, say
from bench.running import peer_json, scratch

__all__ = ["read_row"]

SUBJECTS = (
    "memtally read",
    "memtally record_use",
    "memtally stage: id and line",
    "memtally stage: append",
    "SDK emit, no-op exporter",
    "SDK emit, no-op exporter, flat",
    "otlp-json-file",
    "otlp-json-file, flat",
    *TRACING,
    "structlog with orjson",
    "logging.FileHandler",
    "by hand",
    "os.write alone",
)
REMARKS = {
    "SDK emit, no-op exporter": "attributes as memtally's event has them; persists nothing",
    "SDK emit, no-op exporter, flat": "persists nothing",
    "memtally stage: id and line": "persists nothing",
    "console spans": "OpenTelemetry's SDK, a span a line",
    "langfuse": "batches always; until all is in the file",
    "mlflow": "into its store of files",
    "structlog with orjson": "no tracing",
    "logging.FileHandler": "no tracing",
    "by hand": "no tracing: open, json.dumps, write",
    "os.write alone": "no tracing: a line that is made already",
}
SLOW = {"mlflow": 50}
"""So many times fewer calls of what takes milliseconds."""


def read_row(settings: Settings) -> Outcome:
    """Microseconds a call beyond the bare function, each subject in a fresh process each round."""
    calls = settings.events_or(20_000, 2_000)
    rounds = settings.rounds_or(9, 2)
    outcome = Outcome("read", {"calls": calls, "rounds": rounds, "record": "2 KB, 50 of them"})
    remarks = dict(REMARKS)
    say("read")

    def subject(name: str) -> Subject:
        def measure() -> float:
            with scratch("read") as folder:
                said = peer_json("callsite.py", name, folder, str(max(calls // SLOW.get(name, 1), 20)))
            if said.get("persisted") != said.get("expected"):
                remarks[name] = f"only {said['persisted']:,} of {said['expected']:,} calls are in the file"
            return said["ns"] / 1_000

        return measure

    values = interleave({name: subject(name) for name in SUBJECTS}, rounds, outcome.absent)
    for name, measured in values.items():
        outcome.add(name, "us", measured, remarks.get(name, ""))
    return outcome
