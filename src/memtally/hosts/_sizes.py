"""Sizes of what a host has read or placed. Lean: a hook process measures by this, and has no vocabulary."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from memtally._content import MOST_READ, decode_text, read_content
from memtally._counts import Counts, content_key
from memtally.events import RecordSnapshot, normal_slug

__all__ = ["CountAll", "KnownCounts", "Measured", "chosen_tokenizer", "measure_file", "snapshots"]

CountAll = Callable[[Sequence[bytes]], tuple[list[int], str]]
"""Estimated tokens of each of several contents, and the one tokenizer behind all of them."""

_FORMULA = "script-estimate"
_QUARTER = "bytes/4"


class Measured:
    """One record with what is known of its content.

    ``content``: the record, or its first ``MOST_READ`` bytes of ``size``; ``None`` where it cannot be seen.
    ``injected``: what went in, where that is less. ``path``: the file, where it is one.
    """

    __slots__ = ("content", "injected", "kind", "partial", "path", "size", "slug")

    def __init__(
        self,
        kind: str,
        slug: str,
        content: bytes | None = None,
        *,
        size: int | None = None,
        injected: bytes | None = None,
        partial: bool = False,
        path: str | None = None,
    ) -> None:
        self.kind = kind
        self.slug = normal_slug(slug)
        self.content = content
        self.size = len(content) if size is None and content is not None else size
        self.injected = injected
        self.partial = partial
        self.path = path


def measure_file(kind: str, slug: str, path: str | None, *, partial: bool = False) -> Measured:
    """A record by its file; of unknown size where there is none, or it cannot be read."""
    found = None if path is None else read_content(path)
    if found is None:
        return Measured(kind, slug, partial=partial)
    size, data = found
    return Measured(kind, slug, data, size=size, partial=partial, path=path)


def snapshots(
    measured: Sequence[Measured], count_all: CountAll
) -> tuple[tuple[RecordSnapshot, ...], str | None]:
    """The records as one event carries them, each once, and the tokenizer of their figures, if any."""
    first: dict[tuple[str, str], Measured] = {}
    for record in measured:
        first.setdefault((record.kind, record.slug), record)
    texts = [
        text for record in first.values() for text in (record.content, record.injected) if text is not None
    ]
    counts, tokenizer = count_all(texts) if texts else ([], None)
    counted = iter(counts)
    made = []
    for record in first.values():
        tokens = None if record.content is None else next(counted)
        if tokens is not None and record.content and record.size is not None:
            tokens = tokens * record.size // len(record.content)  # the rest of a large file is like its head
        made.append(
            RecordSnapshot(
                record.kind,
                record.slug,
                record.size,
                tokens,
                None if record.injected is None else len(record.injected),
                None if record.injected is None else next(counted),
                partial=record.partial,
            )
        )
    return tuple(made), tokenizer


def chosen_tokenizer() -> str:
    """The tokenizer that the environment names, by default ``o200k_base``."""
    return os.environ.get("MEMTALLY_TOKENIZER") or "o200k_base"


class KnownCounts:
    """Counts that a workspace has on disk; the formula for all contents of an event where one is missing.

    ``missed`` says that it was so, and that counting on would mend it.
    """

    def __init__(self, directory: str | None) -> None:
        self._name = chosen_tokenizer()
        self._counts: Counts | None = None
        # a name is part of the file's: what could lead elsewhere is no tokenizer's
        if directory is not None and self._name.replace("_", "a").isalnum():
            self._counts = Counts(directory, self._name)
        self.missed = False

    def __call__(self, texts: Sequence[bytes]) -> tuple[list[int], str]:
        if self._name == _QUARTER:
            return [(len(text) + 3) // 4 for text in texts], _QUARTER
        if self._counts is not None:
            found = [self._counts.get(content_key(text)) if text else 0 for text in texts]
            known = [count for count in found if count is not None]
            if len(known) == len(found):
                return known, self._name
            self.missed = any(
                count is None and len(text) < MOST_READ for count, text in zip(found, texts, strict=True)
            )
        from memtally._script_estimate import script_estimate  # noqa: PLC0415 - compiles many expressions

        return [script_estimate(decode_text(text)) for text in texts], _FORMULA
