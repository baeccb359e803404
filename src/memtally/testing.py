"""For hosts' own tests: see which events a piece of code would have recorded.

::

    with memtally.testing.capture() as captured:
        read_memory("decision", "adopt-otlp")
    assert [event.source for event in captured.uses] == ["MemoryRead"]
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry._logs import Logger, LogRecord

from memtally import _calls, recording, semconv
from memtally.events import EXPOSURE, USE, UsageEvent

__all__ = ["Captured", "capture"]


class Captured:
    """The events recorded inside the block, in order, and the log records that carried them."""

    def __init__(self) -> None:
        self.events: list[UsageEvent] = []
        self.log_records: list[LogRecord] = []

    @property
    def uses(self) -> list[UsageEvent]:
        """The uses among them."""
        return [event for event in self.events if event.event == USE]

    @property
    def exposures(self) -> list[UsageEvent]:
        """The resident exposures among them."""
        return [event for event in self.events if event.event == EXPOSURE]


class _CapturingLogger(Logger):
    def __init__(self, captured: Captured) -> None:
        super().__init__(semconv.SCOPE_NAME, semconv.SCOPE_VERSION, semconv.SCHEMA_URL)
        self._captured = captured

    def emit(self, record: LogRecord | None = None, **_: Any) -> None:
        if isinstance(record, recording.UsageLogRecord):
            self._captured.log_records.append(record)
            self._captured.events.append(record.usage_event)

    def enabled(self, **_: Any) -> bool:
        return True


@contextmanager
def capture() -> Iterator[Captured]:
    """Collect the events of a block; neither a usage log nor the host's provider gets any of them.

    ``once_per="session"`` begins anew in the block. Not for use from several threads at once.
    """
    captured = Captured()
    before = recording.use_destination(
        recording.Destination((_CapturingLogger(captured),), host_gets_events=False)
    )
    _calls.forget_placed()
    try:
        yield captured
    finally:
        recording.use_destination(before)
        _calls.forget_placed()
