"""What the tests of the frameworks share: the real packages, in environments of their own (make test-frameworks)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import memtally
from memtally import RecordUsage
from memtally.testing import Captured, capture


@pytest.fixture
def captured() -> Iterator[Captured]:
    """The events of the test, recorded nowhere else."""
    with capture() as found:
        yield found


@pytest.fixture
def figures(tmp_path: Path) -> Iterator[Callable[[], dict[str, RecordUsage]]]:
    """The report of a workspace that the process records into, by ``kind/slug``."""
    memtally.configure(workspace=tmp_path, tokenizer="script-estimate")
    yield lambda: {f"{r.kind}/{r.slug}": r for r in memtally.build_report(workspace=tmp_path).records}
    memtally.shutdown()
