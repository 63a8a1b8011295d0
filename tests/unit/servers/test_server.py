"""Our server as a process, asked by NVIDIA's clients."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pytest
import tritonclient.grpc
import tritonclient.http

from tests.serving_cases import Case, dense_case, running_server, server_config

LIMIT = 20_000


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Case, dict[str, int]]]:
    """The dense model with dynamic batching, over both protocols."""
    folder = tmp_path_factory.mktemp("server")
    case = dense_case(folder)
    config = server_config(
        case,
        folder,
        grpc_port=0,
        batching={"max_batch_size": 8, "max_delay_ms": 1},
        max_request_bytes=LIMIT,
        warmup_runs=1,
    )
    with running_server(config, folder) as ports:
        with tritonclient.http.InferenceServerClient(f"127.0.0.1:{ports['http']}") as client:
            while not client.is_model_ready("dense"):
                time.sleep(0.01)
        yield case, ports


def raw(
    ports: dict[str, int], method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, Any, Any]:
    """One plain HTTP request: status, headers, body."""
    connection = http.client.HTTPConnection("127.0.0.1", ports["http"], timeout=10)
    try:
        connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        with connection.getresponse() as response:
            return response.status, response.headers, response.read()
    finally:
        connection.close()


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
def test_tritonclient_http_gets_the_models_answers(
    served: tuple[Case, dict[str, int]], binary_in: bool, binary_out: bool
) -> None:
    """NVIDIA's HTTP client works unchanged, in binary and JSON, both ways; the id comes back."""
    case, ports = served
    with tritonclient.http.InferenceServerClient(f"127.0.0.1:{ports['http']}") as client:
        x = case.samples["x"][:3]
        given = tritonclient.http.InferInput("x", list(x.shape), "FP32")
        given.set_data_from_numpy(x, binary_data=binary_in)
        wanted = tritonclient.http.InferRequestedOutput("scores", binary_data=binary_out)
        result = client.infer("dense", [given], outputs=[wanted], request_id="abc")
        np.testing.assert_allclose(result.as_numpy("scores"), case.reference["scores"][:3], rtol=1e-5)
        assert result.get_response()["id"] == "abc"


def test_tritonclient_http_reads_health_metadata_and_statistics(served: tuple[Case, dict[str, int]]) -> None:
    """Everything beside inference that the client offers for one model."""
    _, ports = served
    with tritonclient.http.InferenceServerClient(f"127.0.0.1:{ports['http']}") as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("dense", "1")
        assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
        metadata = client.get_model_metadata("dense")
        assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 6]}]
        assert metadata["outputs"] == [{"name": "scores", "datatype": "FP32", "shape": [-1, 4]}]
        assert client.get_model_repository_index()[0]["state"] == "READY"
        assert client.get_model_config("dense")["batching"]["max_batch_size"] == 8


def test_tritonclient_grpc_gets_the_models_answers(served: tuple[Case, dict[str, int]]) -> None:
    """NVIDIA's gRPC client works unchanged, and the statistics count what it did."""
    case, ports = served
    with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{ports['grpc']}") as client:
        assert client.is_server_live()
        assert client.is_model_ready("dense")
        assert client.get_model_metadata("dense").inputs[0].shape == [-1, 6]
        before = client.get_inference_statistics("dense").model_stats[0].inference_count
        x = case.samples["x"][:5]
        given = tritonclient.grpc.InferInput("x", list(x.shape), "FP32")
        given.set_data_from_numpy(x)
        result = client.infer("dense", [given], request_id="abc")
        np.testing.assert_allclose(result.as_numpy("scores"), case.reference["scores"][:5], rtol=1e-5)
        assert result.get_response().id == "abc"
        after = client.get_inference_statistics("dense").model_stats[0].inference_count
        assert after - before == 5


def test_grpc_refuses_what_http_refuses(served: tuple[Case, dict[str, int]]) -> None:
    """A wrong shape and an unknown model are errors of their own kind."""
    _, ports = served
    with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{ports['grpc']}") as client:
        given = tritonclient.grpc.InferInput("x", [1, 5], "FP32")
        given.set_data_from_numpy(np.zeros((1, 5), np.float32))
        with pytest.raises(tritonclient.grpc.InferenceServerException, match=r"inputs\.x\.shape"):
            client.infer("dense", [given])
        with pytest.raises(tritonclient.grpc.InferenceServerException, match="NOT_FOUND"):
            client.infer("other", [given])


def test_every_answer_carries_the_servers_spans(served: tuple[Case, dict[str, int]]) -> None:
    """Queue, inference, pre- and postprocessing come as headers, in ns."""
    _, ports = served
    body = orjson.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 6], "data": [0.0] * 6}]})
    status, headers, answer = raw(ports, "POST", "/v2/models/dense/infer", body)
    assert status == 200
    assert len(orjson.loads(answer)["outputs"][0]["data"]) == 4
    spans = {
        k: int(headers[f"x-inferbench-{k}-ns"]) for k in ("queue", "inference", "preprocess", "postprocess")
    }
    assert all(value > 0 for value in spans.values())
    assert spans["queue"] >= 1_000_000  # the batcher's delay


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "message"),
    [
        ("/v2/models/dense/infer", b"{", {}, 400, "body: not JSON"),
        ("/v2/models/dense/infer", b"x" * (LIMIT + 1), {}, 413, f"at most {LIMIT} are allowed"),
        ("/v2/models/dense/infer", b"{}", {"Content_Encoding": "gzip"}, 415, "Content-Encoding"),
        (
            "/v2/models/dense/infer",
            b"{}",
            {"Inference_Header_Content_Length": "x"},
            400,
            "a number is needed",
        ),
        ("/v2/models/other/infer", b"{}", {}, 404, "known: dense, version 1"),
        ("/v2/models/dense/versions/9/infer", b"{}", {}, 404, "dense, version 9 is not served here"),
        ("/v2/nonsense", b"{}", {}, 404, "Not Found"),
    ],
)
def test_bad_requests_get_an_error_in_json(
    served: tuple[Case, dict[str, int]],
    path: str,
    body: bytes,
    headers: dict[str, str],
    status: int,
    message: str,
) -> None:
    """The status says whose fault it is, the text which field; the server goes on."""
    _, ports = served
    got, _, answer = raw(ports, "POST", path, body, **headers)
    assert got == status
    assert message in orjson.loads(answer)["error"]
    assert raw(ports, "GET", "/v2/models/dense/ready")[0] == 200


def test_a_body_in_chunks_is_limited_too(served: tuple[Case, dict[str, int]]) -> None:
    """Without a Content-Length the bytes are counted as they come."""
    _, ports = served
    connection = http.client.HTTPConnection("127.0.0.1", ports["http"], timeout=10)
    chunks = iter([b"x" * 8192] * 4)
    connection.request("POST", "/v2/models/dense/infer", chunks, encode_chunked=True)
    with connection.getresponse() as response:
        assert response.status == 413
    connection.close()


def test_prometheus_counts_what_the_statistics_count(served: tuple[Case, dict[str, int]]) -> None:
    """``/metrics`` has the model's counters and the process's resources."""
    _, ports = served
    statistics = orjson.loads(raw(ports, "GET", "/v2/models/dense/stats")[2])["model_stats"][0]
    text = raw(ports, "GET", "/metrics")[2].decode()
    count = float(statistics["inference_count"])
    line = f'inferbench_server_inferences_total{{model="dense",version="1"}} {count}'
    assert line in text
    assert "process_resident_memory_bytes" in text
