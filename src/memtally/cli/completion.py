"""``memtally completion``: the script by which a shell completes commands, options and records' names."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

__all__ = ["complete_record", "completion"]

_SHELLS = ("bash", "zsh", "fish")
_PLAIN = re.compile(r"\w[\w./@+-]*")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print the shell's completion script.

    \b
    bash: memtally completion bash > ~/.local/share/bash-completion/completions/memtally
    zsh:  memtally completion zsh > FOLDER/_memtally, a folder of your $fpath
    fish: memtally completion fish > ~/.config/fish/completions/memtally.fish
    """
    from memtally.cli._group import cli  # noqa: PLC0415 - the group imports this module when it is called

    made = get_completion_class(shell)
    assert made is not None, "click completes these shells"
    click.echo(made(cli, {}, "memtally", "_MEMTALLY_COMPLETE").source())


def complete_record(context: click.Context, parameter: Any, incomplete: str) -> list[CompletionItem]:
    """The records of the inventory and the log, by ``kind/slug``.

    A shell waits for it: nothing is said or raised. The shells put a name in as it stands, and would run what
    a ``;`` or ``$(...)`` in it says: only names of one plain word are offered.
    """
    from memtally.report import build_report  # noqa: PLC0415 - only when a name is completed

    with contextlib.suppress(Exception):
        made = build_report(context.params.get("workspace"))
        names = [record.name for record in made.records if _PLAIN.fullmatch(record.name)]
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return []
