"""``memtally import``: past sessions of a host, and older logs, into the usage log."""

from __future__ import annotations

import os
import sys

import click

from memtally.cli.options import moment_option, workspace_option
from memtally.cli.output import note
from memtally.config import Config, write_config
from memtally.context import disabled
from memtally.errors import MemtallyError
from memtally.hosts.importing import Backfill, ImportResult, Sessions, history_files
from memtally.workspace import Workspace, find_workspace

__all__ = ["import_"]


@click.command("import")
@click.argument("host", type=click.Choice(["claude-code", "codex", "yoi"]))
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@workspace_option
@click.option("--since", metavar="TIME", help="Only what happened from then on: 7d, 12h, a date, or a time.")
@click.option("--dry-run", is_flag=True, help="Count only; write nothing.")
def import_(
    host: str, paths: tuple[str, ...], workspace: str | None, since: str | None, dry_run: bool
) -> None:
    """Backfill from a host's transcripts, or from an older log.

    Without a path: the host's sessions of this workspace. With paths (files, or folders of them): these
    whole, whichever workspace they are of. What is in the log already is left out, so that an import may be
    repeated; remove .memtally/usage-import-HOST.jsonl to undo it.
    """
    if disabled():
        note("MEMTALLY_DISABLED is set: nothing was imported")
        return
    place = find_workspace(workspace)
    config = place.config() if dry_run else _ensured(place, "yoi" if host == "yoi" else "claude-code")
    start = None if since is None else moment_option("--since", since)
    work = Backfill(
        host, place, since=None if start is None else int(start.timestamp() * 1_000_000), dry_run=dry_run
    )
    if host == "yoi":
        from memtally.hosts.yoi import yoi_logs  # noqa: PLC0415 - of one host

        files = yoi_logs(str(place.root), paths)
    else:
        files = history_files(host, paths)
    sessions = Sessions(host, place, config, whole=bool(paths))
    total = sum(os.path.getsize(file) for file in files)
    with click.progressbar(
        length=total, label=_number(len(files), "file"), file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        work.read(files, sessions.resolve, bar.update)
    for line in _said(work.result, dry_run=dry_run):
        note(line)


def _ensured(place: Workspace, preset: str) -> Config:
    try:
        if not place.config_path.exists():
            place.ensure_directory()
            write_config(place.config_path, preset)
        return place.config()
    except OSError as error:
        raise MemtallyError(
            f"{place.directory}: cannot be created ({error.strerror}); check its owner"
        ) from None


def _said(result: ImportResult, *, dry_run: bool) -> list[str]:
    reading = result.reading
    lines = [
        (
            f"{'would import' if dry_run else 'imported'} {_number(result.uses, 'use')} and "
            f"{_number(result.exposures, 'exposure')} "
            f"from {_number(reading.files - reading.elsewhere, 'file')} ({_number(reading.lines, 'line')})"
        )
    ]
    for number, text in (
        (result.known, "in the log already"),
        (result.live, "left out: a live hook has recorded these sessions"),
        (result.too_early, "before --since"),
    ):
        if number:
            lines.append(f"{_number(number, 'event')} {text}")
    if reading.elsewhere:
        lines.append(
            f"{_number(reading.elsewhere, 'file')} of other workspaces; name them to import them too"
        )
    if reading.unknown:
        lines.append(f"{_number(reading.unknown, 'line')} of an unknown form, passed over")
    return lines


def _number(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
