"""What every format needs of text: visible escapes, column widths, times."""

from __future__ import annotations

import unicodedata
from datetime import datetime, tzinfo

__all__ = [
    "NAME_COLUMNS",
    "clip",
    "counted",
    "local",
    "one_line",
    "pad",
    "short_line",
    "stamp",
    "utc_stamp",
    "width",
]

NAME_COLUMNS = 120
"""Columns of a name in the formats that people read; the others have it whole."""


_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0").union(
    map(chr, range(0xFE00, 0xFE0E)),  # variation selectors but for the two that pictures go with
    map(chr, range(0xE0100, 0xE01F0)),
)


def one_line(text: str) -> str:
    """The text with everything that could move a cursor, turn a line or hide made visible (``\\x1b``).

    Control characters, line and paragraph separators, bidirectional overrides, lone surrogates, and
    characters that are called printable and show nothing.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c if c.isprintable() and c not in _INVISIBLE else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


def short_line(text: str) -> str:
    """A name on one line and of a bounded width, for people to read."""
    return clip(one_line(text[: 2 * NAME_COLUMNS]), NAME_COLUMNS)


def width(text: str) -> int:
    """Columns that a text takes in a terminal: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """The text filled with blanks to a number of columns."""
    blanks = " " * max(columns - width(text), 0)
    return blanks + text if right else text + blanks


def clip(text: str, columns: int) -> str:
    """The text cut to a number of columns, with an ellipsis where something went."""
    if width(text) <= columns:
        return text
    kept, used = [], 1
    for character in text:
        used += width(character)
        if used > columns:
            break
        kept.append(character)
    return "".join(kept) + "…"


def local(moment: datetime, zone: tzinfo) -> datetime:
    """A time in a zone; at the ends of the calendar, where the zone's offset leads out of it, as it is."""
    try:
        return moment.astimezone(zone)
    except (OverflowError, ValueError):
        return moment


def stamp(moment: datetime | None, zone: tzinfo) -> str:
    """A time to the minute in a zone, for people; ``-`` for none."""
    if moment is None:
        return "-"
    at = local(moment, zone)
    return f"{at.year:04d}-{at:%m-%d %H:%M}"


def utc_stamp(moment: datetime | None) -> str | None:
    """A time in RFC 3339, UTC, six fraction digits, for programs."""
    return None if moment is None else moment.isoformat(timespec="microseconds")[:26] + "Z"


def counted(number: int, noun: str) -> str:
    """A number and its noun, in the plural where it is not one; of ``event of a kind`` the first word."""
    if number == 1:
        return f"1 {noun}"
    head, _, rest = noun.partition(" ")
    plural = f"{head}s {rest}" if head == "event" and rest else f"{noun}s"
    return f"{number:,} {plural}"
