"""Row ``processes``: many processes that append to one file, and what is in the file afterwards."""

from __future__ import annotations

from bench.harness import Outcome, Settings, Subject, interleave, say
from bench.running import peer_json, scratch

__all__ = ["append_together", "processes_row"]

PROCESSES = 32
SUBJECTS = ("memtally read", "memtally writer", "otlp-json-file", "os.write", "os.write, one line")
REMARKS = {
    "memtally read": "decorated, in configured processes",
    "memtally writer": "a new id, its line, an append",
    "otlp-json-file": "one provider a process, all into one file",
    "os.write": "a new id, its line, a bare append",
    "os.write, one line": "a line that is made already",
}


def append_together(name: str, processes: int, events: int) -> dict[str, float]:
    """Events by processes together: ``rate`` a second, and how many were ``lost``, ``torn``, ``doubled``."""
    with scratch("processes") as folder:
        return peer_json("writers.py", name, folder, str(processes), str(events // processes), limit=300.0)


def processes_row(settings: Settings) -> Outcome:
    """Events a second of 32 processes, and how many events did not arrive whole and once."""
    events = settings.events_or(96_000, 9_600)
    rounds = settings.rounds_or(5, 2)
    outcome = Outcome("processes", {"processes": PROCESSES, "events": events, "rounds": rounds})
    amiss: dict[str, list[float]] = {name: [] for name in SUBJECTS}
    worst: dict[str, dict[str, float]] = {}
    say("processes")

    def subject(name: str) -> Subject:
        def measure() -> float:
            said = append_together(name, PROCESSES, events)
            faults = {key: said[key] for key in ("lost", "torn", "doubled")}
            amiss[name].append(sum(abs(count) for count in faults.values()))
            if amiss[name][-1] == max(amiss[name]):
                worst[name] = faults
            return said["rate"]

        return measure

    values = interleave({name: subject(name) for name in SUBJECTS}, rounds, outcome.absent)
    for name, measured in values.items():
        outcome.add(name, "events/s", measured, REMARKS[name])
    for name in values:
        in_words = ", ".join(f"{count:,} {what}" for what, count in worst[name].items() if count)
        # the worst round, not the middle one: an event that is lost once is lost
        outcome.add(f"{name}, amiss", "events", [max(amiss[name])], in_words or "none lost, torn or doubled")
    return outcome
