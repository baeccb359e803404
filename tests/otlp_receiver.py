"""A small OTLP receiver, gRPC and HTTP, in this process: real protocol, real sockets, built on opentelemetry-proto."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as service
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc as service_grpc


class Received:
    """What has arrived, as protobuf log records with their scope and resource."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.headers: list[dict[str, str]] = []
        self._requests: list[Any] = []
        self._arrived = threading.Condition()

    def add(self, request: Any, headers: dict[str, str]) -> None:
        """Keep one export request."""
        with self._arrived:
            self._requests.append(request)
            self.headers.append(headers)
            self._arrived.notify_all()

    def wait(self, number: int, timeout: float = 20.0) -> list[Any]:
        """The log records, once at least ``number`` have arrived."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.records) >= number, timeout), self.records
        return self.records

    @property
    def records(self) -> list[Any]:
        """Every log record that has arrived, in order."""
        return [record for _, _, record in self.placed]

    @property
    def placed(self) -> list[tuple[Any, Any, Any]]:
        """Every log record with its resource and scope."""
        return [
            (resource.resource, scope.scope, record)
            for request in self._requests
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]


def plain(value: Any) -> Any:
    """An AnyValue as Python values."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(v) for v in value.array_value.values]
    if kind == "kvlist_value":
        return attributes(value.kvlist_value.values)
    return None if kind is None else getattr(value, kind)


def attributes(pairs: Any) -> dict[str, Any]:
    """Attributes as a dictionary."""
    return {pair.key: plain(pair.value) for pair in pairs}


@contextmanager
def grpc_receiver() -> Iterator[Received]:
    """A gRPC receiver on a free port of the loopback."""
    received = Received()

    class Servicer(service_grpc.LogsServiceServicer):  # type: ignore[misc]
        def Export(self, request: Any, context: Any) -> Any:
            received.add(request, {k: str(v) for k, v in context.invocation_metadata()})
            return service.ExportLogsServiceResponse()

    server = grpc.server(ThreadPoolExecutor(2))
    service_grpc.add_LogsServiceServicer_to_server(Servicer(), server)
    received.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield received
    finally:
        server.stop(None).wait(10)


@contextmanager
def http_receiver() -> Iterator[Received]:
    """An HTTP/protobuf receiver on a free port of the loopback."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/logs":
                received.add(service.ExportLogsServiceRequest.FromString(body), dict(self.headers))
            answer = service.ExportLogsServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
