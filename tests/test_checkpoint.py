"""A report on from a checkpoint equals one from the start, whatever happens to the log in between."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conftest import SOAK
from logs import NOW, random_log
from memtally.events import EXPOSURE, USE, RecordSnapshot, UsageEvent, encode_event
from memtally.ledger.layout import segments
from memtally.ledger.reader import open_segments
from memtally.report import bulk, checkpoint, resuming
from memtally.report.tally import Filters, Tally
from test_bulk import ALIASES, figures
from test_bulk import small as small  # the fixture

STEP = 600_000_000


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Small bounds; and what became of each checkpoint that was looked for."""
    fates: list[str] = []
    monkeypatch.setattr(resuming, "_WORTH_KEEPING", 500)
    monkeypatch.setattr(resuming, "_MOST_REREAD", 2)
    load, resumed = checkpoint.load, resuming._resumed

    def loaded(*arguments: Any) -> Any:
        found = load(*arguments)
        fates.append("none" if found is None else "held")
        return found

    def went_on(*arguments: Any) -> Any:
        survey = resumed(*arguments)
        fates[-1] = "repeated" if survey is None else "used"
        return survey

    monkeypatch.setattr(checkpoint, "load", loaded)
    monkeypatch.setattr(resuming, "_resumed", went_on)
    return fates


class Workspace:
    """A log to which things happen, as they do."""

    def __init__(self, root: Path, randomly: random.Random) -> None:
        self.directory = root / ".memtally"
        self.directory.mkdir()
        self.live = self.directory / "usage.jsonl"
        self.cache = self.directory / "cache" / "report"
        self._randomly = randomly
        self._now = NOW - 40_000_000_000
        self._sealed = 0

    def happen(self) -> str:
        """Something; what it was."""
        what = self._randomly.choice(
            ["append"] * 9 + ["seal", "torn", "truncate", "replace", "edit", "import", "remove", "repeat"]
        )
        getattr(self, f"_{what}")()
        return what

    def _new(self, events: int, *, odd: float | None = None) -> bytes:
        self._now += STEP
        odd = self._randomly.choice([0, 0, 0.03, 0.3]) if odd is None else odd
        jitter = self._randomly.choice([0, 0, 3, 1_500])
        return random_log(self._randomly, events, jitter=jitter, odd=odd, start=self._now)

    def _write(self, data: bytes) -> None:
        with self.live.open("ab") as stream:
            stream.write(data)

    def _append(self) -> None:
        self._write(self._new(self._randomly.randrange(60)))

    def _seal(self) -> None:
        if self.live.exists():
            self._sealed += 1
            self.live.rename(self.directory / f"usage-{self._sealed}.jsonl")

    def _torn(self) -> None:
        self._write(self._new(2, odd=0).rstrip(b"\n")[: self._randomly.choice([-1, -9, 1_000_000])])

    def _truncate(self) -> None:
        if self.live.exists():
            os.truncate(self.live, self._randomly.randrange(self.live.stat().st_size + 1))

    def _replace(self) -> None:
        other = self.directory / "other"
        other.write_bytes(self._new(30))
        other.replace(self.live)

    def _edit(self) -> None:
        """Cut it off and write something else up to the same size or beyond."""
        if self.live.exists() and (size := self.live.stat().st_size):
            os.truncate(self.live, size // 2)
            self._write(self._new(40)[: self._randomly.choice([size, size - size // 2])])

    def _import(self) -> None:
        (self.directory / f"usage-import-host{self._randomly.randrange(3)}.jsonl").write_bytes(self._new(20))

    def _remove(self) -> None:
        if others := [path for path in segments(str(self.directory)) if not path.endswith("usage.jsonl")]:
            os.unlink(self._randomly.choice(others))

    def _repeat(self) -> None:
        """Lines that are there already come again, in a segment of their own or in the live one."""
        lines = b"".join(Path(path).read_bytes() for path in segments(str(self.directory))).split(b"\n")
        again = b"".join(line + b"\n" for line in self._randomly.sample(lines, min(3, len(lines))))
        self._write(again)


def settings(randomly: random.Random) -> Callable[[], Tally]:
    """A tally as some report may want it, most often as all do."""
    form = randomly.random()
    now = NOW if form < 0.9 else NOW + randomly.choice([-86_400_000_000 * 2, 4_000_000_000, 10**12])
    since, until = sorted(NOW - randomly.randrange(0, 40_000_000_000) for _ in range(2))
    period = randomly.choice(
        [Filters()] * 4 + [Filters(since=since), Filters(since, until), Filters(until=until)]
    )
    aliases = ALIASES if randomly.random() < 0.05 else {}
    return lambda: Tally(now=now, aliases=aliases, period=period)


def from_the_start(workspace: Workspace, make: Callable[[], Tally]) -> tuple[dict[str, Any], Any]:
    """The figures without a checkpoint."""
    with open_segments(lambda: segments(str(workspace.directory))) as logs:
        survey = bulk.count(logs, bulk.whole(logs), make)
        return comparable(survey.tally), survey.counts


def from_the_checkpoint(workspace: Workspace, make: Callable[[], Tally]) -> tuple[dict[str, Any], Any]:
    """The figures as a report makes them."""
    root = str(workspace.directory.parent)
    with open_segments(lambda: segments(str(workspace.directory))) as logs:
        survey = resuming.count_on(logs, make, str(workspace.cache), root)
        return comparable(survey.tally), survey.counts


def comparable(tally: Tally) -> dict[str, Any]:
    """What a tally has counted; of the sessions, their number."""
    return figures(tally) | {"sessions": tally.sessions_before + len(tally.sessions)}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(8 * SOAK))
def test_a_checkpoint_changes_no_figure(seed: int, tmp_path: Path, kept: list[str]) -> None:
    """After each of many things that happen to a log, both ways agree, in any period, at any time."""
    randomly = random.Random(seed)
    workspace = Workspace(tmp_path, randomly)
    history = []
    for _ in range(25):
        history.append(workspace.happen())
        make = settings(randomly)
        assert from_the_checkpoint(workspace, make) == from_the_start(workspace, make), history
    assert "used" in kept


def event(second: int, slug: str = "a") -> bytes:
    """A canonical line whose id and time are that many seconds after a fixed moment."""
    at = NOW - 40_000_000_000 + second * 1_000_000
    digits = f"{at // 1000:012x}7000800000000000{second:04x}"
    name = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    return encode_event(UsageEvent(name, at, USE, "MemoryRead", (RecordSnapshot("decision", slug, 1, 1),)))


class Counted:
    """The uses that a report finds in a log, and whether it went on from a checkpoint."""

    def __init__(self, root: Path, kept: list[str]) -> None:
        (root / ".memtally").mkdir()
        self.log = root / ".memtally" / "usage.jsonl"
        self.cache = root / ".memtally" / "cache" / "report"
        self._root, self._kept = root, kept

    def __call__(self, *lines: bytes, aliases: dict[Any, Any] = {}, now: int = NOW) -> tuple[int, int, str]:  # noqa: B006
        """Uses, repeated events and the checkpoint's fate, after these lines have been appended."""
        with self.log.open("ab") as stream:
            stream.writelines(lines)
        with open_segments(lambda: segments(str(self.log.parent))) as logs:
            make = lambda: Tally(now=now, aliases=aliases)  # noqa: E731
            tally = resuming.count_on(logs, make, str(self.cache), str(self._root)).tally
        uses = sum(figure.uses.events for figure in tally.figures().values())
        return uses, tally.duplicates, self._kept[-1]


@pytest.fixture
def counted(small: None, kept: list[str], tmp_path: Path) -> Counted:
    """Count a growing log with small bounds."""
    return Counted(tmp_path, kept)


def test_new_events_are_added_to_the_checkpoint(counted: Counted) -> None:
    """One hundred events, then ten more: the second report goes on from the first."""
    assert counted(*map(event, range(100))) == (100, 0, "none")
    assert counted(*map(event, range(100, 110))) == (110, 0, "used")
    assert counted() == (110, 0, "used")


def test_an_event_from_the_middle_that_comes_again_counts_once(counted: Counted) -> None:
    """Its id lies in no list: the piece that holds it is read again, and then everything is counted anew."""
    counted(*map(event, range(100)))
    assert counted(event(50)) == (100, 1, "repeated")
    assert counted(event(100)) == (101, 1, "used")


def test_late_events_are_no_repeated_ones(counted: Counted) -> None:
    """Events whose ids lie between those counted, but are none of them, are new."""
    counted(*map(event, range(0, 200, 2)))
    assert counted(*map(event, range(101, 121, 2))) == (110, 0, "used")
    # and when these are in the checkpoint themselves, what lies around and among them is known still
    assert counted(event(150)) == (110, 1, "repeated")
    assert counted(event(103)) == (110, 2, "repeated")
    assert counted(event(125)) == (111, 2, "used")


def test_a_checkpoint_that_was_saved_with_late_events_knows_the_others(counted: Counted) -> None:
    """The late ones' stretch, in the middle of an older one, hides nothing that lies behind it."""
    counted(*map(event, range(0, 200, 2)))
    assert counted(*map(event, range(11, 51, 2))) == (120, 0, "used")
    counted(event(300))
    assert counted(event(60)) == (121, 1, "repeated")


def test_a_checkpoint_may_be_deleted_or_damaged(counted: Counted) -> None:
    """Nothing, half of it, or any byte of its beginning changed: the figures stay."""
    counted(*map(event, range(50)))
    whole = counted.cache.read_bytes()
    for damaged in [b"", whole[:20], whole[: len(whole) // 2], b"x" * len(whole)]:
        counted.cache.write_bytes(damaged)
        assert counted()[:2] == (50, 0)
    for place in range(min(len(whole), 700)):
        counted.cache.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        assert counted()[:2] == (50, 0), place
    counted.cache.unlink()
    assert counted() == (50, 0, "none")


def test_a_checkpoint_is_kept_for_other_aliases_and_times(counted: Counted) -> None:
    """Aliases that changed make it void; so does a time before which some of the events lie."""
    counted(*map(event, range(50)))
    assert counted(aliases={("decision", "a"): ("decision", "b")}) == (50, 0, "none")
    assert counted(aliases={("decision", "a"): ("decision", "b")}) == (50, 0, "used")
    assert counted() == (50, 0, "none")
    assert counted(now=NOW - 2 * 86_400_000_000) == (50, 0, "none")


def test_a_folder_that_cannot_be_written_costs_only_the_checkpoint(counted: Counted) -> None:
    """Where the cache is a file, or leads out of the workspace, the report is made without."""
    counted.cache.parent.write_text("in the way")
    assert counted(*map(event, range(50))) == (50, 0, "none")
    counted.cache.parent.unlink()
    outside = counted.log.parent.parent.parent / "outside"
    outside.mkdir()
    counted.cache.parent.symlink_to(outside)
    assert counted() == (50, 0, "none")
    assert list(outside.iterdir()) == []


def test_damage_anywhere_in_a_checkpoint_is_noticed(counted: Counted) -> None:
    """Ids and sessions that a bad block has emptied are not believed: old lines that come again count once."""
    lines = [event(n).replace(b"-7000-", b"-5000-").replace(b"null", b'"s%d"' % n, 1) for n in range(300)]
    counted(*lines)
    whole = counted.cache.read_bytes()
    granularity = checkpoint.ALLOCATIONGRANULARITY
    assert len(whole) > 2 * granularity
    for start in range(granularity, len(whole), granularity):
        counted.cache.write_bytes(
            whole[:start] + bytes(min(granularity, len(whole) - start)) + whole[start + granularity :]
        )
        assert counted(*lines[:5])[0] == 300


def test_a_checkpoint_is_bound_to_its_files(counted: Counted) -> None:
    """One that names no file, or is somebody else's to write, says nothing of this log."""
    own = checkpoint._listed

    def unbound(*arguments: Any) -> Any:
        header, pieces = own(*arguments)
        fields = msgspec.msgpack.decode(header, strict=False)
        fields[2] = []  # the marks
        return msgspec.msgpack.encode(fields), pieces

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "_listed", unbound)
        counted(*map(event, range(50)))
    assert counted.cache.exists()
    assert counted() == (50, 0, "none")
    assert counted() == (50, 0, "used")
    counted.cache.chmod(0o622)
    assert counted() == (50, 0, "none")


def test_figures_that_cannot_be_written_down_cost_only_the_checkpoint(counted: Counted) -> None:
    """Sums beyond 64 bits make a report, and leave nothing behind."""
    huge = RecordSnapshot("decision", "a", 1, 2**63 - 1)
    lines = [
        encode_event(UsageEvent(f"x{n}", NOW, EXPOSURE, "ResidentInjection", (huge,), tokenizer="t"))
        for n in range(4)
    ]
    assert counted(*lines, event(1)) == (1, 0, "none")
    assert not counted.cache.parent.exists()


def test_half_a_surrogate_pair_is_kept_like_any_other_text(counted: Counted) -> None:
    """A tokenizer's name out of somebody's log need not be Unicode."""
    odd = event(1).replace(b'"records"', b'"tokenizer":"\\ud800","records"')
    assert counted(odd, *map(event, range(2, 50))) == (49, 0, "none")
    assert counted() == (49, 0, "used")


def test_pieces_that_lie_in_no_file_are_not_believed(counted: Counted) -> None:
    """A list of pieces that fits no file makes the checkpoint void, when it is asked for."""
    own = checkpoint._listed

    def nowhere(*arguments: Any) -> Any:
        header, pieces = own(*arguments)
        return header, msgspec.msgpack.encode([[99, *piece[1:]] for piece in msgspec.msgpack.decode(pieces)])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "_listed", nowhere)
        counted(*map(event, range(50)))
    assert counted(event(20))[:2] == (50, 1)
