"""Count exactly what hooks could only estimate, and keep the counts where hooks look them up."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from memtally._content import MOST_READ, decode_text
from memtally._counts import Counts, add_counts, content_key, take_wanted
from memtally.hosts._background import MARKER, counting_lock_path
from memtally.hosts._sizes import Measured, chosen_tokenizer, measure_file
from memtally.hosts._skills import listing_line, memory_head
from memtally.ledger.layout import ensure_directory
from memtally.ledger.locking import lock, unlock
from memtally.tokens import BYTES_QUARTER, SCRIPT_ESTIMATE, TokenEstimator

__all__ = ["count_files", "count_wanted"]

_PATIENCE = 2.0
"""Seconds to wait for the lock: a hook that looks whether anybody counts holds it for a moment."""


def count_wanted(directory: str, paths: Iterable[str] = ()) -> tuple[int, str]:
    """Count the files that hooks have left, and ``paths``; how many contents were counted, and by what.

    ``directory``: the workspace's ``.memtally``. Nothing is counted where another process does so already,
    or where there is no vocabulary, which is noted for the hooks. Raises ``OSError``, and
    ``InvalidValueError`` for a wrong ``MEMTALLY_TOKENIZER``.
    """
    ensure_directory(directory)
    os.makedirs(os.path.join(directory, "cache"), mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(counting_lock_path(directory), flags, 0o600)
    try:
        if not lock(descriptor, time.monotonic() + _PATIENCE):
            return 0, "another process"
        try:
            return _count(directory, list(paths))
        finally:
            unlock(descriptor)
    finally:
        os.close(descriptor)


def _count(directory: str, wanted: list[str]) -> tuple[int, str]:
    estimator = TokenEstimator(chosen_tokenizer())
    if estimator.name in (SCRIPT_ESTIMATE, BYTES_QUARTER):
        return 0, estimator.name
    estimator.load()
    marker = os.path.join(directory, "cache", MARKER)
    if estimator.state != "exact":
        with open(marker, "w", encoding="utf-8"):
            os.utime(marker)
        return 0, "no vocabulary"
    if os.path.exists(marker):
        os.unlink(marker)
    counted = count_files(directory, wanted, estimator)
    while wanted := take_wanted(directory):  # what hooks have left meanwhile, too
        counted += count_files(directory, wanted, estimator)
    return counted, estimator.name


def count_files(directory: str, paths: Iterable[str], estimator: TokenEstimator) -> int:
    """Count these files, and what a session's start places of them; how many contents were new."""
    known = Counts(directory, estimator.name)
    new: dict[str, int] = {}
    for path in dict.fromkeys(paths):
        for content in _contents(measure_file("any", "any", path)):
            key = content_key(content)
            if content and key not in new and known.get(key) is None:
                count = estimator.count_exactly(decode_text(content))
                if count is not None:
                    new[key] = count
    if new:
        add_counts(directory, estimator.name, new)
    return len(new)


def _contents(record: Measured) -> list[bytes]:
    """A file's content, and the part of it that may be placed alone."""
    if record.content is None or record.path is None or len(record.content) == MOST_READ:
        return []  # a larger file is estimated by formula
    parts = [record.content]
    name = os.path.basename(record.path)
    if name == "MEMORY.md" and (head := memory_head(record).injected) is not None:
        parts.append(head)
    folder = os.path.basename(os.path.dirname(record.path))
    for called in {folder if name.lower() == "skill.md" else name.removesuffix(".md")}:
        if (line := listing_line(called, record.content, record.path)) is not None:
            parts.append(line)
    return parts
