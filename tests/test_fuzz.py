"""The fuzzer's oracle on what it has found so far, and for a moment on what Hypothesis thinks of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROOT, SOAK

sys.path.insert(0, str(ROOT / "fuzz"))
from oracle import check

CORPUS = sorted((ROOT / "fuzz" / "corpus").iterdir())


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_the_corpus_holds(path: Path) -> None:
    """Every input that was worth keeping: neighbours unharmed, both ways alike, figures steady."""
    check(path.read_bytes())


@settings(max_examples=100 * SOAK, deadline=None)
@given(st.lists(st.sampled_from([p.read_bytes() for p in CORPUS]) | st.binary(max_size=60), max_size=6))
def test_pieces_of_the_corpus_in_any_order_hold(pieces: list[bytes]) -> None:
    """Pieces put together, whole or with anything between them."""
    check(b"".join(pieces))


def test_the_oracle_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that drops what stands behind a damaged line is caught."""
    import oracle

    real = oracle.read_events
    monkeypatch.setattr(oracle, "read_events", lambda lines, counts: list(real(lines, counts))[:-1])
    with pytest.raises(AssertionError, match="behind costs nothing"):
        check(b"x")


def test_the_fuzzer_runs_without_atheris() -> None:
    """Where atheris does not install, Hypothesis searches for as long as was asked."""
    code = "import sys; sys.modules['atheris'] = None; sys.argv = ['run.py', '1']; import runpy; runpy.run_path('fuzz/run.py', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "nothing found" in done.stdout
