"""For whom and in which conversation a read happens: the session and the actor.

A block sets them with ``session()``; they follow ``await``, tasks and ``asyncio.to_thread``, and, as
every context variable, not plain threads and executors: there the process's defaults hold
(``configure()``, else ``MEMTALLY_SESSION_ID`` and ``MEMTALLY_ACTOR``), never another block's session.
"""

from __future__ import annotations

import os
from contextvars import ContextVar, Token
from types import TracebackType

from memtally.errors import InvalidValueError
from memtally.events import ACTORS, well_formed

__all__ = [
    "check_actor",
    "check_session_id",
    "current_actor",
    "current_session_id",
    "session",
    "set_defaults",
]

_session: ContextVar[str | None] = ContextVar("memtally_session", default=None)
_actor: ContextVar[str | None] = ContextVar("memtally_actor", default=None)

_default_session: str | None = None
_default_actor: str | None = None


class session:
    """Give every read in a block its session, and where wanted its actor.

    ``session_id``: the conversation's id; ``None`` keeps the surrounding one.
    ``actor``: ``"agent"``, ``"subagent"``, ``"user"`` or ``"maintenance"``; ``None`` keeps the
    surrounding one. Raises ``InvalidValueError`` at once for anything else.
    """

    def __init__(self, session_id: str | None = None, *, actor: str | None = None) -> None:
        self._session_id = check_session_id(session_id)
        self._new_actor = check_actor(actor)
        self._tokens: list[tuple[Token[str | None] | None, Token[str | None] | None]] = []

    def __enter__(self) -> session:
        self._tokens.append(
            (
                None if self._session_id is None else _session.set(self._session_id),
                None if self._new_actor is None else _actor.set(self._new_actor),
            )
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session_token, actor_token = self._tokens.pop()
        if session_token is not None:
            _session.reset(session_token)
        if actor_token is not None:
            _actor.reset(actor_token)


def current_session_id() -> str | None:
    """The session of this context, else the process's, else ``None``: it is never invented."""
    return _session.get() or _default_session or os.environ.get("MEMTALLY_SESSION_ID") or None


def current_actor() -> str:
    """The actor of this context, else the process's, else ``agent``."""
    actor = _actor.get() or _default_actor
    if actor is not None:
        return actor
    from_environment = os.environ.get("MEMTALLY_ACTOR")
    return from_environment if from_environment in ACTORS else "agent"


def set_defaults(session_id: str | None, actor: str | None) -> None:
    """Set the process's session and actor; ``None`` leaves it to the environment."""
    global _default_session, _default_actor
    session_id, actor = check_session_id(session_id), check_actor(actor)
    if actor is None:
        # refused here, where the programmer looks, rather than on some later read
        check_actor(os.environ.get("MEMTALLY_ACTOR") or None)
    _default_session, _default_actor = session_id, actor


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
