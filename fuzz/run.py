"""Fuzz the reader for a bounded time: ``python fuzz/run.py SECONDS``.

With atheris the search is guided by coverage, and what it finds is written to ``fuzz/corpus``, where the
tests take it from. Where atheris does not install, Hypothesis searches, and prints what it finds.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORPUS = HERE / "corpus"
MOST_BYTES = 4_096


def by_atheris(seconds: int) -> None:
    """Search by coverage until the time is over; ends the process."""
    import atheris  # noqa: PLC0415 - not everywhere

    with atheris.instrument_imports(include=["memtally", "json"]):
        from oracle import check  # noqa: PLC0415 - instrumented as it is imported
    atheris.instrument_func(check)
    with tempfile.TemporaryDirectory(prefix="memtally-fuzz-") as found:
        atheris.Setup(
            [
                sys.argv[0],
                found,  # what widens the coverage goes here: the corpus keeps to what is worth reading
                str(CORPUS),
                f"-max_total_time={seconds}",
                f"-max_len={MOST_BYTES}",
                f"-dict={HERE / 'log.dict'}",
                f"-artifact_prefix={CORPUS}/found-",
                "-timeout=20",
                "-rss_limit_mb=2048",
                "-print_final_stats=1",
            ],
            check,
        )
        atheris.Fuzz()


def by_hypothesis(seconds: int) -> None:
    """Search by Hypothesis until the time is over."""
    from hypothesis import HealthCheck, given, settings  # noqa: PLC0415
    from hypothesis import strategies as st  # noqa: PLC0415
    from oracle import check  # noqa: PLC0415

    pieces = [path.read_bytes() for path in sorted(CORPUS.iterdir())]
    words = (HERE / "log.dict").read_text("utf-8").splitlines()
    pieces += [word[1:-1].encode().decode("unicode_escape").encode("latin-1") for word in words]
    bytes_of = st.lists(st.sampled_from(pieces) | st.binary(max_size=40), max_size=12).map(b"".join)
    end, tried = time.monotonic() + seconds, 0

    @settings(max_examples=2_000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(bytes_of)
    def search(data: bytes) -> None:
        nonlocal tried
        tried += 1
        if time.monotonic() < end:
            check(data)

    while time.monotonic() < end:
        search()
    print(f"{tried:,} inputs by Hypothesis, nothing found")


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    limit = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    try:
        import atheris  # noqa: F401
    except ImportError:
        by_hypothesis(limit)
    else:
        by_atheris(limit)
