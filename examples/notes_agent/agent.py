"""A small agent with a memory store of its own, instrumented by memtally's public interface only.

Run it in a workspace that has records::

    python agent.py WORKSPACE SESSION "the prompt, with #references or a /workflow"

It resolves the prompt the way a host would: ``/workflow`` at the start, ``#slug`` anywhere, then what
the "model" decides to look up, here written as ``read:KIND/SLUG`` and ``search:WORD``.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import memtally
from memtally import MemoryRecord

FOLDERS = {"decision": "decisions", "request": "requests", "knowledge": "knowledge", "workflow": "workflows"}


class Memory:
    """Records as Markdown files, in one folder for each kind."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def slugs(self, kind: str) -> set[str]:
        """The records of a kind that exist. A listing is no use, so it is not instrumented."""
        return {path.stem for path in (self.root / FOLDERS[kind]).glob("*.md")}

    def path(self, kind: str, slug: str) -> Path:
        """Where a record lies."""
        return self.root / FOLDERS[kind] / f"{slug}.md"

    @memtally.instrument_read("MemoryRead")
    def read(self, kind: str, slug: str) -> str | None:
        """The model's own tool. ``None`` for a record that does not exist: no use."""
        path = self.path(kind, slug)
        return path.read_text("utf-8") if path.exists() else None

    @memtally.instrument_read("KnowledgeRef")
    async def expand(self, slug: str) -> str:
        """``#slug`` in a prompt, put into the context."""
        return await asyncio.to_thread(self.path("knowledge", slug).read_text, "utf-8")

    @memtally.instrument_read("WorkflowInvoke")
    def invoke(self, slug: str) -> str:
        """``/workflow`` at the start of a prompt."""
        return self.path("workflow", slug).read_text("utf-8")

    def search(self, word: str) -> list[str]:
        """A search (``MemoryQuery``, ``KnowledgeQuery``): a hit is no use, so it is not instrumented."""
        return [
            f"{kind}/{slug}"
            for kind in FOLDERS
            for slug in sorted(self.slugs(kind))
            if word in self.path(kind, slug).read_text("utf-8")
        ]

    @memtally.instrument_injection()
    def resident(self) -> list[MemoryRecord]:
        """What every conversation begins with: the house rules, whole, and one line of the glossary."""
        glossary = self.path("knowledge", "glossary")
        first_line = glossary.read_text("utf-8").splitlines()[0]
        return [
            MemoryRecord("instructions", "AGENTS.md", self.root / "AGENTS.md"),
            MemoryRecord("knowledge", "glossary", glossary, injected=first_line),
        ]


async def converse(memory: Memory, prompt: str) -> list[str]:
    """Build the context of one prompt."""
    context = [str(record) for record in memory.resident()]
    invocation = memtally.parse_invocation(prompt, memory.slugs("workflow"))
    if invocation is not None:
        context.append(memory.invoke(invocation.name))
    for slug in memtally.find_references(prompt, memory.slugs("knowledge")):
        context.append(await memory.expand(slug))
    for word in prompt.split():
        if word.startswith("read:"):
            kind, slug = word.removeprefix("read:").split("/", 1)
            context.append(memory.read(kind, slug) or f"no record {kind}/{slug}")
        elif word.startswith("search:"):
            context += memory.search(word.removeprefix("search:"))
    return context


def main() -> None:
    """One prompt in one session."""
    if len(sys.argv) != 4:
        sys.exit('usage: agent.py WORKSPACE SESSION "the prompt"')
    root, session, prompt = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    memtally.configure(workspace=root)
    with memtally.session(session):
        for text in asyncio.run(converse(Memory(root), prompt)):
            print(text)


if __name__ == "__main__":
    main()
