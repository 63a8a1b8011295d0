"""What a server tells of requests whose callers brought a context of their own, or whose recorder is taken away."""

from __future__ import annotations

import http.client
import json
import time
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from benchmarks.mlmodelscope.switched import started
from inferbench_tasks.clients.grpc_message import METHODS, PREFIX_BYTES, frame
from inferbench_tasks.clients.kserve_grpc import decode_answer, encode_request
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.protocols.traceparent import TraceContext
from inferbench_tasks.servers.config import Tracing
from tests.serving_cases import dense_case, running_server, server_config

pytestmark = pytest.mark.integration


def test_only_contexts_that_are_ones_and_want_it_are_traced(tmp_path: Path) -> None:
    """Of seven requests three have a sampled context, one of them with a state that is kept, one with a state that is
    none, which is counted; one is broken and one has two, which are counted, one is not sampled, one has none. All are
    answered.
    """
    case = dense_case(tmp_path)
    path = tmp_path / "told.json"
    context = TraceContext("1" * 32, "2" * 16)
    good, unsampled = str(context), str(context._replace(sampled=False))
    cases: list[tuple[list[str], list[str]]] = [
        ([good], []), (["00-nonsense"], ["a=1"]), ([unsampled], ["a=1"]), ([], ["a=1"]), ([good, good], []),
        ([good], ["shop=1", "bank=2"]), ([good], ["a=1,a=2"]),
    ]  # fmt: skip
    config = server_config(case, tmp_path, tracing=Tracing(path=str(path)))
    with running_server(config, tmp_path) as ports:
        connection = http.client.HTTPConnection("127.0.0.1", ports["http"], timeout=60)
        row = case.samples["x"][:1]
        tensor = {"name": "x", "datatype": "FP32", "shape": list(row.shape), "data": row.ravel().tolist()}
        body = json.dumps({"inputs": [tensor]}).encode()
        for values, states in cases:
            for _ in range(600):
                connection.putrequest("POST", "/v2/models/dense/infer")
                connection.putheader("Content-Length", str(len(body)))
                for value in values:
                    connection.putheader("traceparent", value)
                for value in states:
                    connection.putheader("tracestate", value)
                connection.endheaders(body)
                answer = connection.getresponse()
                answer.read()
                if answer.status != 503:  # still loading
                    break
            assert answer.status == 200
        connection.close()
    told = json.loads(path.read_bytes())
    assert [(row["trace_id"], row["parent_id"]) for row in told["requests"]] == [
        (context.trace_id, context.span_id)
    ] * 3
    assert [row.get("tracestate") for row in told["requests"]] == [None, "shop=1,bank=2", None]
    assert told["runs"] == told["layers"] == [] and (told["ignored"], told["ignored_states"]) == (2, 1)


def test_a_recorder_that_is_taken_away_tells_of_no_request(tmp_path: Path) -> None:
    """What the benchmark of tracing compares in one process: with its recorder the server tells of a request, without
    it of none, and again with it.
    """
    case = dense_case(tmp_path)
    row = case.samples["x"][:1]
    tensor = {"name": "x", "datatype": "FP32", "shape": list(row.shape), "data": row.ravel().tolist()}
    body = json.dumps({"inputs": [tensor]}).encode()
    traces = [f"{number:032x}" for number in (1, 2, 3)]
    with started(case, tmp_path) as server:
        connection = http.client.HTTPConnection(server.endpoint.host, server.endpoint.port, timeout=60)
        for trace_id, on in zip(traces, (True, False, True), strict=True):
            server.switch(on)
            context = TraceContext(trace_id, "2" * 16)
            connection.request("POST", "/v2/models/dense/infer", body, {"traceparent": str(context)})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200
        connection.close()
        assert server.cpu_ns() > 0
    assert server.traced() == {traces[0], traces[2]}


def test_of_callers_over_grpc_too(tmp_path: Path) -> None:
    """A caller's own context is continued, its state too; a broken one is ignored, and counted."""
    case = dense_case(tmp_path)
    path = tmp_path / "told.json"
    context = TraceContext("1" * 32, "2" * 16)
    good, unsampled = str(context), str(context._replace(sampled=False))
    config = server_config(case, tmp_path, tracing=Tracing(path=str(path)), grpc_port=0)
    with running_server(config, tmp_path) as ports:
        where = Endpoint(protocol="grpc", host="127.0.0.1", port=ports["grpc"], model_name="dense")
        message = encode_request(where, {"x": case.samples["x"][:1]})[PREFIX_BYTES:]
        with grpc.insecure_channel(where.url) as channel:
            infer = channel.unary_unary(METHODS["grpc"])
            deadline = time.monotonic() + 60
            while True:
                try:
                    infer(message, timeout=10)
                    break
                except grpc.RpcError:  # still loading
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)
            for values in ([good], ["00-nonsense"], [unsampled], []):
                beside = [("traceparent", value) for value in values] + [("tracestate", "shop=1")]
                answer = infer(message, timeout=10, metadata=beside)
                scores: Any = decode_answer(frame(answer))["scores"]
                np.testing.assert_allclose(scores, case.reference["scores"][:1], rtol=1e-5)
    told = json.loads(path.read_bytes())
    found = [(row["trace_id"], row["parent_id"]) for row in told["requests"]]
    assert found == [(context.trace_id, context.span_id)] and told["ignored"] == 1
    assert told["requests"][0]["tracestate"] == "shop=1" and told["ignored_states"] == 0
