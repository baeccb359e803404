"""For whom and in which conversation a read happens: the session and the actor.

A block sets them with ``session()``; they follow ``await``, tasks and ``asyncio.to_thread``, and, as
every context variable, not plain threads and executors: there the process's defaults hold
(``configure()``, else ``MEMTALLY_SESSION_ID`` and ``MEMTALLY_ACTOR``), never another block's session.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType

from memtally import faults
from memtally.errors import InvalidValueError
from memtally.events import ACTORS, well_formed

__all__ = [
    "check_actor",
    "check_defaults",
    "check_session_id",
    "current_actor",
    "current_session_id",
    "disabled",
    "sdk_disabled",
    "session",
    "set_defaults",
]

# The blocks around the running code, outermost first. A stack of values rather than of tokens: a block
# may be left in another context than it was entered in (a generator closed elsewhere), and one session
# object may serve several tasks at once.
_blocks: ContextVar[tuple[session, ...]] = ContextVar("memtally_session", default=())

_data = getattr(os.environ, "_data", None)
_encode = getattr(os.environ, "encodekey", None)


def _reader(name: str) -> Callable[[], str | None]:
    """A function that reads a variable of the environment as it is now.

    ``os.environ.get`` takes a microsecond, most of it for an exception where the variable is not set, as
    these are not; on every read of a record that is three of them.
    """
    if not isinstance(_data, dict) or _encode is None:  # pragma: no cover - another Python
        return lambda: os.environ.get(name)
    data, key = _data, _encode(name)
    return lambda: os.environ.get(name) if key in data else None


_read_disabled = _reader("MEMTALLY_DISABLED")
_read_session_id = _reader("MEMTALLY_SESSION_ID")
_read_actor = _reader("MEMTALLY_ACTOR")

_default_session: str | None = None
_default_actor: str | None = None


class session:
    """Give every read in a block its session, and where wanted its actor.

    ``session_id``: the conversation's id; ``None`` keeps the surrounding one.
    ``actor``: ``"agent"``, ``"subagent"``, ``"user"`` or ``"maintenance"``; ``None`` keeps the
    surrounding one. Raises ``InvalidValueError`` at once for anything else.
    """

    def __init__(self, session_id: str | None = None, *, actor: str | None = None) -> None:
        self.session_id = check_session_id(session_id)
        self.actor = check_actor(actor)

    def __enter__(self) -> session:
        _blocks.set((*_blocks.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        blocks = _blocks.get()
        for index in range(len(blocks) - 1, -1, -1):
            if blocks[index] is self:
                _blocks.set(blocks[:index] + blocks[index + 1 :])
                return


def current_session_id() -> str | None:
    """The session of this context, else the process's, else ``None``: it is never invented."""
    session_id = _innermost("session_id") or _default_session
    if session_id is not None:
        return session_id
    from_environment = _read_session_id()
    return well_formed(from_environment) if from_environment else None


def current_actor() -> str:
    """The actor of this context, else the process's, else ``agent``."""
    actor = _innermost("actor") or _default_actor
    if actor is not None:
        return actor
    from_environment = _read_actor()
    if not from_environment or from_environment in ACTORS:
        return from_environment or "agent"
    # configure() refuses it; where only a name in the environment switched recording on, nobody has yet
    faults.note(
        "wrong_actor", f"MEMTALLY_ACTOR={from_environment!r:.80} is no actor; reads count as the agent's"
    )
    return "agent"


def _innermost(attribute: str) -> str | None:
    for block in reversed(_blocks.get()):
        value: str | None = getattr(block, attribute)
        if value is not None:
            return value
    return None


def disabled() -> bool:
    """Whether ``MEMTALLY_DISABLED`` switches recording off."""
    value = _read_disabled()
    return value is not None and value.strip().lower() not in ("", "0", "false", "no")


def sdk_disabled() -> bool:
    """Whether ``OTEL_SDK_DISABLED`` switches OpenTelemetry's SDK, and so all forwarding, off."""
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def check_defaults(session_id: str | None, actor: str | None) -> None:
    """Refuse a wrong session or actor, from the arguments or from the environment."""
    check_session_id(session_id)
    if check_actor(actor) is None:
        # refused here, where the programmer looks, rather than on some later read
        check_actor(os.environ.get("MEMTALLY_ACTOR") or None)


def set_defaults(session_id: str | None, actor: str | None) -> None:
    """Set the process's session and actor; ``None`` leaves it to the environment."""
    global _default_session, _default_actor
    _default_session, _default_actor = check_session_id(session_id), check_actor(actor)


def check_session_id(session_id: object) -> str | None:
    """The session id in well-formed text, or ``InvalidValueError``."""
    if session_id is None:
        return None
    if not isinstance(session_id, str) or not session_id:
        raise InvalidValueError(
            "session_id", session_id, "a session id is non-empty text", "pass the conversation's id, or None"
        )
    return well_formed(session_id)


def check_actor(actor: object) -> str | None:
    """The actor, or ``InvalidValueError`` when it is none of the four."""
    if actor is None or (isinstance(actor, str) and actor in ACTORS):
        return actor
    raise InvalidValueError("actor", actor, "no such actor", f"use one of {', '.join(ACTORS)}")
