"""Ask git about a folder, so that nothing of the folder's own configuration runs a program."""

from __future__ import annotations

import os

__all__ = ["ask_git"]

_SECONDS = 10.0


def ask_git(folder: str, *arguments: str) -> bytes | None:
    """What git answers for a folder; ``None`` where it cannot, or is not there.

    A hostile repository may name programs for signatures, file watching and fetching missing objects:
    none of them is reached.
    """
    import subprocess  # noqa: PLC0415 - most reports need no git

    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "-C", folder, "-c", "log.showSignature=false", "-c", "core.fsmonitor=false", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=True, env=environment)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout
