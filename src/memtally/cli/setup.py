"""``memtally init`` and ``memtally tokens fetch``: set-up that is done on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from memtally._presets import PRESETS
from memtally.cli.options import workspace_option
from memtally.cli.output import note
from memtally.config import Config, add_preset, write_config
from memtally.errors import MemtallyError
from memtally.inventory import scan
from memtally.report import build_report
from memtally.report._text import one_line
from memtally.workspace import Workspace, find_workspace

__all__ = ["init", "tokens"]


@click.command()
@workspace_option
@click.option(
    "--preset", type=click.Choice(list(PRESETS)), help="Which layout; recognized from the folder by default."
)
@click.option("--force", is_flag=True, help="Write an existing configuration anew (its id is kept).")
def init(workspace: str | None, preset: str | None, force: bool) -> None:
    """Write .memtally/config.toml: the workspace's id, and which files are records."""
    place = find_workspace(workspace)
    chosen = preset or _recognize(place.root)
    try:
        place.ensure_directory()
        if not place.config_path.exists():
            write_config(place.config_path, chosen)
        elif force:
            write_config(place.config_path, chosen, replace=True)
        elif place.config().records is None:
            add_preset(place.config_path, chosen)
        else:
            raise MemtallyError(
                f"{place.config_path}: names records already; edit it, or give --force to write it anew"
            )
    except OSError as error:
        raise MemtallyError(
            f"{place.directory}: cannot be written ({error.strerror}); check its owner"
        ) from None
    found = scan(place, place.config())
    kinds: dict[str, int] = {}
    for kind, _ in found.records:
        kinds[kind] = kinds.get(kind, 0) + 1
    summary = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items())) or "none yet"
    note(f"wrote {place.config_path} (preset {chosen}); records found: {summary}")
    for other, number in [] if preset else _other_layouts(place, chosen):
        note(f"{number} more would be records by the preset {other}: memtally init --preset {other} --force")
    strange = sorted({one_line(r.kind) for r in build_report(place.root).records if r.kind not in kinds})
    if strange:
        note(
            f"the log names records of kind {', '.join(strange)}; no file of theirs was found: set [records]"
        )
    if not found.complete:
        note(f"{place.root} has too many folders to look through; give a folder further down by --workspace")


def _other_layouts(place: Workspace, chosen: str) -> Iterator[tuple[str, int]]:
    """How many files each preset that was not chosen would find besides."""
    known = {str(record.path) for record in scan(place, place.config()).records.values()}
    for other in PRESETS:
        # only what lies in the workspace: whatever the user has elsewhere is no sign of its layout
        patterns = {
            kind: tuple(one for one in globs if one[0] not in "~/{") for kind, globs in PRESETS[other].items()
        }
        records = scan(place, Config(records=patterns)).records if other != chosen else {}
        paths = {str(record.path) for record in records.values()}
        if paths - known:
            yield other, len(paths - known)


def _recognize(folder: Path) -> str:
    if any((folder / name).is_dir() for name in (".insomnia", ".yoi")):
        return "yoi"
    if (folder / ".claude").is_dir() or (folder / "CLAUDE.md").is_file():
        return "claude-code"
    return "generic"


@click.group()
def tokens() -> None:
    """The vocabulary behind exact token counts."""


@tokens.command()
@workspace_option
@click.option("--wanted", is_flag=True, help="Only what hooks have met; they start this by themselves.")
def count(workspace: str | None, wanted: bool) -> None:
    """Count the workspace's records exactly, for hooks to look up."""
    from memtally.hosts.counting import count_wanted  # noqa: PLC0415 - loads a vocabulary

    place = find_workspace(workspace)
    records = {} if wanted else scan(place, place.config()).records
    paths = [str(record.path) for record in records.values()]
    try:
        counted, by = count_wanted(str(place.directory), paths)
    except OSError as error:
        raise MemtallyError(
            f"{place.directory}: cannot be written ({error.strerror}); check its owner"
        ) from None
    note(f"{counted} new content{'' if counted == 1 else 's'} counted ({by})")


@tokens.command()
@click.option("--encoding", default="o200k_base", show_default=True, help="Which encoding's vocabulary.")
def fetch(encoding: str) -> None:
    """Download a vocabulary into memtally's cache. The only command that uses the network."""
    from memtally._vocabulary import fetch as download  # noqa: PLC0415 - imports tiktoken

    note(f"vocabulary {encoding}: {download(encoding)}")
