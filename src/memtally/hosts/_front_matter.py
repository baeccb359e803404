"""The front matter of a skill, command or agent: the few keys that say what a host places of it.

A subset of YAML: a value on its line, quoted or not, a block (``|``, ``>``), lines that go on by indentation,
and lists. What is beyond it reads as text; a hook process cannot afford a YAML parser.
"""

from __future__ import annotations

__all__ = ["front_matter"]


def front_matter(text: str) -> dict[str, str]:
    """The keys of the block between the two ``---`` lines at the top, with their values as one line each.

    A list's items stand in its value with a newline between them. Empty where there is no front matter.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != "---":
        return {}
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines[1:]:
        if line.rstrip() in ("---", "..."):
            return {key: _value(parts) for key, parts in found.items()}
        name, colon, value = line.partition(":")
        if (
            colon
            and name
            and not name[0].isspace()
            and name[0] not in "-#"
            and (not value or value[0] == " ")
        ):
            current = found.setdefault(name.strip(), [value.strip()])
        elif current is not None and (line[:1].isspace() or line.startswith("-") or not line):
            current.append(line.strip())
    return {}  # it never ends: the text only begins with a line


def _value(parts: list[str]) -> str:
    first, rest = parts[0], [part for part in parts[1:] if part]
    if first[:1] in ("|", ">") and len(first) <= 3:
        return " ".join(rest)
    if not first and rest and all(part.startswith("- ") for part in rest):
        return "\n".join(_plain(part[2:].strip()) for part in rest)
    if first.startswith("[") and first.endswith("]"):
        return "\n".join(_plain(item.strip()) for item in first[1:-1].split(",") if item.strip())
    return _plain(" ".join([first, *rest] if first else rest))


def _plain(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return text[1:-1].replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return text.split(" #", 1)[0].rstrip()
