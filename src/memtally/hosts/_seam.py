"""A seam: the one place of a framework through which its reads of memory pass.

The framework's own function is wrapped there like a decorated reader (``_calls``, ``decorators``), so that a
reader beneath it which is decorated too is the same read, and counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memtally._calls import Instrumented, Key, ReadCall
from memtally.context import current_session_id, session
from memtally.decorators import wrapped
from memtally.errors import InvalidValueError
from memtally.events import USE, check_slug
from memtally.recording import Moment, failed

__all__ = ["Seam", "check_function", "instrument_method", "is_instrumented", "key_of", "session_of"]


class Seam(Instrumented):
    """The settings of a seam.

    ``name``: of what is wrapped, for messages. ``parameters``: the names of its positional arguments.
    ``records``: from the finished ``ReadCall`` to the records read (``None``: this was no read). ``names``:
    from the arguments to the records that the call is going to read, as far as it is known before: a
    decorated reader of one of them, beneath the seam, waits for the end of the call. ``conversation``: the
    framework's own id of it, or ``None``, asked for when the call ends.
    """

    def __init__(
        self,
        name: str,
        parameters: tuple[str, ...],
        records: Callable[[ReadCall], object],
        names: Callable[[Mapping[str, Any]], frozenset[Key]],
        conversation: Callable[[], object] | None = None,
        *,
        source: str = "MemoryRead",
    ) -> None:
        # instead of the base class's: nothing is to be found out from a signature
        self.name = name
        self.event = USE
        self.source = source
        self.records = records
        self.fixed_kind = self.default_kind = self.once_per = None
        self._parameters = parameters
        self._named = names
        self._conversation = conversation

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[str, Any]:
        """The call's arguments by name."""
        return {**dict(zip(self._parameters, args, strict=False)), **kwargs}

    def keys(self, arguments: Mapping[str, Any]) -> frozenset[Key]:
        """The records that the call is going to read, as far as it is known before."""
        return self._named(arguments)

    def moment(self) -> Moment:
        """Now, in the framework's conversation if memtally has not been told another."""
        return Moment(session_id=None if self._conversation is None else _known(self._conversation))


def key_of(kind: str, slug: object) -> frozenset[Key]:
    """The one record of this name, or none where there is no such name."""
    if not isinstance(slug, str) or not slug.strip():
        return frozenset()
    return frozenset(((kind, check_slug(slug)),))


def check_function(name: str, function: object) -> None:
    """``InvalidValueError`` for a mapping that is given and is no function."""
    if function is not None and not callable(function):
        raise InvalidValueError(
            name,
            type(function).__name__,
            f"{name}= is a function",
            "pass one that returns a MemoryRecord",
        )


def instrument_method(host: object, method: str, seam: Seam) -> None:
    """Put the recording wrapper in place of an object's method, for this object only.

    An object that is instrumented already stays as it is, with the mapping that it was given first.
    """
    if is_instrumented(host, method):
        return
    recording = wrapped(getattr(host, method), seam)
    recording.memtally_seam = seam  # type: ignore[attr-defined]
    setattr(host, method, recording)


def is_instrumented(host: object, method: str) -> bool:
    """Whether ``instrument_method`` has been here."""
    return hasattr(getattr(host, "__dict__", {}).get(method), "memtally_seam")


def session_of(conversation: Callable[[], object]) -> session:
    """A block in which all reads belong to the framework's conversation.

    Only where memtally has not been told a session: what the application says (a block, ``configure()``, the
    environment) goes before what its framework knows. A framework that knows none leaves it unknown.
    """
    return session(_known(conversation))


def _known(conversation: Callable[[], object]) -> str | None:
    try:
        known = conversation() if current_session_id() is None else None
        return known if isinstance(known, str) and known else None
    except Exception as error:  # the framework's own objects may fail at anything
        failed("session", "", error)
        return None
