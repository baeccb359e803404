"""Lines that are not in the log yet: in order, bounded, and none taken out before it is in the file."""

from __future__ import annotations

from collections import deque

__all__ = ["Line", "WaitingLines"]

Line = list[bytes]
"""One line in a list of its own, which tells it from another one of the same bytes."""

MOST_LINES = 10_000
MOST_BYTES = 8 * 1_048_576
BATCH_BYTES = 262_144


class WaitingLines:
    """A queue for one writer. Only who holds the writer's mutex takes from its front."""

    def __init__(self) -> None:
        self._lines: deque[Line] = deque()
        self._landed: list[Line] = []

    def __len__(self) -> int:
        return len(self._lines)

    def append(self, line: bytes) -> None:
        self._lines.append([line])

    def batch(self) -> list[Line]:
        """The oldest lines, up to a bound, to be written as one piece."""
        if len(self._lines) == 1:
            return [self._lines[0]]
        lines: list[Line] = []
        size = 0
        for line in list(self._lines):
            size += len(line[0])
            if lines and size > BATCH_BYTES:
                break
            lines.append(line)
        return lines

    def landed(self, lines: list[Line]) -> None:
        """Remember that these, the first, are in the file: one assignment, which nothing can interrupt."""
        self._landed = lines

    def take_out_landed(self) -> None:
        """Take out what has landed; interrupted by an exception and done again, it takes no more."""
        for line in self._landed:
            if self._lines and self._lines[0] is line:
                self._lines.popleft()
        self._landed = []

    def shed(self, *, newest: bool) -> int:
        """Keep within the bounds; how many lines were given up for that.

        ``newest``: from the back, for who has no mutex: the line in front is being written.
        """
        size, given_up = sum(len(line) for [line] in list(self._lines)), 0
        while len(self._lines) > newest and (len(self._lines) > MOST_LINES or size > MOST_BYTES):
            [line] = self._lines.pop() if newest else self._lines.popleft()
            size -= len(line)
            given_up += 1
        return given_up

    def clear(self) -> int:
        """Forget all; how many there were."""
        number = len(self._lines)
        self._lines.clear()
        return number
