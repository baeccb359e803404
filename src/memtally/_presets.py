"""The layouts of memory that are known by name: which files are records, and which kinds are always on."""

from __future__ import annotations

__all__ = ["ELSEWHERE", "OPEN_KINDS", "PRESETS", "RESIDENT_KINDS", "project_folder"]

_MEMORY_FOLDERS = {
    "decision": ("decisions", "decision"),
    "request": ("requests", "request"),
    "knowledge": ("knowledge",),
    "workflow": ("workflows", "workflow"),
    "summary": ("summaries", "summary"),
}

PRESETS: dict[str, dict[str, tuple[str, ...]]] = {
    "generic": {
        **{
            kind: tuple(f"{above}{folder}/**/*.md" for above in ("", "memory/") for folder in folders)
            for kind, folders in _MEMORY_FOLDERS.items()
        },
        "skill": ("skills/*/SKILL.md",),
        "instructions": ("AGENTS.md", "CLAUDE.md", "GEMINI.md"),
    },
    "claude-code": {
        "instructions": ("**/CLAUDE.md", "**/CLAUDE.local.md", "**/AGENTS.md", "~/.claude/CLAUDE.md"),
        "rule": (".claude/rules/**/*.md", "~/.claude/rules/**/*.md"),
        "skill": (
            ".claude/skills/*/SKILL.md",
            ".claude/commands/**/*.md",
            "~/.claude/skills/*/SKILL.md",
            "~/.claude/commands/**/*.md",
        ),
        "memory": (
            "~/.claude/projects/{project}/memory/**/*.md",
            ".claude/agent-memory/**/*.md",
            ".claude/agent-memory-local/**/*.md",
            "~/.claude/agent-memory/**/*.md",
            ".serena/memories/**/*.md",
            "memory-bank/**/*.md",
            "memory/*.md",
        ),
    },
    "yoi": {
        kind: tuple(f"{root}/{glob}" for root in (".insomnia", ".yoi"))
        for kind, glob in (
            ("decision", "memory/decisions/**/*.md"),
            ("knowledge", "knowledge/**/*.md"),
            ("request", "memory/requests/**/*.md"),
            ("summary", "memory/summary.md"),
            ("workflow", "workflow/**/*.md"),
        )
    },
}
"""Record globs by kind, for each preset. A pattern beginning with ``~/`` is a user-level one; ``{project}``
stands for Claude Code's name of the workspace's folder.
"""

ELSEWHERE: dict[str, dict[str, tuple[str, ...]]] = {
    "claude-code": {
        "instructions": ("**/GEMINI.md", "~/.codex/AGENTS.md", "~/.gemini/GEMINI.md"),
        "skill": ("**/skills/*/SKILL.md", "~/**/skills/*/SKILL.md"),
        "memory": ("~/.codex/memories/**/*.md",),
    },
}
"""What is a record too when a host reads it, and no part of the inventory: plugins' skills, for example,
of which the folder holds many that nobody has switched on.
"""


RESIDENT_KINDS = {"generic": ("instructions",), "claude-code": ("instructions",), "yoi": ("summary",)}


# Plugins' skills, the auto-memory folder and included or managed instructions lie elsewhere.
OPEN_KINDS = {"claude-code": ("instructions", "memory", "skill")}


def project_folder(root: str) -> str:
    """What Claude Code calls a workspace's folder below ``~/.claude/projects``."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in root)
