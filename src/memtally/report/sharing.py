"""Share the counting of large logs among processes."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator

import msgspec

from memtally.errors import is_the_systems
from memtally.report.state import SurveyState, state_of, survey_from
from memtally.report.survey import Survey
from memtally.report.tally import Tally

__all__ = ["Range", "available_processes", "share"]

Range = tuple[int, int, int]
"""A file's number and the bytes from where to where."""

MOST_PROCESSES = 4
"""Each takes some thirty megabytes, and from the disk they all read the same way."""
WORTH_SHARING = 16 * 1_048_576
"""Bytes below which one process is done before a second one has begun."""
_SHARE = 8 * 1_048_576
_MOST_SHARES = 1_000
"""Four bytes each: together no more than the smallest pipe holds."""


def available_processes() -> int:
    """How many processes may run side by side here."""
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), MOST_PROCESSES)
    return min(os.cpu_count() or 1, MOST_PROCESSES)


def share(
    ranges: list[Range], work: Callable[[Iterable[Range]], Survey], make: Callable[[], Tally], processes: int
) -> Survey:
    """The surveys that ``work`` makes of some ranges, joined.

    ``work`` runs in this process and in children forked from it, each of which takes the next share when
    it has done one. Where a process cannot be forked, or a child fails, this process does it all.
    """
    total = sum(end - start for _, start, end in ranges)
    if processes < 2 or total < WORTH_SHARING or not _may_fork():
        return work(ranges)
    shares = _cut(ranges, max(_SHARE, -(-total // _MOST_SHARES)))
    try:
        tokens, put = os.pipe()
    except OSError:
        return work(ranges)
    children: list[_Child] = []
    try:
        try:
            os.write(put, b"".join(number.to_bytes(4, "little") for number in range(len(shares))))
        finally:
            os.close(put)
        for _ in range(processes - 1):
            children.append(_Child(lambda: work(_taken(tokens, shares))))
        survey = work(_taken(tokens, shares))
        for child in children:
            survey.join(survey_from(child.result(), make()))
    except (OSError, EOFError, ValueError, msgspec.MsgspecError) as error:
        if isinstance(error, OSError) and not is_the_systems(error):
            raise  # out of a signal handler
        return work(ranges)  # it says what is wrong, if anything but the sharing is
    else:
        return survey
    finally:
        os.close(tokens)
        for child in children:
            child.end()


def _may_fork() -> bool:
    # a fork of a process with threads may find a lock taken for ever
    return hasattr(os, "fork") and threading.active_count() == 1


def _cut(ranges: list[Range], size: int) -> list[list[Range]]:
    """The ranges in shares of about that size: large ones cut up, small ones put together."""
    shares: list[list[Range]] = []
    room = 0
    for number, start, end in ranges:
        at = start
        while at < end:
            if room <= 0:
                shares.append([])
                room = size
            taken = min(room, end - at)
            shares[-1].append((number, at, at + taken))
            at, room = at + taken, room - taken
    return shares


def _taken(tokens: int, shares: list[list[Range]]) -> Iterator[Range]:
    while token := os.read(tokens, 4):
        yield from shares[int.from_bytes(token, "little")]


class _Child:
    """A forked process that does some work and hands over its survey."""

    def __init__(self, work: Callable[[], Survey]) -> None:
        self._reading, writing = os.pipe()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # threads of C libraries, seen by 3.12
                self._pid = os.fork()
        except OSError:
            os.close(self._reading)
            os.close(writing)
            raise
        if self._pid == 0:
            _work_and_leave(work, writing)
        os.close(writing)

    def result(self) -> SurveyState:
        """What the child has made. Raises ``EOFError`` if it failed."""
        with open(self._reading, "rb", closefd=False) as stream:
            data = stream.read()
        if not data:
            raise EOFError
        return msgspec.msgpack.decode(data, type=SurveyState)

    def end(self) -> None:
        """See to it that the process is gone."""
        os.close(self._reading)  # one that is still writing ends at that
        try:
            if os.waitpid(self._pid, os.WNOHANG)[0] == 0:  # its number is its own as long as nobody waited
                os.kill(self._pid, 9)
                os.waitpid(self._pid, 0)
        except ChildProcessError:
            pass  # the system has, where nobody wants to hear of children


def _work_and_leave(work: Callable[[], Survey], writing: int) -> None:
    """In the child: nothing but this, no handler, no buffer of the parent's."""
    status = 1
    try:
        data = msgspec.msgpack.encode(state_of(work()))
        with open(writing, "wb", closefd=False) as stream:
            stream.write(data)
        status = 0
    finally:
        os._exit(status)
