"""What a token estimate costs: python tokens_probe.py TEXTS. Prints microseconds, each a median."""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from pydoc_data.topics import topics

from memtally._vocabulary import VocabularyMissingError, load_counter
from memtally.tokens import TokenEstimator

SIZE = 8_192
PARTS = 4
SOURCE = "\n".join(topics.values()).encode("ascii", "ignore").decode()
"""Half a megabyte of real technical prose with lists and code, which every CPython carries.
ASCII, so that 8 KB are as many characters: wider text takes longer to hash."""


def markdown(seed: int) -> str:
    """8 KB of text that no other seed gives: four sections from different places of the source."""
    randomly = random.Random(seed)
    size = SIZE // PARTS
    sections = []
    for _ in range(PARTS):
        place = randomly.randrange(len(SOURCE) - size)
        heading = f"## Section {randomly.randrange(10_000)}\n\n"
        sections.append(heading + SOURCE[place : place + size - len(heading)])
    return "".join(sections)


def microseconds(count: Callable[[str], object], text: str) -> float:
    """What one call takes."""
    begun = time.perf_counter_ns()
    count(text)
    return (time.perf_counter_ns() - begun) / 1_000


def cached(estimator: TokenEstimator, texts: list[str], *, anew: bool) -> float:
    """The median of an estimate that was made before; ``anew``: of a text that has just been read."""
    taken = []
    for text in texts:
        estimator.estimate(text)
        taken.append(microseconds(estimator.estimate, (text + "x")[:-1] if anew else text))
    return statistics.median(taken)


def main(number: int) -> dict[str, object]:
    """All figures. The counters take turns on each text."""
    estimator = TokenEstimator()
    estimator.load()
    if estimator.state != "exact":
        return {"absent": "no vocabulary here"}
    made: dict[str, object] = {"maker": estimator.origin}
    counters: dict[str, Callable[[str], object]] = {"first": estimator.estimate}
    sys.modules["toktok"] = None  # type: ignore[assignment]  # load_counter now takes tiktoken
    try:
        counters["tiktoken"], _ = load_counter(estimator.name)
    except VocabularyMissingError:
        made["tiktoken_absent"] = "no vocabulary file here"
    for count in counters.values():
        count(markdown(-1))  # the first call builds tables
    texts = [markdown(seed) for seed in range(number)]
    taken: dict[str, list[float]] = {name: [] for name in counters}
    for text in texts:
        for name, count in counters.items():
            taken[name].append(microseconds(count, text))
    made.update((name, statistics.median(values)) for name, values in taken.items())
    made["same"] = cached(estimator, texts, anew=False)
    made["anew"] = cached(estimator, texts, anew=True)
    return made


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
