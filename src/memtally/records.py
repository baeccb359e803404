"""MemoryRecord: what a host says it read, and the snapshot that goes into the log.

Content is measured and let go: neither it nor any part of it reaches an event.
"""

from __future__ import annotations

import os
from pathlib import Path

from memtally import tokens
from memtally._content import decode_text, read_content
from memtally.errors import InvalidValueError
from memtally.events import RecordSnapshot, check_kind, check_slug
from memtally.ledger.layout import led_out

__all__ = ["Content", "Measure", "MemoryRecord", "snapshots"]

Content = str | bytes | Path


class MemoryRecord:
    """One record as a host names it.

    ``kind`` and ``slug`` identify it (``"decision"``, ``"adopt-otlp"``). ``content`` is the whole
    record: text, bytes, or the path of its file; ``None`` leaves its sizes unknown. ``injected`` is
    what really went into the context where that is less, such as one description line. ``partial``
    says that only a part was read. Raises ``InvalidValueError`` for what can be no record.
    """

    __slots__ = ("content", "injected", "kind", "partial", "slug")

    def __init__(
        self,
        kind: str,
        slug: str,
        content: Content | None = None,
        *,
        injected: str | bytes | None = None,
        partial: bool = False,
    ) -> None:
        self.kind = check_kind(kind)
        self.slug = check_slug(slug)
        if content is not None and not isinstance(content, (str, bytes, Path)):
            raise InvalidValueError(
                "content", type(content).__name__, "content is str, bytes or a Path", "pass None if unknown"
            )
        if injected is not None and not isinstance(injected, (str, bytes)):
            raise InvalidValueError(
                "injected",
                type(injected).__name__,
                "injected text is str or bytes",
                "pass None if it was all",
            )
        self.content = content
        self.injected = injected
        self.partial = bool(partial)

    def __repr__(self) -> str:
        return f"MemoryRecord({self.kind!r}, {self.slug!r})"


class Measure:
    """Sizes of the texts of one event, by one tokenizer: its weakest if several had a hand in it.

    A file in the workspace ``root`` that a link leads out of it is not looked at.
    """

    def __init__(self, root: str | None = None) -> None:
        self.tokenizer: str | None = None
        self._root = root

    def __call__(self, content: Content | None) -> tuple[int | None, int | None]:
        """Bytes and estimated tokens of a content; unknown when it cannot be seen."""
        if content is None:
            return None, None
        if isinstance(content, Path):
            return self._file(content)
        if isinstance(content, bytes):
            size, text = len(content), decode_text(content)
        else:
            text = content
            size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        count, made_by = tokens.estimate(text)
        if self.tokenizer is None or made_by != tokens.estimator().name:
            self.tokenizer = made_by
        return size, count

    def _file(self, path: Path) -> tuple[int | None, int | None]:
        """Bytes and tokens of a file. A large one is read in part; a pipe, and what has gone, not at all."""
        if self._root is not None and led_out(os.fspath(path), self._root):
            return None, None
        found = read_content(path)  # None where it was deleted meanwhile, say: the read still counts
        if found is None:
            return None, None
        size, data = found
        _, count = self(data)
        if size > len(data) and count is not None:
            # too long to be counted exactly, so that no estimate passes for a count
            count = count * size // len(data)
        return size, count


def snapshots(
    records: list[MemoryRecord], root: str | None = None
) -> tuple[tuple[RecordSnapshot, ...], str | None]:
    """The records as one event carries them, each once, and the tokenizer of their figures.

    The tokenizer is ``None`` where no size could be measured. ``root``: the workspace.
    """
    if len(records) == 1 and type(records[0].content) is str:
        found = _unchanged(records[0], records[0].content)
        if found is not None:
            return found
    measure = Measure(root)
    made: dict[tuple[str, str], RecordSnapshot] = {}
    for record in records:
        if (record.kind, record.slug) in made:
            continue  # one read operation reads a record once
        file_bytes, file_tokens = measure(record.content)
        injected_bytes, injected_tokens = measure(record.injected)
        made[record.kind, record.slug] = RecordSnapshot(
            record.kind,
            record.slug,
            file_bytes,
            file_tokens,
            injected_bytes,
            injected_tokens,
            partial=record.partial,
        )
    return tuple(made.values()), measure.tokenizer


_MOST_KEPT = 4_096
_kept: dict[tuple[str, str, int, int], tuple[tokens.TokenEstimator, str, tuple[RecordSnapshot]]] = {}


def _unchanged(record: MemoryRecord, text: str) -> tuple[tuple[RecordSnapshot], str] | None:
    """The snapshot of a record that was read whole, as it was made when the text was first met.

    By hash and length: no content is kept. ``None`` where there is more to a record than its text.
    """
    if record.injected is not None or record.partial:
        return None
    key = (record.kind, record.slug, hash(text), len(text))
    estimator = tokens.estimator()
    estimator.resume_loading()
    kept = _kept.get(key)
    if kept is not None and kept[0] is estimator and estimator.holds(kept[1], len(text)):
        return kept[2], kept[1]
    measure = Measure()
    size, count = measure(text)
    made = (RecordSnapshot(record.kind, record.slug, size, count),)
    tokenizer = measure.tokenizer
    assert tokenizer is not None  # a text always has an estimate
    if len(_kept) >= _MOST_KEPT:
        _kept.clear()
    _kept[key] = (estimator, tokenizer, made)
    return made, tokenizer
