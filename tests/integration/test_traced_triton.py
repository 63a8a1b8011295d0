"""Triton carries on the context of our requests: its own spans, as it sends them, are within the client's."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest

from inferbench_tasks.backends import startup
from inferbench_tasks.backends.base import Deployment, Prepared
from inferbench_tasks.backends.triton import Triton
from inferbench_tasks.launchers import records
from inferbench_tasks.launchers.base import LAUNCHERS
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.traced import ask
from tests.integration.test_traced_requests import REQUESTS, order
from tests.serving_cases import dense_case

_UNAVAILABLE = Triton.unavailable("process")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(_UNAVAILABLE), reason=str(_UNAVAILABLE)),
]


@contextmanager
def receiver() -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """A port of OTLP over HTTP as Triton sends it (JSON with hexadecimal ids), and the spans that came."""
    spans: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            document = orjson.loads(self.rfile.read(int(self.headers["content-length"])))
            spans.extend(
                span
                for resource in document["resourceSpans"]
                for scope in resource["scopeSpans"]
                for span in scope["spans"]
            )
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port, spans
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Telling(Triton):
    """Triton that sends its spans of all requests to a port."""

    port = 0

    def prepare(self, deployment: Deployment) -> Prepared:
        """With OpenTelemetry's mode, and allowed to connect there."""
        prepared = super().prepare(deployment)
        options = (
            "--trace-config=mode=opentelemetry",
            f"--trace-config=opentelemetry,url=http://127.0.0.1:{self.port}/v1/traces",
            "--trace-config=opentelemetry,bsp_schedule_delay=200",
            "--trace-config=rate=1",
            "--trace-config=level=TIMESTAMPS",
        )
        launch = prepared.launch
        reach = replace(launch.reach, connects=(*(launch.reach.connects or ()), self.port))
        return replace(prepared, launch=replace(launch, argv=(*launch.argv, *options), reach=reach))


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_triton_s_spans_are_within_ours(protocol: str, tmp_path: Path) -> None:
    """One of its spans for each request has the request's trace and span as its parent, down to its compute span."""
    case = dense_case(tmp_path)
    inp = order(case, tmp_path, load={"protocol": protocol})
    environments = Path(sys.prefix) / "inferbench-test-envs"
    environments.mkdir(exist_ok=True)
    folder = tmp_path / "server"
    folder.mkdir()
    spec = inp.job.serve.model_copy(update={"backend": "triton"})
    with receiver() as (port, spans):
        backend = Telling()
        backend.port = port
        deployment = Deployment(
            inp.run_id, case.model, spec, folder, environments, protocol=inp.job.traffic.protocol
        )
        try:
            started = startup.start(backend, deployment, LAUNCHERS.load("process")(), tmp_path / "servers")
            started.probe.close()
            context = Context(data_dir=tmp_path / "data")
            asked = ask(inp, context, started.endpoint, tmp_path / "load", "seed")
            wanted = {(each.trace_id, each.span_id) for each in asked}
            deadline = time.monotonic() + 90
            while not wanted <= {(s["traceId"], s.get("parentSpanId")) for s in spans}:
                assert time.monotonic() < deadline, (wanted, spans)
                time.sleep(0.1)
        finally:
            records.end_run(tmp_path / "servers", inp.run_id)
    assert len(wanted) == REQUESTS
    for trace_id, span_id in wanted:
        own = [span for span in spans if span["traceId"] == trace_id]
        ids = {span["spanId"] for span in own}
        assert [span["parentSpanId"] in ids for span in own].count(False) == 1, own
        assert sum(span["parentSpanId"] == span_id for span in own) == 1
        assert any(span["name"] == "compute" for span in own)
