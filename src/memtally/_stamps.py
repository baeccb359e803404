"""Ids, times and texts as a line can carry them. As little of the standard library as ``events`` needs."""

from __future__ import annotations

import os
import time

from memtally.errors import InvalidValueError

__all__ = ["event_id_from", "format_time", "microseconds_of", "new_event_id", "well_formed"]


def well_formed(text: str) -> str:
    """The text with lone surrogates written out (``\\ud800``), so that UTF-8 and OTLP can carry it.

    File names that are not UTF-8 reach Python with such characters; two of them stay two.
    """
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


_ID_NAMESPACE = bytes.fromhex("8f1d7f0c5c1c5e0fa3a5d2a94e0a6b31")

_last_stamp = 0


def new_event_id() -> str:
    """A version 7 UUID; ids made by one thread of one process sort by the time they were made."""
    global _last_stamp
    stamp = time.time_ns() >> 8  # about a quarter of a microsecond, so that 12 bits split a millisecond
    if stamp <= _last_stamp:
        stamp = _last_stamp + 1
    _last_stamp = stamp
    milliseconds, rest = divmod(stamp << 8, 1_000_000)
    digits = f"{milliseconds:012x}"
    return f"{digits[:8]}-{digits[8:]}-7{rest * 4096 // 1_000_000:03x}{_random_end()}"


_random_ends: list[str] = []
_VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))


def _random_end() -> str:
    """The random half of an id, with its variant; the system is asked for many at a time."""
    try:
        return _random_ends.pop()
    except IndexError:  # also where another thread has just taken the last
        digits = os.urandom(512).hex()
        ends = [
            f"-{_VARIANT[digits[at]]}{digits[at + 1 : at + 4]}-{digits[at + 4 : at + 16]}"
            for at in range(0, 1024, 16)
        ]
        _random_ends.extend(ends[1:])
        return ends[0]


if hasattr(os, "register_at_fork"):
    # a child must not make the ids of its parent
    os.register_at_fork(after_in_child=_random_ends.clear)


def event_id_from(value: str) -> str:
    """The event id that stands for an id of the caller's: a UUID as it is, any other text by version 5.

    The same text always gives the same id, so that recording it again adds nothing.
    """
    digits = value.replace("-", "").lower()
    if len(digits) == 32 and len(value) in (32, 36) and all(c in "0123456789abcdef" for c in digits):
        return _uuid_text(digits)
    if not value:
        raise InvalidValueError(
            "event_id", value, "an event id is not empty", "pass the host's own id, or None"
        )
    try:  # the C module behind hashlib, which takes longer to import than a hook may
        from _sha1 import sha1  # type: ignore[import-not-found]  # noqa: PLC0415 - only where a host's own id is given
    except ImportError:  # pragma: no cover - other Python implementations
        from hashlib import sha1  # noqa: PLC0415

    digest = bytearray(sha1(_ID_NAMESPACE + well_formed(value).encode(), usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    return _uuid_text(digest.hex())


def _uuid_text(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


_second: tuple[int, str] = (-1, "")


def format_time(microseconds: int) -> str:
    """RFC 3339 in UTC with six fraction digits, from microseconds since the epoch."""
    global _second
    seconds, fraction = divmod(microseconds, 1_000_000)
    known, text = _second  # taken at once: another thread may be in another second
    if seconds != known:
        t = time.gmtime(seconds)
        text = f"{t.tm_year:04d}-{t.tm_mon:02d}-{t.tm_mday:02d}T{t.tm_hour:02d}:{t.tm_min:02d}:{t.tm_sec:02d}"
        _second = (seconds, text)
    return f"{text}.{fraction:06d}Z"


def microseconds_of(text: object) -> int | None:
    """Microseconds since the epoch of a time in the one form that hosts write: ``2026-05-11T13:10:47.471Z``.

    ``None`` for any other; what a log holds is read by ``ledger.decode.parse_time``, which knows all forms.
    """
    if not isinstance(text, str) or not text.isascii() or len(text) < 20 or text[-1] != "Z":
        return None
    digits = text[:4] + text[5:7] + text[8:10] + text[11:13] + text[14:16] + text[17:19]
    fraction = text[20:-1]
    if not digits.isdigit() or text[4] + text[7] + text[10] + text[13] + text[16] != "--T::":
        return None
    if text[19] not in ".Z" or (fraction and not fraction.isdigit()):
        return None
    year, month, day, hour, minute, second = (
        int(digits[at:end]) for at, end in ((0, 4), (4, 6), (6, 8), (8, 10), (10, 12), (12, 14))
    )
    if not (
        1 <= month <= 12 and 1 <= day <= _days_in(year, month) and hour < 24 and minute < 60 and second < 60
    ):
        return None
    years = year - (month < 3)  # counted from March, so that a leap day ends a year
    days = 365 * years + years // 4 - years // 100 + years // 400
    days += (153 * (month + (9 if month < 3 else -3)) + 2) // 5 + day - 719_469
    return (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000 + int(fraction[:6].ljust(6, "0"))


def _days_in(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31
