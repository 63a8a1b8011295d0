"""What servers send of themselves is kept as it came, read later, and bounded."""

from __future__ import annotations

import threading
import urllib.request

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from inferbench_tasks.errors import ServerError
from inferbench_tasks.tracing import receiver
from inferbench_tasks.tracing.push.grpc import METHOD
from inferbench_tasks.tracing.receiver import RECEIVERS, over_grpc, over_http
from tests.unit.tracing.foreign.files import TRACE, otlp, otlp_span

OURS = f"{1:016x}"


def post(port: int, content: bytes) -> int:
    """Send it as Triton does; the status."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/traces", content, method="POST")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return int(answer.status)


def test_spans_over_http_are_of_the_traces_that_are_asked_for() -> None:
    """Another's are not told, and what is sent twice is there once."""
    other = otlp_span(9, None, 5, 6) | {"traceId": "c" * 32}
    with over_http() as where:
        for _ in range(2):
            assert post(where.port, otlp(otlp_span(2, 1, 10, 20), other)) == 200
        (span,) = where.spans({TRACE})
    assert (span.span_id, span.parent_id, span.start_ns, span.end_ns) == (f"{2:016x}", OURS, 10, 20)
    assert where.lost == 0


def test_spans_over_grpc_are_read_by_their_protobuf() -> None:
    """As OpenTelemetry's own exporters send it; the answer says that all were taken."""
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id, span.span_id, span.parent_span_id = (
        bytes.fromhex(TRACE),
        b"\0" * 7 + b"\2",
        b"\0" * 7 + b"\1",
    )
    span.name, span.start_time_unix_nano, span.end_time_unix_nano = "ModelInfer", 10, 20
    with over_grpc() as where:
        with grpc.insecure_channel(f"127.0.0.1:{where.port}") as channel:
            answer = channel.unary_unary(METHOD)(request.SerializeToString(), timeout=10)
        (told,) = where.spans({TRACE})
    assert ExportTraceServiceResponse.FromString(answer) == ExportTraceServiceResponse()
    assert (told.name, told.span_id, told.parent_id) == ("ModelInfer", f"{2:016x}", OURS)


def test_it_waits_until_a_request_has_its_span_and_no_longer_than_that() -> None:
    """Spans that come later are waited for; of one that never comes it says so in the end."""
    wanted = {(TRACE, OURS)}
    with over_http() as where:
        assert not where.wait(wanted, 0.2)
        later = threading.Timer(0.3, post, (where.port, otlp(otlp_span(2, 1, 10, 20))))
        later.start()
        assert where.wait(wanted, 30)
        later.join()
        assert not where.wait(wanted | {(TRACE, "f" * 16)}, 0.2)


def test_what_is_no_otlp_is_an_error_and_too_much_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's error, when its spans are read; beyond the bound nothing is kept."""
    with over_http() as where:
        post(where.port, b"[1, 2]")
        with pytest.raises(ServerError, match="no OTLP"):
            where.spans({TRACE})
        monkeypatch.setattr(receiver, "MOST_BYTES", 400)
        content = otlp(otlp_span(2, 1, 10, 20))
        post(where.port, content)
        post(where.port, content)
        assert where.lost == 1 and len(where.spans({TRACE})) == 1


def test_each_way_that_a_backend_may_name_is_there() -> None:
    """Those of ``Backend.sends_spans``."""
    assert set(RECEIVERS) == {"otlp_json", "otlp_grpc"}
