"""Processes that append to one file at the same time: python writers.py SUBJECT FOLDER PROCESSES EVENTS_EACH.

Prints events per second, from the first process that begins to the last that ends, and what is then in the
file: events lost, torn or joined lines, and events that stand in it twice.
"""

# ruff: noqa: PLC0415 - each subject imports only what it needs
from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from callsite import SLUGS, bare
from callsite_logs import emitting, same_attributes, sample_events

LIMIT = 240.0
"""Seconds until processes that do not end are killed."""

UID = "log.record.uid"
Write = Callable[[str], object]


def memtally_writer(folder: Path) -> Write:
    """memtally's writer alone: a new id, a line, an append."""
    from memtally.events import encode_event, new_event_id
    from memtally.ledger.writer import LogWriter

    writer, events = LogWriter(str(folder / "usage.jsonl")), sample_events()

    def write(slug: str) -> None:
        event = events[slug]
        event.id = new_event_id()
        writer.append(encode_event(event))

    return write


def memtally_read(folder: Path) -> Write:
    """memtally's decorated read in a configured process."""
    import memtally

    memtally.configure(workspace=folder)
    read = memtally.instrument_read("MemoryRead")(bare)
    return lambda slug: read("decision", slug)


def bare_append(folder: Path) -> Write:
    """``os.write`` to a file that is open for appending."""
    from memtally.events import encode_event, new_event_id

    descriptor = os.open(folder / "bare.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    events = sample_events()

    def write(slug: str) -> None:
        event = events[slug]
        event.id = new_event_id()
        os.write(descriptor, encode_event(event))

    return write


def bare_line(folder: Path) -> Write:
    """The same with a line that is made already, all of them alike."""
    from memtally.events import encode_event

    descriptor = os.open(folder / "bare.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    line = encode_event(sample_events()[SLUGS[0]])
    return lambda slug: os.write(descriptor, line)


def otlp_json_file(folder: Path) -> Write:
    """The official exporter of OTLP's JSON, one provider a process, all into one file."""
    from opentelemetry.exporter.otlp.json.file._log_exporter import FileLogExporter

    from memtally.events import new_event_id

    attributes: dict[str, Any] = {slug: dict(of) for slug, of in same_attributes().items()}
    emit = emitting(FileLogExporter(folder / "otlp.jsonl"), attributes)

    def write(slug: str) -> None:
        attributes[slug][UID] = new_event_id()
        emit("decision", slug)

    return write


SUBJECTS: dict[str, Callable[[Path], Write]] = {
    "memtally read": memtally_read,
    "memtally writer": memtally_writer,
    "os.write": bare_append,
    "os.write, one line": bare_line,
    "otlp-json-file": otlp_json_file,
}


def work(make: Callable[[Path], Write], folder: Path, events: int, start: Any, times: Any) -> None:
    """One process: get ready, wait for the others, append."""
    write = make(folder)
    start.wait(LIMIT)
    begun = time.perf_counter()
    for number in range(events):
        write(SLUGS[number % len(SLUGS)])
    times.put((begun, time.perf_counter()))


def run(make: Callable[[Path], Write], folder: Path, processes: int, events: int) -> float:
    """Seconds from the first beginning to the last end. Every process is reaped, whatever happens."""
    context = multiprocessing.get_context("fork")  # what is loaded once is shared by all
    start, times = context.Barrier(processes), context.SimpleQueue()
    workers = [
        context.Process(target=work, args=(make, folder, events, start, times), daemon=True)
        for _ in range(processes)
    ]
    for worker in workers:
        worker.start()
    deadline = time.monotonic() + LIMIT
    try:
        for worker in workers:
            worker.join(max(0.0, deadline - time.monotonic()))
        if any(worker.exitcode != 0 for worker in workers):
            raise SystemExit("a writing process failed, or did not end in time")
    finally:
        for worker in workers:
            worker.kill()
            worker.join()
    begins, ends = zip(*(times.get() for _ in workers), strict=True)
    return float(max(ends) - min(begins))


def contents(folder: Path) -> tuple[int, int, int]:
    """Whole events in the files of a folder, distinct ids among them, and lines that are no event."""
    intact, torn, ids = 0, 0, set()
    for file in folder.rglob("*.jsonl"):
        if file.name == "health.jsonl":
            continue
        for line in file.read_bytes().splitlines():
            try:
                ids.add(_id_of(json.loads(line)))
                intact += 1
            except (ValueError, KeyError, IndexError, TypeError):
                torn += 1
    return intact, len(ids), torn


def _id_of(line: dict[str, Any]) -> str:
    if "id" in line:
        return str(line["id"])
    [record] = line["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    return next(str(a["value"]["stringValue"]) for a in record["attributes"] if a["key"] == UID)


def main(name: str, folder: Path, processes: int, events: int) -> dict[str, object]:
    """Measure one subject."""
    if name == "memtally read":
        from memtally import tokens

        tokens.preload()  # the processes share one vocabulary, and none loads it in the middle
        tokens.estimator().wait(10)
    elif name == "otlp-json-file":
        try:
            import opentelemetry.exporter.otlp.json.file  # noqa: F401
        except ModuleNotFoundError as error:
            return {"absent": f"not installed: {error.name}"}
    seconds = run(SUBJECTS[name], folder, processes, events)
    intact, distinct, torn = contents(folder)
    expected = processes * events
    return {
        "rate": expected / seconds,
        "lost": expected - intact,
        "doubled": 0 if name == "os.write, one line" else intact - distinct,
        "torn": torn,
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))))
