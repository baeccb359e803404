"""``memtally hook``, ``install`` and ``uninstall``: live recording from agent hosts."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from typing import TypeVar

import click

from memtally.cli._hook import run_hook
from memtally.cli.options import workspace_option
from memtally.cli.output import note
from memtally.config import write_config
from memtally.errors import MemtallyError
from memtally.hosts.hooking import HOSTS
from memtally.hosts.installing import (
    SCOPES,
    Change,
    hook_command,
    installed_in,
    plan_install,
    plan_uninstall,
    settings_path,
)
from memtally.report._text import one_line
from memtally.workspace import Workspace, find_workspace

__all__ = ["hook", "install", "uninstall"]

_F = TypeVar("_F", bound=Callable[..., object])

_host = click.argument("host", type=click.Choice(list(HOSTS)))


@click.command()
@click.argument("host", metavar="HOST")
def hook(host: str) -> None:
    """Record one payload of a host's hook, from stdin. Hosts run this; see memtally install.

    Prints nothing and exits with 0, whatever happens: what goes wrong is shown by memtally status.
    """
    run_hook(host)  # main() comes here only for --help, which loads more than a hook may


def _scope(command: _F) -> _F:
    for name, text in (
        ("local", "This workspace, for you alone (settings.local.json)."),
        ("project", "This workspace, for all who share its settings file."),
        ("user", "All your workspaces (the default)."),
    ):
        command = click.option(f"--{name}", "scope", flag_value=name, help=text)(command)
    return click.option("--dry-run", is_flag=True, help="Show the change; make none.")(command)


@click.command()
@_host
@_scope
@workspace_option
def install(host: str, scope: str | None, workspace: str | None, dry_run: bool) -> None:
    """Have a host record: put memtally's hooks into its settings.

    Nothing else in the file is touched, a backup is kept beside it, and doing it twice does nothing more.
    With --user a workspace is begun (.memtally/) wherever the host next reads a record.
    """
    place = find_workspace(workspace)
    path = _path(host, scope, place)
    _refuse_a_second_one(host, path, place)
    change = plan_install(host, path, _tools(host, place))
    if _show(change, dry_run):
        return
    backup = change.carry_out() if change.needed else None
    note(f"{change.path}: {change.said}" + (f"; backup in {backup}" if backup else ""))
    if scope in ("project", "local") and not place.config_path.exists():
        place.ensure_directory()
        write_config(place.config_path, "claude-code")
        note(f"wrote {place.config_path} (preset claude-code)")
    if scope == "project":
        note("the file holds a path of this machine; --local keeps it out of a shared repository")
    if host == "codex":
        note("Codex asks once whether to trust new hooks: start it, and say yes")


@click.command()
@_host
@_scope
@workspace_option
def uninstall(host: str, scope: str | None, workspace: str | None, dry_run: bool) -> None:
    """Take memtally's hooks out of a host's settings, and nothing else. The log stays."""
    place = find_workspace(workspace)
    change = plan_uninstall(host, _path(host, scope, place), _tools(host, place))
    if _show(change, dry_run):
        return
    if change.needed:
        change.carry_out()
    note(f"{change.path}: {change.said}")


def _refuse_a_second_one(host: str, path: str, place: Workspace) -> None:
    """Of two hooks with one command the host runs one; of two with different ones both, and all that they
    record without an id of the host's would count twice.
    """
    for scope in SCOPES[host]:
        other = settings_path(host, scope, str(place.root))
        for command in set(installed_in(host, other).values()) - {hook_command(host)}:
            if other != path:
                raise MemtallyError(
                    f"{other}: has a hook of memtally's already, by another path ({command}): what is placed "
                    f"would count twice; run memtally uninstall {host} --{scope} first"
                )


def _path(host: str, scope: str | None, place: Workspace) -> str:
    if scope == "local" and host != "claude-code":
        raise MemtallyError(f"--local: {host} has no such settings file; use --project or --user")
    return settings_path(host, scope or "user", str(place.root))


def _tools(host: str, place: Workspace) -> list[str]:
    """The tools that the workspace says read records, the shell among them where it does."""
    config = place.config_if_readable()
    return [*config.tools, *(["Bash"] if host == "claude-code" and config.shell_reads else [])]


def _show(change: Change, dry_run: bool) -> bool:
    """Print the change, where only that is wanted."""
    if not dry_run:
        return False
    before, after = (
        ((data or b"").decode("utf-8", "replace")).splitlines(keepends=True)
        for data in (change.before, change.after)
    )
    for line in difflib.unified_diff(before, after, change.path, change.path):
        sys.stdout.write(one_line(line.rstrip("\n")) + "\n")
    note(f"{change.path}: {change.said} (nothing was written)")
    return True
