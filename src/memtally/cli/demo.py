"""``memtally demo``: the whole path, from decorated reads to the report, on a sample workspace."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import click

import memtally
from memtally import tokens
from memtally.cli.output import columns, note
from memtally.config import write_config
from memtally.report.formats import Options, table
from memtally.workspace import find_workspace

__all__ = ["demo"]

_RECORDS = {
    "decisions/adopt-otlp.md": "# Adopt OTLP\n\nEvery service sends its telemetry by OTLP to one collector. "
    * 12,
    "decisions/one-log-per-workspace.md": "# One log per workspace\n\nThe usage log lies beside the memory. "
    * 8,
    "requests/dark-mode.md": "# Dark mode\n\nThree users asked for it.\n",
    "knowledge/retry-policy.md": "# Retry policy\n\nRetry reads three times, writes never. " * 10,
    "knowledge/old-vendor-api.md": "# The old vendor's API\n\nReplaced in spring. " * 20,
    "workflows/release.md": "# Release\n\n1. Freeze. 2. Tag. 3. Publish. " * 9,
    "CLAUDE.md": "# House rules\n\nAnswer in the user's language. Keep diffs small. " * 15,
}


@click.command()
@click.option("--keep", is_flag=True, help="Keep the sample workspace and say where it is.")
def demo(keep: bool) -> None:
    """Run decorated reads in a sample workspace and print its report."""
    root = Path(tempfile.mkdtemp(prefix="memtally-demo-"))
    try:
        _write_workspace(root)
        _run_agent(root)
        memtally.shutdown()
        report = memtally.build_report(root)
        click.echo(table.report(report, Options(columns=columns())), nl=False)
        if keep:
            note("")
            note(f"The sample workspace is {root}; its log is {root / '.memtally' / 'usage.jsonl'}")
    finally:
        if not keep:
            shutil.rmtree(root, ignore_errors=True)


def _write_workspace(root: Path) -> None:
    for name, text in _RECORDS.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    place = find_workspace(root)
    place.ensure_directory()
    write_config(place.config_path, "generic")


def _run_agent(root: Path) -> None:
    """A small agent with a memory of its own, instrumented as any host would be."""
    memtally.configure(root)
    tokens.estimator().wait(timeout=10.0)  # exact figures from the first line on, if there is a vocabulary

    @memtally.instrument_read("MemoryRead")
    def memory_read(kind: str, slug: str) -> str:
        return (root / f"{kind}s" / f"{slug}.md").read_text("utf-8")

    @memtally.instrument_read("KnowledgeRef")
    def expand_reference(slug: str) -> str:
        return (root / "knowledge" / f"{slug}.md").read_text("utf-8")

    @memtally.instrument_read("WorkflowInvoke")
    def invoke_workflow(slug: str) -> str:
        return (root / "workflows" / f"{slug}.md").read_text("utf-8")

    @memtally.instrument_injection()
    def system_prompt() -> list[memtally.MemoryRecord]:
        return [memtally.MemoryRecord("instructions", "CLAUDE.md", root / "CLAUDE.md")]

    prompts = [
        "Why do we send telemetry that way? See #retry-policy.",
        "/release the next version",
        "Is #123 fixed? What does #retry-policy say?",
        "Summarize the decisions.",
    ]
    for number, prompt in enumerate(prompts, 1):
        with memtally.session(f"demo-session-{number}"):
            system_prompt()
            for slug in memtally.find_references(prompt, {"retry-policy", "old-vendor-api"}):
                expand_reference(slug)
            if invocation := memtally.parse_invocation(prompt, {"release"}):
                invoke_workflow(invocation.name)
            if number in (1, 4):
                memory_read("decision", "adopt-otlp")
    with memtally.session("demo-tidy", actor="maintenance"):
        memory_read("decision", "one-log-per-workspace")
