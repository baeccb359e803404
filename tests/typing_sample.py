"""What type checkers must see of the public interface. Checked by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from pathlib import Path
from typing import assert_type

import memtally
from memtally import MemoryRecord, ReadCall, RecordUsage, UsageReport


@memtally.instrument_read("MemoryRead")
def plain(kind: str, slug: str) -> str:
    """A function with a source."""
    return kind + slug


@memtally.instrument_read
def bare(kind: str, slug: str) -> bytes:
    """A bare decorator."""
    return b""


@memtally.instrument_read(
    "KnowledgeRef", records=lambda call: MemoryRecord("k", call.arguments["slug"], call.result)
)
async def later(slug: str) -> str:
    """A coroutine."""
    return slug


@memtally.instrument_read("MemoryRead", kind="decision")
def chunks(slug: str) -> Iterator[str]:
    """A generator."""
    yield slug


@memtally.instrument_read()
async def later_chunks(kind: str, slug: str) -> AsyncIterator[str]:
    """An async generator."""
    yield slug


class Store:
    """Methods of each kind."""

    @memtally.instrument_read("MemoryRead")
    def read(self, kind: str, slug: str) -> str:
        """A method."""
        return slug

    @classmethod
    @memtally.instrument_read("MemoryRead")
    def read_class(cls, kind: str, slug: str) -> str:
        """A class method."""
        return slug

    @staticmethod
    @memtally.instrument_read("MemoryRead")
    def read_static(kind: str, slug: str) -> str:
        """A static method."""
        return slug


@memtally.instrument_injection(once_per="session")
def resident() -> list[MemoryRecord]:
    """An injection."""
    return [MemoryRecord("rule", "a", Path("a.md"), injected="line", partial=False)]


def mapped(call: ReadCall) -> list[MemoryRecord]:
    """A mapping from a call to records."""
    return [MemoryRecord("decision", str(call.arguments["slug"]))]


async def use() -> None:
    """Every result keeps its type."""
    assert_type(plain("decision", "a"), str)
    assert_type(bare("decision", slug="a"), bytes)
    assert_type(await later("a"), str)
    assert_type(chunks("a"), Iterator[str])
    assert_type(later_chunks("decision", "a"), AsyncIterator[str])
    assert_type(Store().read("decision", "a"), str)
    assert_type(Store.read_class("decision", "a"), str)
    assert_type(Store.read_static("decision", "a"), str)
    assert_type(resident(), list[MemoryRecord])
    memtally.configure(workspace=Path(), otlp=False, session_id=None, actor="maintenance", durability="fsync")
    with memtally.session("s", actor="user"):
        memtally.record_use("MemoryRead", MemoryRecord("decision", "a", "text"), event_id="x", input_tokens=3)
        memtally.record_exposure([MemoryRecord("rule", "a")], source="AutoRecall")
    report = memtally.build_report(".", since=datetime(2026, 1, 1), kinds=["decision"])
    assert_type(report, UsageReport)
    assert_type(report["decision", "a"], RecordUsage)
    assert_type(report.get("decision", "a"), RecordUsage | None)
    assert_type(report.records[0].use_count, int)
    assert_type(report.records[0].last_used_at, datetime | None)
    assert_type(memtally.find_references("#a", {"a"}), tuple[str, ...])
    invocation = memtally.parse_invocation("/a", ["a"])
    if invocation is not None:
        assert_type(invocation.name, str)
