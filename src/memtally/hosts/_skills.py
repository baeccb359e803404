"""Skills and commands on disk: where one of a name lies, and what of them all a session starts with."""

from __future__ import annotations

import os

from memtally._content import decode_text
from memtally.hosts._front_matter import front_matter
from memtally.hosts._sizes import Measured, measure_file
from memtally.ledger.layout import led_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memtally.hosts._place import Place

__all__ = ["MEMORY_BYTES", "MEMORY_LINES", "find_skill", "listing", "listing_line", "memory_head"]

MEMORY_LINES = 200
MEMORY_BYTES = 25_000
"""As much of a ``MEMORY.md`` as Claude Code places: that many lines, or that many bytes if they are fewer."""

_MOST_DESCRIPTION = 1_536
_LISTING_BUDGET = 8_000
"""Characters up to which the listing is certain to be whole: one hundredth of the smallest context. Above it
the host leaves descriptions out, and which ones depends on what it keeps to itself."""

_MOST_SKILLS = 1_000


def find_skill(place: Place, name: str) -> str | None:
    """The file of the skill or command that is invoked by a name: the workspace's, else the user's."""
    parts = name.split(":")
    if not all(part and part not in (".", "..") and not set(part) & {"/", "\\", "\0"} for part in parts):
        return None
    for folder in (os.path.join(place.root, ".claude"), place.config_folder):
        for path in (
            os.path.join(folder, "skills", name, "SKILL.md"),
            os.path.join(folder, "commands", *parts[:-1], f"{parts[-1]}.md"),
        ):
            if os.path.isfile(path) and not led_out(path, place.root):
                return path
    return None


def memory_head(record: Measured) -> Measured:
    """The record with what is placed of it at the start of a session."""
    if record.content is not None:
        lines = record.content.split(b"\n", MEMORY_LINES)
        head = b"\n".join(lines[:MEMORY_LINES]) if len(lines) > MEMORY_LINES else record.content
        head = head[:MEMORY_BYTES]
        if len(head) != record.size:
            record.injected = head
    return record


def listing(place: Place) -> list[Measured]:
    """The skills and described commands that a session's listing names, each with its line of it.

    Their sizes are unknown where the whole is larger than what the host is certain to place. Skills of
    plugins and of the host itself are not among them.
    """
    found: dict[str, Measured] = {}
    for folder in (os.path.join(place.root, ".claude"), place.config_folder):
        for name, path in [
            *_skills(os.path.join(folder, "skills")),
            *_commands(os.path.join(folder, "commands")),
        ]:
            if name in found or len(found) >= _MOST_SKILLS or led_out(path, place.root):
                continue  # the workspace's own goes before the user's
            record = measure_file("skill", name, path)
            line = None if record.content is None else listing_line(name, record.content, path)
            if line is not None:
                record.injected = line
                found[name] = record
    if sum(len(record.injected or b"") + 1 for record in found.values()) > _LISTING_BUDGET:
        return [Measured("skill", name) for name in found]
    return list(found.values())


def listing_line(name: str, content: bytes, path: str) -> bytes | None:
    """A skill's line of the listing; ``None`` where the model is not told of it."""
    matter = front_matter(decode_text(content))
    if matter.get("disable-model-invocation", "").lower() == "true":
        return None
    description = matter.get("description", "")
    if when := matter.get("when_to_use", ""):
        description = f"{description} - {when}" if description else when
    if not description and os.path.basename(path).lower() != "skill.md":
        return None  # a command without a description is not listed
    return f"- {name}: {description[:_MOST_DESCRIPTION]}".encode("utf-8", "replace")


def _skills(folder: str) -> list[tuple[str, str]]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    paths = [(name, os.path.join(folder, name, "SKILL.md")) for name in names]
    return [(name, path) for name, path in paths if os.path.isfile(path)]


def _commands(folder: str) -> list[tuple[str, str]]:
    found = []
    for above, folders, names in os.walk(folder):
        folders.sort()
        inside = os.path.relpath(above, folder).replace(os.sep, ":")
        for name in sorted(names):
            if name.endswith(".md"):
                stem = name.removesuffix(".md")
                found.append((stem if inside == "." else f"{inside}:{stem}", os.path.join(above, name)))
    return found
