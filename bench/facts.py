"""What the figures depend on: the machine and the versions, without names or paths."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import metadata

from bench.running import ROOT

__all__ = ["machine"]

_VERSIONS = (
    "duckdb",
    "langfuse",
    "logfire",
    "mlflow-skinny",
    "msgspec",
    "openinference-instrumentation",
    "opentelemetry-exporter-otlp-json-file",
    "opentelemetry-sdk",
    "orjson",
    "polars",
    "structlog",
    "tiktoken",
    "toktok-rs",
    "traceloop-sdk",
)


def machine() -> dict[str, object]:
    """What figures depend on, without a name or a path: processors, versions, time, revision."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "revision": _output_of("git", "describe", "--always", "--dirty") or "unknown",
        "processors": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "rustc": _output_of("rustc", "--version").removeprefix("rustc ").partition(" (")[0],
        "node": _output_of("node", "--version"),
        "packages": dict(sorted((name, version) for name, version in _versions())),
    }


def _versions() -> Iterator[tuple[str, str]]:
    for name in _VERSIONS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            yield name, metadata.version(name)


def _output_of(*command: str) -> str:
    # git is asked without taking its lock: somebody may be at work in this repository
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=20, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
