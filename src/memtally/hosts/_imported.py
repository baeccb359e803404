"""What an import finds: events, and whether a live hook would have given them the same id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memtally._content import decode_text
from memtally._counts import content_key
from memtally.events import EXPOSURE, UsageEvent
from memtally.hosts._ids import is_uuid
from memtally.hosts._place import Place
from memtally.tokens import BYTES_QUARTER, SCRIPT_ESTIMATE, TokenEstimator, script_estimate

__all__ = ["ExactCounts", "Imported", "ReadingCounts", "Resolve", "line_identity"]

Resolve = Callable[[str], Place | None]
"""The place of a session that began in a folder; ``None`` for one of another workspace."""


@dataclass(slots=True)
class ReadingCounts:
    """What was met in the files of a host. ``unknown``: lines that are no JSON object or of a wrong form."""

    files: int = 0
    lines: int = 0
    unknown: int = 0
    elsewhere: int = 0


class Imported:
    """One event. ``common``: its id is made from one that a live hook has seen too. ``sessions``: the ids
    by which a hook may have known its session; the event's own by default.
    """

    __slots__ = ("common", "event", "sessions")

    def __init__(self, event: UsageEvent, *, common: bool, sessions: tuple[str, ...] = ()) -> None:
        self.event = event
        self.common = common
        self.sessions = sessions or (event.session_id or "",)

    @property
    def routes(self) -> list[tuple[str, str]]:
        """Sessions and routes: where a hook has recorded any of one, it has recorded all of it."""
        event = self.event
        route = event.event if event.event == EXPOSURE else event.source
        return [(session, route) for session in self.sessions]


def line_identity(uuid: object, line: bytes) -> str:
    """What stands for a line of a transcript: its UUID, or its content where it has none."""
    return str(uuid) if is_uuid(uuid) else content_key(line)


class ExactCounts:
    """Token counts by the loaded vocabulary, where there is one; each content is counted once.

    An import waits for nobody, so it counts exactly whatever the length.
    """

    _MOST_KEPT = 8_192

    def __init__(self, tokenizer: str) -> None:
        self._estimator = TokenEstimator(tokenizer)
        self._estimator.load()
        self._kept: dict[str, int] = {}

    def __call__(self, texts: Sequence[bytes]) -> tuple[list[int], str]:
        name = self._estimator.name
        if name == BYTES_QUARTER:
            return [(len(text) + 3) // 4 for text in texts], name
        if self._estimator.state != "exact":
            return [script_estimate(decode_text(text)) for text in texts], SCRIPT_ESTIMATE
        found: list[int] = []
        for text in texts:
            key = content_key(text)
            count = self._kept.get(key)
            if count is None:
                count = self._estimator.count_exactly(decode_text(text))
                if count is None:  # the encoder failed at this one: one tokenizer for all of an event
                    return [script_estimate(decode_text(text)) for text in texts], SCRIPT_ESTIMATE
                if len(self._kept) >= self._MOST_KEPT:
                    self._kept.clear()
                self._kept[key] = count
            found.append(count)
        return found, name
