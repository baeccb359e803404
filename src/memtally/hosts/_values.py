"""Values that come from outside: of any type, and looked at without an error."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["list_of", "name_of", "text_of"]

_LONGEST_NAME = 1_000


def text_of(values: object, key: str) -> str:
    """The text under a key; the empty one where there is none."""
    value = values.get(key) if isinstance(values, dict) else None
    return value if isinstance(value, str) else ""


def name_of(values: object, key: str) -> str:
    """A record's name under a key, without blank ends; the empty one where it can be none."""
    name = text_of(values, key).strip()
    return name if len(name) <= _LONGEST_NAME else ""


def list_of(values: object, key: str) -> list[Any]:
    """The list under a key; an empty one where there is none."""
    value = values.get(key) if isinstance(values, dict) else None
    return value if isinstance(value, list) else []
