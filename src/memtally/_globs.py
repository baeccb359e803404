"""Record globs: which files a pattern matches, and what the record of such a file is called."""

from __future__ import annotations

import re

from memtally.events import normal_slug

__all__ = ["fixed_prefix", "glob_regex", "record_name", "slug_of"]


def slug_of(kind: str, relative: str, pattern: str, *, user_level: bool = False) -> str:
    """The slug of a file by DESIGN's rules: ``relative`` to its root, matched by ``pattern``.

    Skills and typed commands go by the name they are invoked by, auto-memory topics by their stem,
    instructions by their whole path, every other kind by the path below its folder without ``.md``; so do
    the memories of several agents, who all call theirs ``MEMORY``.
    """
    if kind == "instructions":
        slug = relative
    elif kind == "skill":
        if relative.rsplit("/", 1)[-1].lower() == "skill.md":
            return normal_slug(relative.rsplit("/", 2)[-2])
        return normal_slug(_below(relative, pattern).replace("/", ":"))
    elif kind == "memory" and "agent-memory" not in pattern:
        return normal_slug(relative.rsplit("/", 1)[-1].removesuffix(".md"))
    else:
        slug = _below(relative, pattern)
    return normal_slug(f"~/{slug}" if user_level else slug)


def record_name(relative: str, real: str | None, pattern: str) -> str:
    """What the record at ``relative`` is called after: a symbolic link is the file it resolves to, ``real``.

    Both relative to the root; ``None`` for a file that lies elsewhere. A file that is linked from elsewhere
    in the workspace has a slug only by its link.
    """
    return real if real is not None and real.startswith(fixed_prefix(pattern)) else relative


def _below(relative: str, pattern: str) -> str:
    return relative.removeprefix(fixed_prefix(pattern)).removesuffix(".md")


def fixed_prefix(pattern: str) -> str:
    """The folders of a pattern before its first wildcard, with the final slash."""
    fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    return fixed[: fixed.rfind("/") + 1]


def glob_regex(pattern: str) -> str:
    """The pattern as an expression whose work grows with the name only, however many wildcards there are.

    Of what stands between two wildcards the first place is as good as any, so that it is never tried anew
    (an atomic group); only what follows the last wildcard has to be at the end.
    """
    first, *blocks = re.split(r"(?:\*\*/)+", pattern)
    made = _parts_regex(first)
    for block in blocks[:-1]:
        made += f"(?>(?:[^/]+/)*?{_parts_regex(block)})"
    return made + (f"(?:[^/]+/)*{_parts_regex(blocks[-1])}" if blocks else "")


def _parts_regex(block: str) -> str:
    return "/".join(map(_part_regex, block.split("/")))


def _part_regex(part: str) -> str:
    if part == "SKILL.md":
        return r"(?i:SKILL\.md)"  # hosts take it in any case
    first, *pieces = [
        "".join("[^/]" if c == "?" else re.escape(c) for c in piece) for piece in re.split(r"\*+", part)
    ]
    made = first + "".join(f"(?>[^/]*?{piece})" for piece in pieces[:-1])
    return made + (f"[^/]*{pieces[-1]}" if pieces else "")
