"""A port of this host that a server sends its own spans to, as OTLP; they are kept, and read when nothing is timed.

It is there for the time of some traced requests, and spans of other traces are nobody's. Whoever else of this host
sends there could put spans into a trace, as it could slow down what is traced: they are in no figure that is ranked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from inferbench_tasks.errors import InputError, ServerError
from inferbench_tasks.extras import require
from inferbench_tasks.tracing.foreign import otlp_json, otlp_protobuf
from inferbench_tasks.tracing.foreign.base import Foreign, Told

HOST = "127.0.0.1"
#: Of all that is sent; what comes after is counted only.
MOST_BYTES = 64 << 20
_SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"
#: How often it is looked whether all came.
_LOOK_S = 0.05


class Receiver:
    """``port``: where it listens. Requests are parsed when they are asked for."""

    def __init__(self, parse: Callable[[bytes], Foreign]) -> None:
        self.port = 0
        #: Requests that found no room.
        self.lost = 0
        self._parse = parse
        self._lock = threading.Lock()
        self._came: list[bytes] = []
        self._bytes = 0
        #: By their ids, for a request may be sent twice.
        self._spans: dict[tuple[str, str], Told] = {}

    def take(self, content: bytes) -> None:
        """Keep a request as it came."""
        with self._lock:
            if self._bytes + len(content) > MOST_BYTES:
                self.lost += 1
                return
            self._bytes += len(content)
            self._came.append(content)

    def spans(self, traces: Collection[str]) -> list[Told]:
        """Those of these traces so far. ServerError for what is no OTLP."""
        with self._lock:
            came, self._came = self._came, []
        for content in came:
            try:
                for span in self._parse(content).spans:
                    self._spans[span.trace_id, span.span_id] = span
            except InputError as error:
                raise ServerError(f"The server sent spans that are no OTLP: {error}") from error
        return [span for (trace, _), span in self._spans.items() if trace in traces]

    def wait(self, wanted: Collection[tuple[str, str]], patience_s: float) -> bool:
        """Until of each (trace, span) one span within it has come, and no more come; whether they all did."""
        deadline = time.monotonic() + patience_s
        traces, seen = {trace for trace, _ in wanted}, -1
        while True:
            spans = self.spans(traces)
            complete = set(wanted) <= {(span.trace_id, span.parent_id) for span in spans}
            if (complete and len(spans) == seen) or time.monotonic() > deadline:
                return complete
            seen = len(spans)
            # Those of one request may come in pieces, one after the other.
            time.sleep(_LOOK_S if not complete else 10 * _LOOK_S)


@contextmanager
def over_http() -> Iterator[Receiver]:
    """OTLP's JSON with hexadecimal ids over HTTP, as Triton sends it."""
    receiver = Receiver(otlp_json.read)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", 0))
            if not 0 <= length <= MOST_BYTES:
                self.send_error(413)
                return
            receiver.take(self.rfile.read(length))
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((HOST, 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    receiver.port = server.server_port
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def over_grpc() -> Iterator[Receiver]:
    """OTLP's protobuf over gRPC, as OpenTelemetry's own exporters send it."""
    require("grpc")
    from concurrent.futures import ThreadPoolExecutor

    import grpc

    receiver = Receiver(otlp_protobuf.read)

    def export(content: bytes, context: Any) -> bytes:
        receiver.take(content)
        return b""  # all of it was taken

    server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.max_receive_message_length", MOST_BYTES)])
    method = grpc.unary_unary_rpc_method_handler(export)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(_SERVICE, {"Export": method})])
    receiver.port = server.add_insecure_port(f"{HOST}:0")
    server.start()
    try:
        yield receiver
    finally:
        server.stop(0).wait()


#: How a backend may send its spans (``Backend.sends_spans``).
RECEIVERS: dict[str, Callable[[], AbstractContextManager[Receiver]]] = {
    "otlp_json": over_http,
    "otlp_grpc": over_grpc,
}
