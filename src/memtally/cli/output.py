"""Where a command's text goes: stdout, or a file that is written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterable

import click

from memtally.errors import MemtallyError
from memtally.ledger.layout import DIRECTORY, is_segment
from memtally.report._text import one_line

__all__ = ["columns", "emit", "note", "shows_blocks", "shows_color"]


def emit(text: str, output: str | None, inputs: Iterable[str] = ()) -> None:
    """Print a command's data, or put it into a file in one step; never in the place of evidence."""
    if output is None:
        sys.stdout.write(text)
        return
    target = os.path.realpath(output)  # a link stays one: what it leads to is written
    folder, name = os.path.split(target)
    if (os.path.basename(folder) == DIRECTORY and is_segment(name)) or any(
        os.path.realpath(path) == target for path in inputs
    ):
        raise MemtallyError(f"--output {output!r}: is a usage log, which is not replaced; name another file")
    temporary = f"{target}.{os.urandom(4).hex()}.tmp"
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            temporary = target  # a pipe or a device is written to, never replaced
        with open(temporary, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            if temporary != target and os.path.exists(target):
                shutil.copymode(target, temporary)
        if temporary != target:
            os.replace(temporary, target)
    except OSError as error:
        if temporary != target:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise MemtallyError(
            f"--output {output!r}: cannot be written ({error.strerror}); name another file"
        ) from None


def note(text: str) -> None:
    """Say something to the person at the terminal, apart from the data."""
    click.echo(one_line(text), err=True)


def columns() -> int | None:
    """Width of the terminal; ``None`` when the output goes elsewhere and must not depend on it."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def shows_color(*, no_color: bool) -> bool:
    """Whether output has colour: at a terminal, where neither the user nor NO_COLOR forbids it."""
    if no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout.isatty()


def shows_blocks() -> bool:
    """Whether the encoding of the output has the characters of which bars are made."""
    try:
        "█▒░".encode(sys.stdout.encoding or "ascii")
    except (UnicodeError, LookupError):
        return False
    return True
