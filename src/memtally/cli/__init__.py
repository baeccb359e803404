"""The ``memtally`` command: the only place that prints or sets an exit code.

This module loads nothing: a hook runs on every tool call of an agent, and must not wait for the others.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if len(given) == 2 and given[0] == "hook" and not given[1].startswith("-"):
        from memtally.cli._hook import run_hook  # noqa: PLC0415 - see above

        sys.exit(run_hook(given[1]))
    from memtally.cli._group import run  # noqa: PLC0415 - see above

    sys.exit(run(None if arguments is None else given))
