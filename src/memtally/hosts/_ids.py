"""Ids of what a host reports: the same for a live hook and for an import from its transcript."""

from __future__ import annotations

from memtally.events import event_id_from

__all__ = ["host_event_id", "is_uuid", "names_one_call"]

_SHORTEST = 16


def host_event_id(host: str, own: str, kind: str, slug: str) -> str:
    """The event id for a host's own id of an operation (a tool call, a prompt, a message) and the record.

    Never the session's, which a resumed copy changes.
    """
    return event_id_from("\0".join((host, own, kind, slug)))


def names_one_call(own: object) -> bool:
    """Whether a tool call's id can stand for that call alone.

    Hosts and their models make long random ones; ``call_1`` of a small server, or a placeholder in an edited
    transcript, would make one call of many.
    """
    return (
        isinstance(own, str)
        and len(own) >= _SHORTEST
        and own.isascii()
        and own.replace("_", "a").replace("-", "a").replace("|", "a").replace(".", "a").isalnum()
    )


def is_uuid(text: object) -> bool:
    """Whether a text has the form of a UUID."""
    return (
        isinstance(text, str)
        and len(text) == 36
        and text.isascii()
        and [len(part) for part in text.split("-")] == [8, 4, 4, 4, 12]
        and not text.replace("-", "").lower().strip("0123456789abcdef")
    )
