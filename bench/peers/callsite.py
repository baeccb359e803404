"""Time per call of one way to record a read: python callsite.py SUBJECT FOLDER CALLS.

Prints nanoseconds per call beyond those of the bare function, and whether all calls are in the file. Every
subject records the same reads: fifty records of 2 KB, one after the other, their text decoded anew each time.
"""

# ruff: noqa: PLC0415 - a subject's process imports only what it needs
from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

SLUGS = [f"adopt-batch-route-{number}" for number in range(50)]
CONTENT = {slug: (f"# {slug}\n\n" + "Keep the batch, merge the trace. " * 62).encode() for slug in SLUGS}
WARM_UP = 200
SESSION = "0b0c7f6a-7a0e-4c61-a1f5-2d7b9d1c4e11"


class Subject(NamedTuple):
    """A recording read, what makes it end, and how many of its calls are persisted (``None``: none meant)."""

    read: Callable[[str, str], object]
    finish: Callable[[], object] = lambda: None
    persisted: Callable[[], int] | None = None


class Absent(Exception):
    """This subject cannot be measured here, and why."""


def bare(kind: str, slug: str) -> str:
    """A read that nothing records: the text of a record."""
    return CONTENT[slug].decode()


def count_lines(file: Path) -> Callable[[], int]:
    """A function that counts the lines of a file."""
    return lambda: file.read_bytes().count(b"\n")


def seconds(subject: Subject, calls: int) -> float:
    """What so many calls take, with all that they need to be persisted."""
    read = subject.read
    slugs = list(itertools.islice(itertools.cycle(SLUGS), calls))
    begun = time.perf_counter()
    for slug in slugs:
        read("decision", slug)
    subject.finish()
    return time.perf_counter() - begun


def main(name: str, folder: Path, calls: int) -> dict[str, object]:
    """Measure one subject."""
    # each family of subjects imports what it needs and no more
    if name in ("logfire", "traceloop", "openinference", "langfuse", "mlflow", "console spans"):
        import callsite_tracing as family
    else:
        import callsite_logs as family  # type: ignore[no-redef]
    try:
        subject = family.SUBJECTS[name](folder)
    except ModuleNotFoundError as error:
        return {"absent": f"not installed: {error.name}"}
    except Absent as reason:
        return {"absent": str(reason)}
    for slug in itertools.islice(itertools.cycle(SLUGS), WARM_UP):
        subject.read("decision", slug)
    plain = min(seconds(Subject(bare), calls) for _ in range(3))
    taken = seconds(subject, calls)
    made: dict[str, object] = {"ns": 1e9 * (taken - plain) / calls}
    if subject.persisted is not None:
        made["persisted"], made["expected"] = subject.persisted(), calls + WARM_UP
    return made


if __name__ == "__main__":
    # the subjects' modules import this one by its name
    sys.modules["callsite"] = sys.modules["__main__"]
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))
