"""FastMCP servers: ``mcp.add_middleware(MemtallyMiddleware({"read_note": ("memory", "name")}))``.

Only the tools and resources that are mapped read records; a call that ends in an error is no use. A server
does not know its clients' conversations (the protocol's sessions are ids that the server makes up), so the
session is that of ``memtally.session()`` around the call, or none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from memtally.errors import InvalidValueError
from memtally.events import check_kind
from memtally.hosts._tools import ToolMap, ToolSeams

try:
    from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
except ImportError as error:
    raise ImportError("FastMCP is not installed: pip install 'memtally[fastmcp]'") from error

__all__ = ["MemtallyMiddleware"]


class MemtallyMiddleware(Middleware):
    """Records the reads of an MCP server's tools and resources.

    ``tools``: by the tool's name, ``(kind, argument)`` or a function; see ``memtally.hosts``. ``resources``:
    a kind by the resource's address, of which ``{slug}`` names the record: ``{"notes://{slug}": "memory"}``.
    Raises ``InvalidValueError`` for a wrong mapping.
    """

    def __init__(self, tools: ToolMap | None = None, resources: Mapping[str, str] | None = None) -> None:
        self._tools = ToolSeams(tools or {}, _tool_text)
        self._resources = [_resource(address, kind) for address, kind in (resources or {}).items()]
        self._reads = ToolSeams({kind: (kind, "slug") for _, kind in self._resources}, _resource_text)

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """Record a mapped tool's call."""
        name = context.message.name
        if name not in self._tools:
            return await call_next(context)
        return await self._tools.call(name, context.message.arguments or {}, lambda: call_next(context))

    async def on_read_resource(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """Record the reading of a mapped resource."""
        address = str(context.message.uri)
        for pattern, kind in self._resources:
            if (found := pattern.fullmatch(address)) is not None:
                slug = {"slug": unquote(found["slug"])}
                return await self._reads.call(kind, slug, lambda: call_next(context))
        return await call_next(context)


def _resource(address: object, kind: object) -> tuple[re.Pattern[str], str]:
    if not isinstance(address, str) or address.count("{slug}") != 1:
        raise InvalidValueError(
            "resources", address, "no address with one {slug}", 'pass {"notes://{slug}": "memory"}'
        )
    before, after = address.split("{slug}")
    return re.compile(f"{re.escape(before)}(?P<slug>.+){re.escape(after)}"), check_kind(kind)


def _tool_text(result: Any) -> str | None:
    if getattr(result, "is_error", False):
        return None
    texts = [getattr(block, "text", None) for block in getattr(result, "content", None) or ()]
    return "".join(text for text in texts if isinstance(text, str)) or None


def _resource_text(result: Any) -> str | bytes | None:
    contents = [content.content for content in getattr(result, "contents", None) or ()]
    if contents and all(isinstance(content, str) for content in contents):
        return "".join(contents)
    if contents and all(isinstance(content, bytes) for content in contents):
        return b"".join(contents)
    return None
