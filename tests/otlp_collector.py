"""A collector made of OpenTelemetry's own definitions: OTLP over HTTP and over gRPC, which answers as it is told."""

from __future__ import annotations

import contextlib
import gzip
import math
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import status_pb2
from google.rpc.error_details_pb2 import RetryInfo
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)

Over = Literal["http", "grpc"]


@dataclass(frozen=True)
class Reply:
    """``code``: HTTP's status, or the name of gRPC's; empty is well. ``taken``: whether the spans are kept all the
    same. ``silent``: the connection ends, or the client's patience, without an answer.
    """

    code: str = ""
    words: str = ""
    retry_after_s: float | None = None
    rejected: int = 0
    taken: bool = True
    silent: bool = False


@dataclass
class Collector:
    """What came: spans as (trace, span, parent, name, start, end), the largest request, its headers; by its replies in
    turn, then well.
    """

    address: str = ""
    replies: list[Reply] = field(default_factory=list)
    spans: list[tuple[str, str, str, str, int, int]] = field(default_factory=list)
    services: set[str] = field(default_factory=set)
    requests: int = 0
    largest_bytes: int = 0
    most_spans: int = 0
    headers: dict[str, str] = field(default_factory=dict)

    def take(self, request: Any, headers: dict[str, str]) -> Reply:
        """Keep what a request has; what is to be answered."""
        reply = self.replies.pop(0) if self.replies else Reply()
        self.requests += 1
        self.headers = headers
        self.largest_bytes = max(self.largest_bytes, request.ByteSize())
        if not reply.taken:
            return reply
        found = []
        for resource in request.resource_spans:
            pairs = {each.key: each.value.string_value for each in resource.resource.attributes}
            self.services.add(pairs["service.name"])
            for scope in resource.scope_spans:
                found += [
                    (
                        each.trace_id.hex(),
                        each.span_id.hex(),
                        each.parent_span_id.hex(),
                        each.name,
                        each.start_time_unix_nano,
                        each.end_time_unix_nano,
                    )
                    for each in scope.spans
                ]
        self.most_spans = max(self.most_spans, len(found))
        self.spans += found[reply.rejected :]
        return reply


@contextmanager
def collecting(over: Over, *replies: Reply) -> Iterator[Collector]:
    """One at an address of its own."""
    collector = Collector(replies=list(replies))
    with _http(collector) if over == "http" else _grpc(collector):
        yield collector


@contextmanager
def _http(collector: Collector) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            assert self.path == "/v1/traces", self.path
            assert self.headers["content-type"] == "application/x-protobuf"
            assert self.headers["content-encoding"] == "gzip"
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = collector.take(ExportTraceServiceRequest.FromString(gzip.decompress(body)), headers)
            if reply.silent:
                self.close_connection = True
                return
            if reply.code:
                content = status_pb2.Status(message=reply.words).SerializeToString()
            else:
                content = _answer(reply).SerializeToString()
            self.send_response(int(reply.code or 200))
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(content)))
            if reply.retry_after_s is not None:
                self.send_header("retry-after", f"{reply.retry_after_s:g}")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    collector.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def _grpc(collector: Collector) -> Iterator[None]:
    class Service(TraceServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:
            reply = collector.take(request, dict(context.invocation_metadata()))
            if reply.silent:
                while context.is_active():
                    time.sleep(0.01)
            if reply.code:
                if reply.retry_after_s is not None:
                    status = status_pb2.Status(message=reply.words)
                    delay = Duration()
                    delay.FromNanoseconds(round(reply.retry_after_s * 1e9))
                    status.details.add().Pack(RetryInfo(retry_delay=delay))
                    trailer = ("grpc-status-details-bin", status.SerializeToString())
                    context.set_trailing_metadata((trailer,))
                context.abort(grpc.StatusCode[reply.code], reply.words)
            return _answer(reply)

    server = grpc.server(ThreadPoolExecutor(4))
    add_TraceServiceServicer_to_server(Service(), server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    collector.address = f"grpc://127.0.0.1:{port}"
    try:
        yield
    finally:
        server.stop(0).wait()


@contextmanager
def cutting(port: int, after_bytes: int) -> Iterator[int]:
    """The port of a proxy whose first connection ends half a second after its client sent so much."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_proxy, args=(listener, port, after_bytes), daemon=True).start()
        yield listener.getsockname()[1]


def _proxy(listener: socket.socket, port: int, after_bytes: int) -> None:
    cut_after: float = after_bytes
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return  # the test is over
        server = socket.create_connection(("127.0.0.1", port))
        threading.Thread(target=_forward, args=(server, client, math.inf), daemon=True).start()
        threading.Thread(target=_forward, args=(client, server, cut_after), daemon=True).start()
        cut_after = math.inf


def _forward(source: socket.socket, sink: socket.socket, most_bytes: float) -> None:
    sent = 0
    with contextlib.suppress(OSError):
        while sent < most_bytes and (data := source.recv(1 << 16)):
            sink.sendall(data)
            sent += len(data)
    if sent >= most_bytes:
        time.sleep(0.5)
    for each in (source, sink):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


def _answer(reply: Reply) -> Any:
    if not reply.rejected and not reply.words:
        return ExportTraceServiceResponse()
    partial = ExportTracePartialSuccess(rejected_spans=reply.rejected, error_message=reply.words)
    return ExportTraceServiceResponse(partial_success=partial)
