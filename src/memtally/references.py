"""``#slug`` and ``/workflow`` in a prompt: pure helpers that hosts resolve references with.

What these find is what the host expands, and so what counts; nothing here records anything.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from memtally.events import normal_slug

__all__ = ["Invocation", "find_references", "parse_invocation"]


class Invocation(NamedTuple):
    """A typed command: the registered ``name`` and the ``arguments`` after it, stripped."""

    name: str
    arguments: str


# A line's list and quote markers, then a fence; a fence of ticks has no tick after it.
_FENCE = re.compile(r"[ \t]*(?:(?:>|[-*+]|\d{1,9}[.)])[ \t]+|>)*(?:(`{3,})[^`]*|(~{3,}).*)")
_CLOSING = re.compile(r"[ \t>]*(`{3,}|~{3,})[ \t]*")
_TICKS = re.compile(r"`+")
# Bounded: a long run of letters or brackets must not be looked at from each of its places anew.
_URL = re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,30}://\S+|\bwww\.\S+|\]\([^()\s]{0,2000}\)")
# Letters, digits and marks that a word or path before the sign would end in: a#b, /x#y, &#38;, ##
_BEFORE = re.compile(r"[\w/#&=.:?%-]", re.ASCII)
_NUMBER_OR_COLOUR = re.compile(r"[0-9]+|[0-9A-Fa-f]{3,4}|[0-9A-Fa-f]{6}|[0-9A-Fa-f]{8}")


def find_references(text: str, known: Iterable[str]) -> tuple[str, ...]:
    """The known slugs that ``#slug`` in a text refers to, each once, in order.

    The slug must be exact, and the longest known one wins. No references: what stands in code spans,
    fences and URLs, headings (``# text``), and anything of digits only or shaped like a colour
    (3, 4, 6 or 8 hexadecimal digits), even where a record has such a slug.
    """
    by_first: dict[str, list[str]] = {}
    for slug in sorted({normal_slug(s) for s in known if s}, key=len, reverse=True):
        if not _NUMBER_OR_COLOUR.fullmatch(slug):
            by_first.setdefault(slug[0], []).append(slug)
    visible = _without_code(unicodedata.normalize("NFC", text))
    visible = _URL.sub(lambda match: " " * len(match[0]), visible)
    found: dict[str, None] = {}
    for match in re.finditer("#", visible):
        start = match.end()
        if start > 1 and _BEFORE.match(visible[start - 2]):
            continue
        for slug in by_first.get(visible[start : start + 1], ()):
            if visible.startswith(slug, start) and not _continues(slug, visible[start + len(slug) :][:2]):
                found.setdefault(slug)
                break
    return tuple(found)


def _continues(slug: str, after: str) -> bool:
    """Whether the word goes on after the slug, so that it names something else."""
    if not after:
        return False
    first = after[0]
    if first in "-/.:" and len(after) > 1:
        # "#slug." ends a sentence, "#slug.md" and "#slug-two" name something else
        return after[1].isalnum() or after[1] == "_"
    if first == "#":
        return True
    if slug[-1].isascii() and unicodedata.east_asian_width(first) in "WF":
        return False  # scripts without blanks: "#slugを読む"
    return first.isalnum() or first == "_" or unicodedata.combining(first) != 0


def _without_code(text: str) -> str:
    """The text with fenced blocks and code spans blanked out."""
    kept: list[str] = []
    paragraph: list[str] = []
    fence = ""
    for line in text.split("\n"):
        if fence:
            closing = _CLOSING.fullmatch(line)
            if closing and closing[1][0] == fence[0] and len(closing[1]) >= len(fence):
                fence = ""
            continue
        opening = _FENCE.fullmatch(line)
        if opening or not line.strip():  # a code span ends with its paragraph
            kept.append(_without_spans("\n".join(paragraph)))
            paragraph = []
        if opening:
            fence = opening[1] or opening[2]
        else:
            paragraph.append(line)
    kept.append(_without_spans("\n".join(paragraph)))
    return "\n".join(kept)


def _without_spans(text: str) -> str:
    runs = [(m.start(), m.end()) for m in _TICKS.finditer(text)]
    later: dict[int, list[int]] = {}
    for index, (start, end) in enumerate(runs):
        later.setdefault(end - start, []).append(index)
    pieces: list[str] = []
    position, index = 0, 0
    while index < len(runs):
        start, end = runs[index]
        same = later[end - start]
        same.pop(0)
        if same:  # a run of equally many ticks closes the span
            close = same[0]
            for skipped in range(index + 1, close + 1):
                later[runs[skipped][1] - runs[skipped][0]].pop(0)
            stop = runs[close][1]
            pieces += [text[position:start], " " * (stop - start)]
            position, index = stop, close + 1
        else:
            index += 1
    pieces.append(text[position:])
    return "".join(pieces)


def parse_invocation(text: str, known: Iterable[str]) -> Invocation | None:
    """The typed command that a text begins with, or ``None``.

    Only a registered name, only at the very start, only as a whole word: ``/usr/bin/env`` and
    ``see /deploy`` are none, ``/login page broken`` is ``login`` with arguments where that is
    registered: what is typed as a command is taken as one.
    """
    if not text.startswith("/"):
        return None
    word, *rest = text[1:].split(None, 1) if text[1:2].strip() else ("",)
    name = normal_slug(word)
    if not name or name not in {normal_slug(k) for k in known}:
        return None
    return Invocation(name, rest[0].strip() if rest else "")
