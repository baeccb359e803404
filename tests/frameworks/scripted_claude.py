"""The network's edge for tests of the real Claude Code: an API on this machine that answers by a script."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import claude_agent_sdk

BINARY = Path(claude_agent_sdk.__file__).with_name("_bundled") / "claude"
"""Claude Code itself, as the Agent SDK's wheel has it."""

_THINKING = 0.25
"""Seconds that an answer takes. A real model takes longer; with none at all the host would end a session before
the hooks that it runs in the background have begun."""

Block = dict[str, Any]
Turn = list[Block]


def text(said: str) -> Turn:
    """A turn that says something and ends."""
    return [{"type": "text", "text": said}]


class _Calls:
    number = 0


def call(tool: str, **arguments: Any) -> Block:
    """A call of a tool, with an id of its own."""
    _Calls.number += 1
    return {"type": "tool_use", "id": f"toolu_{_Calls.number:024d}", "name": tool, "input": arguments}


@contextmanager
def scripted(*turns: Turn) -> Iterator[dict[str, str]]:
    """An API whose model takes these turns; the environment that has Claude Code ask it, and nobody else."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.turns = list(turns)  # type: ignore[attr-defined]
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield {
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_address[1]}",
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "IS_SANDBOX": "1",  # it refuses to run without questions as root elsewhere
        }
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(404, b"{}")

    do_GET = do_HEAD

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        if "count_tokens" in self.path:
            self._answer(200, b'{"input_tokens": 10}')
            return
        time.sleep(_THINKING)
        turns: list[Turn] = self.server.turns  # type: ignore[attr-defined]
        turn = turns.pop(0) if request.get("tools") and turns else text("ok")
        usage = {"input_tokens": 10, "output_tokens": 5}
        message = {
            "id": f"msg_{time.time_ns():024d}",
            "type": "message",
            "role": "assistant",
            "model": request.get("model", "scripted"),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        stop = "tool_use" if any(block["type"] == "tool_use" for block in turn) else "end_turn"
        if not request.get("stream"):
            self._answer(200, json.dumps({**message, "content": turn, "stop_reason": stop}).encode())
            return
        events: list[Block] = [{"type": "message_start", "message": message}]
        for index, block in enumerate(turn):
            is_text = block["type"] == "text"
            begun = {**block, "text": ""} if is_text else {**block, "input": {}}
            delta = (
                {"type": "text_delta", "text": block["text"]}
                if is_text
                else {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            )
            events += [
                {"type": "content_block_start", "index": index, "content_block": begun},
                {"type": "content_block_delta", "index": index, "delta": delta},
                {"type": "content_block_stop", "index": index},
            ]
        ended = {"stop_reason": stop, "stop_sequence": None}
        events += [{"type": "message_delta", "delta": ended, "usage": usage}, {"type": "message_stop"}]
        stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self._answer(200, stream.encode(), "text/event-stream")

    def _answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
