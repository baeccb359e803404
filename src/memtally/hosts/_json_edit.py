"""Change somebody else's JSON file by inserting and taking out text: every other byte stays as it is.

Comments and trailing commas are understood, indentation and line ends are followed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Document", "JsonError", "Node"]

_SKIPPED = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"', re.DOTALL)
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_DEEPEST = 200


class JsonError(ValueError):
    """What is no JSON; the message says where."""


@dataclass(slots=True)
class Node:
    """A value and where it stands. ``items`` are the values of an object by key (the last one, if several
    have it), or of a list by number; ``starts`` where each of them begins, its key included.
    """

    start: int
    end: int
    value: Any
    items: dict[str | int, Node] = field(default_factory=dict)
    starts: dict[str | int, int] = field(default_factory=dict)

    @property
    def is_object(self) -> bool:
        """Whether it is an object."""
        return isinstance(self.value, dict)

    @property
    def is_list(self) -> bool:
        """Whether it is a list."""
        return isinstance(self.value, list)


class Document:
    """A JSON text with the places of its values. Raises ``JsonError`` for what is none."""

    def __init__(self, text: str) -> None:
        self.text = text
        start = 1 if text.startswith("\ufeff") else 0
        self.root = self._value(self._skip(start), 0)
        if self._skip(self.root.end) != len(text):
            raise self._error(self._skip(self.root.end), "something follows its end")

    # -- reading

    def _error(self, at: int, problem: str) -> JsonError:
        line = self.text.count("\n", 0, at) + 1
        return JsonError(f"line {line}, column {at - self.text.rfind(chr(10), 0, at)}: {problem}")

    def _skip(self, at: int) -> int:
        found = _SKIPPED.match(self.text, at)
        return at if found is None else found.end()

    def _value(self, at: int, depth: int) -> Node:
        if depth > _DEEPEST:
            raise self._error(at, "nested too deep")
        first = self.text[at : at + 1]
        if first == "{":
            return self._container(at, depth, "}")
        if first == "[":
            return self._container(at, depth, "]")
        found = (_STRING if first == '"' else _SCALAR).match(self.text, at)
        if found is None:
            raise self._error(at, "no value stands here")
        return Node(at, found.end(), self._scalar(found[0], at))

    def _scalar(self, text: str, at: int) -> Any:
        try:
            return json.loads(text, strict=False)
        except ValueError:
            raise self._error(at, "no value stands here") from None

    def _container(self, at: int, depth: int, closing: str) -> Node:
        node = Node(at, at, {} if closing == "}" else [])
        here = self._skip(at + 1)
        while self.text[here : here + 1] != closing:
            start = here
            key: str | int = len(node.items)
            if closing == "}":
                found = _STRING.match(self.text, here)
                if found is None:
                    raise self._error(here, "a key in quotes should stand here")
                key = self._scalar(found[0], here)
                here = self._skip(found.end())
                if self.text[here : here + 1] != ":":
                    raise self._error(here, "a colon should stand here")
                here = self._skip(here + 1)
            child = self._value(here, depth + 1)
            node.items.pop(key, None)  # of two with one key the later one counts, and stands later
            node.items[key], node.starts[key] = child, start
            if isinstance(node.value, dict):
                node.value[key] = child.value
            else:
                node.value.append(child.value)
            here = self._skip(child.end)
            if self.text[here : here + 1] == ",":
                here = self._skip(here + 1)
            elif self.text[here : here + 1] != closing:
                raise self._error(here, f"a comma or {closing} should stand here")
        node.end = here + 1
        return node

    # -- changing

    def inserted(self, container: Node, value: Any, key: str | None = None) -> str:
        """The text with one more value at the end of a container, under a key where that is an object."""
        newline = "\r\n" if "\r\n" in self.text else "\n"
        unit = self._unit()
        close = container.end - 1
        last = max(container.items.values(), key=lambda node: node.end, default=None)
        label = "" if key is None else f"{json.dumps(key)}: "
        outer = (
            self._indentation(self._line_start(close)) if "\n" in self.text[container.start : close] else None
        )
        if last is not None and outer is None:  # all of it stands on one line
            comma = self._skip(last.end)
            has_comma = self.text[comma : comma + 1] == ","
            at = comma + 1 if has_comma else last.end
            return f"{self.text[:at]}{' ' if has_comma else ', '}{label}{json.dumps(value)}{self.text[at:]}"
        if outer is None:
            outer = self._indentation(self._line_start(container.start))
        if last is None:
            inner = outer + unit
        else:
            first = min(container.starts[name] for name in container.items)
            inner = self._indentation(self._line_start(first))
        shown = json.dumps(value, indent=unit).replace("\n", newline + inner)
        before = self.text[:close].rstrip(" \t\r\n")
        closing = (
            self.text[len(before) : close] if "\n" in self.text[len(before) : close] else newline + outer
        )
        if last is not None:
            comma = self._skip(last.end)
            if self.text[comma : comma + 1] != ",":
                before = f"{before[: last.end]},{before[last.end :]}"
        return f"{before}{newline}{inner}{label}{shown}{closing}{self.text[close:]}"

    def without(self, container: Node, name: str | int) -> str:
        """The text without one value of a container. Comments around it stay."""
        start, end = container.starts[name], container.items[name].end
        comma = self._skip(end)
        if self.text[comma : comma + 1] == ",":
            # the comma behind it goes with it, and what blank space led up to it
            text = self.text[:end] + self.text[end:comma] + self.text[comma + 1 :]
        else:
            text = self.text
            earlier = [node.end for node in container.items.values() if node.end <= start]
            if earlier:
                comma = self._skip(max(earlier))
                text = text[:comma] + text[comma + 1 :]
                start, end = start - 1, end - 1
        blank = len(text[:start].rstrip(" \t\r\n"))
        if len(container.items) == 1 and not text[blank:start].strip() and text[blank - 1 : blank] in "{[":
            rest = text[end:].lstrip(" \t\r\n")
            if rest[:1] in "}]":
                return text[:blank] + rest
        return text[:blank] + text[end:]

    def replaced(self, node: Node, value: Any) -> str:
        """The text with another value in the place of one."""
        return f"{self.text[: node.start]}{json.dumps(value)}{self.text[node.end :]}"

    def _line_start(self, at: int) -> int:
        return self.text.rfind("\n", 0, at) + 1

    def _indentation(self, line_start: int) -> str:
        found = re.compile(r"[ \t]*").match(self.text, line_start)
        return "" if found is None else found[0]

    def _unit(self) -> str:
        for start in sorted(self.root.starts.values()):
            line = self._line_start(start)
            if line > self.root.start and (unit := self._indentation(line)):
                return unit
        return "  "
