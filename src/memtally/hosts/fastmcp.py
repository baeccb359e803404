"""FastMCP servers: what their tools and resources hand out of a memory.

::

    mcp.add_middleware(memtally.hosts.fastmcp.MemtallyMiddleware({"read_note": ("memory", "name")}))

A call of a mapped tool, or a read of a mapped resource, that gives its client content is a use. Errors,
empty results and requests for the client's input are none; what is in no mapping (searches, listings) is
none. Session: the one that client and server have agreed on (HTTP's ``mcp-session-id``), if memtally knows
no other. Other connections have no session of their own, and FastMCP's stand-ins, new with each request,
are not taken. What runs as a background task is not seen here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memtally._calls import OpenCall, ReadCall
from memtally.decorators import drive_coroutine, has_content
from memtally.errors import InvalidValueError
from memtally.events import check_slug
from memtally.hosts._seam import Seam, key_of, session_of
from memtally.hosts._tools import Tool, ToolMap, check_tools, records_of_tool, tool_seams
from memtally.recording import guarded, recording_enabled
from memtally.records import MemoryRecord

try:
    from fastmcp.resources.template import build_regex, match_uri_template
    from fastmcp.server.middleware import Middleware
    from fastmcp.tools import ToolResult
except ImportError as error:
    raise ImportError(
        "memtally.hosts.fastmcp needs the fastmcp package, 4 or newer: pip install 'memtally[fastmcp]'"
    ) from error

__all__ = ["MemtallyMiddleware", "ResourceMap"]

ResourceMap = Mapping[str, Tool]
"""Resources by URI, ``{"memory://policy": ("rule", "policy")}`` (kind and slug), or by URI template,
``{"memory://{name}": ("memory", "name")}`` (kind, and the parameter that names the record). Or a function of
the parameters (with the ``uri`` among them) and the result, that returns a ``MemoryRecord``, several, or
``None`` for "no read". An exact URI goes before a template, and the templates in their order.
"""


class MemtallyMiddleware(Middleware):  # type: ignore[misc,unused-ignore]
    """Records the reads of a server.

    ``tools``: the tools that read records, by the name that the server lists them by. A function of the
    mapping gets the arguments and the ``ToolResult``. ``resources``: see ``ResourceMap``. Raises
    ``InvalidValueError`` for what can be no mapping. What comes later in the chain, a cache, say, is inside
    the read.
    """

    def __init__(self, tools: ToolMap | None = None, resources: ResourceMap | None = None) -> None:
        self._tools = tool_seams(tools or {}, _answer)
        self._resources = {
            uri: _resource_seam(uri, of) for uri, of in _check_resources(resources or {}).items()
        }

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        """Hand a tool's result on, and record it."""
        if not recording_enabled():
            return await call_next(context)
        seam = self._tools.get(context.message.name)
        with session_of(lambda: _session_id(context)):
            if seam is None:
                return await call_next(context)  # what is decorated in it belongs to the session, too
            return await drive_coroutine(
                call_next(context), OpenCall(seam, (), context.message.arguments or {})
            )

    async def on_read_resource(self, context: Any, call_next: Any) -> Any:
        """Hand a resource on, and record it."""
        reading = super().on_read_resource(context, call_next)
        if not recording_enabled():
            return await reading
        uri = str(context.message.uri)
        found = self._find(uri)
        with session_of(lambda: _session_id(context)):
            if found is None:
                return await reading
            seam, parameters = found
            return await drive_coroutine(reading, OpenCall(seam, (), {**parameters, "uri": uri}))

    def _find(self, uri: str) -> tuple[Seam, dict[str, Any]] | None:
        exact = self._resources.get(uri)
        if exact is not None:
            return exact, {}
        with guarded("resource"):
            for template, seam in self._resources.items():
                parameters = match_uri_template(uri, template) if "{" in template else None
                if parameters is not None:
                    return seam, parameters
        return None


def _session_id(context: Any) -> str | None:
    """The session that was agreed on; FastMCP's own ``session_id`` makes one up where there is none."""
    request = getattr(getattr(context.fastmcp_context, "request_context", None), "request", None)
    return None if request is None else request.headers.get("mcp-session-id")


def _answer(result: Any) -> tuple[bool, str | None]:
    if not isinstance(result, ToolResult) or result.is_error or not _gave_content(result):
        return False, None
    return True, _text_of(result)


def _gave_content(result: Any) -> bool:
    """Whether there is anything in a result: its blocks, and the value where the tool has given one."""
    structured = result.structured_content
    if structured is not None and not has_content(_value(structured)):
        return False
    return any(has_content(getattr(block, "text", block)) for block in result.content)


def _value(structured: Mapping[str, Any]) -> Any:
    """What the tool returned: FastMCP wraps what is no mapping."""
    return structured["result"] if list(structured) == ["result"] else structured


def _text_of(result: Any) -> str | None:
    """The text that a tool returned; unknown where it returned something else, which FastMCP wrote as
    JSON."""
    if len(result.content) != 1:
        return None
    text = getattr(result.content[0], "text", None)
    structured = result.structured_content
    if not isinstance(text, str) or (structured is not None and _value(structured) != text):
        return None
    return text


def _check_resources(resources: ResourceMap) -> dict[str, Tool]:
    try:
        checked = check_tools(resources)
    except InvalidValueError as error:
        raise InvalidValueError(
            "resources",
            error.value,
            "no mapping of resources",
            'pass {"memory://{name}": ("memory", "name")}',
        ) from error
    for uri, resource in checked.items():
        if "{" not in uri:
            if isinstance(resource, tuple):
                check_slug(resource[1])
            continue
        parameters = re.findall(r"\w+", " ".join(re.findall(r"\{([^}]*)\}", uri)).replace("-", "_"))
        if build_regex(uri) is None or (isinstance(resource, tuple) and resource[1] not in parameters):
            raise InvalidValueError(
                f"resources[{uri!r}]",
                resource,
                "the template has no such parameter",
                f"name one of {parameters}, or pass a function",
            )
    return checked


def _resource_seam(uri: str, resource: Tool) -> Seam:
    is_template = "{" in uri

    def named(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        # an exact URI's record is named by the mapping
        return arguments if is_template or not isinstance(resource, tuple) else {resource[1]: resource[1]}

    def records(call: ReadCall) -> list[MemoryRecord]:
        given = [part.content for part in call.result.contents]
        if not any(map(has_content, given)):
            return []
        content = given[0] if len(given) == 1 else None
        return records_of_tool(resource, named(call.arguments), call.result, content)

    def keys(arguments: Mapping[str, Any]) -> Any:
        if not isinstance(resource, tuple):
            return frozenset()
        return key_of(resource[0], named(arguments).get(resource[1]))

    return Seam(uri, (), records, keys)
