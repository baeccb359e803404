"""``memtally mcp``: the report, the review and one record's history as tools of an MCP server on stdio."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import click

from memtally._version import __version__
from memtally.cli.options import source_options
from memtally.cli.reporting import report_text, review_text, show_text
from memtally.errors import MemtallyError
from memtally.report.build import open_source
from memtally.report.formats import SORTS

__all__ = ["mcp"]

_WHAT = """\
How memtally's figures are to be read. A use: a record was explicitly read into a context, and the read
succeeded. A resident exposure: a record was placed because it is always on, which is a cost and never a use.
Search hits are neither. The figures are evidence, not judgment: how they are weighed is yours to say. "Never
used" holds only beside the coverage, for what was not recording says nothing. Asking changes no figure.
"""


@click.command()
@source_options
def mcp(workspace: str | None, logs: tuple[str, ...]) -> None:
    """Serve the report, the review and a record's history to agents, as MCP tools on stdio. Read-only.

    For the host's settings: {"mcpServers": {"memtally": {"command": "memtally", "args": ["mcp"]}}}. Needs the
    official SDK: pip install 'memtally[mcp]'.
    """
    try:
        server = _server(workspace, logs)
    except ImportError:
        raise MemtallyError("the MCP SDK is not installed: pip install 'memtally[mcp]'") from None
    with open_source(workspace, logs or None):
        pass  # a wrong workspace or log is said at once, and not by every answer
    logging.disable(logging.CRITICAL)  # nothing of what the SDK logs is for whoever reads our stderr
    server.run("stdio")


F = TypeVar("F", bound=Callable[..., str])
Format = Literal["markdown", "json"]


def _server(workspace: str | None, logs: tuple[str, ...]) -> Any:
    from mcp.server import MCPServer  # noqa: PLC0415 - an extra
    from mcp.server.mcpserver.exceptions import ToolError  # noqa: PLC0415
    from mcp.types import ToolAnnotations  # noqa: PLC0415

    server = MCPServer("memtally", instructions=_WHAT, version=__version__, log_level="CRITICAL")
    read_only = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)

    def tool(function: F) -> F:
        server.add_tool(function, annotations=read_only, structured_output=False)
        return function

    def given(**asked: Any) -> dict[str, Any]:
        fixed = {
            "workspace": workspace,
            "logs": logs,
            "output": None,
            "as_json": False,
            "no_checkpoint": False,
        }
        return {**fixed, "timezone": None, "now": None, "limit": None, "max_chars": 20_000, **asked}

    def answer(make: Callable[[], str], form: str) -> str:
        try:
            # met again in a prompt, a record's name must not look like a reference to one
            return make().replace("#", "\\u0023") if form == "json" else make()
        except (MemtallyError, click.ClickException) as error:
            said = error.format_message() if isinstance(error, click.ClickException) else str(error)
            raise ToolError(" ".join(said.split())) from None

    @tool
    def report(
        kinds: list[str] | None = None,
        sources: list[str] | None = None,
        since: str | None = None,
        until: str | None = None,
        sort: str | None = None,
        limit: int | None = None,
        all: bool = False,  # noqa: A002 - as the command line has it
        format: Format = "markdown",  # noqa: A002
    ) -> str:
        """Uses and resident exposures of each memory record, with the coverage behind them.

        kinds, sources: only these (decision, skill, ...; MemoryRead, SkillInvoke, ...). since, until: 7d,
        12h, a date, or an RFC 3339 time. sort: uses, exposures, tokens, name or last-used. all: also records
        that only maintenance has read. format: markdown, bounded, or json, with every figure.
        """
        if sort is not None and sort not in SORTS:
            raise ToolError(f"sort={sort!r}: no such order; use one of {', '.join(sorted(SORTS))}")
        asked = given(kinds=kinds or (), sources=sources or (), since=since, until=until, limit=limit)
        return answer(
            lambda: report_text({**asked, "format_name": format}, sort=sort, everything=all), format
        )

    @tool
    def review(
        since: str | None = None,
        until: str | None = None,
        limit: int | None = None,
        format: Format = "markdown",  # noqa: A002
    ) -> str:
        """Ranked evidence: knowledge candidates, what use protects, what residents cost. No verdicts.

        since, until: 7d, 12h, a date, or an RFC 3339 time. limit: so many of each list.
        """
        asked = given(since=since, until=until, limit=limit, format_name=format)
        return answer(lambda: review_text(asked), format)

    @tool
    def show(
        record: str,
        since: str | None = None,
        until: str | None = None,
        format: Format = "markdown",  # noqa: A002
    ) -> str:
        """One record's figures, and its events by day and source.

        record: KIND/SLUG, such as decision/adopt-otlp. since, until: 7d, 12h, a date, or an RFC 3339 time.
        """
        asked = given(since=since, until=until, format_name=format)
        return answer(lambda: show_text(record, asked), format)

    return server
