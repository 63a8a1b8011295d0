"""Any server as a target: its address, the arrivals on the command line, and inputs that its model takes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen.target import inputs_for, parse_arrivals, parse_url


@pytest.fixture
def server() -> Iterator[tuple[int, dict[str, Any]]]:
    """A KServe v2 server that answers each path with what the dict holds, 404 for the rest."""
    pages: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            page = pages.get(self.path)
            body = json.dumps(page if page is not None else {"error": "not found"}).encode()
            self.send_response(200 if page is not None else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer

        def log_message(self, *_: Any) -> None:
            """Requests are not logged to stderr."""

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield running.server_address[1], pages
    running.shutdown()
    running.server_close()
    thread.join(5)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("127.0.0.1:9000/m", ("http", 9000, "m", "")),
        ("http://h/m", ("http", 8000, "m", "")),
        ("grpc://h/m", ("grpc", 8001, "m", "")),
        ("tfs://h/m", ("grpc_tfs", 8500, "m", "")),
        ("http://h:1/v2/models/m/versions/3/infer", ("http", 1, "m", "3")),
        ("http://[::1]:7/m", ("http", 7, "m", "")),
    ],
)
def test_a_url_names_protocol_port_model_and_version(url: str, expected: tuple[Any, ...]) -> None:
    """The protocol's usual port where none is given."""
    endpoint = parse_url(url, None, None, None)
    assert (endpoint.protocol, endpoint.port, endpoint.model_name, endpoint.model_version) == expected


@pytest.mark.parametrize(
    ("url", "model", "protocol", "message"),
    [
        ("https://h/m", None, None, "unknown scheme 'https'"),
        ("http://h/m", None, "grpc", "contradicts the scheme"),
        ("http://h:99999/m", None, None, "--url"),
        ("http:///m", None, None, "no host"),
        ("http://h/a/b/c", None, None, "names no model"),
        ("grpc://h", None, None, "Which model"),
    ],
)
def test_a_wrong_url_says_what_is_wrong(
    url: str, model: str | None, protocol: str | None, message: str
) -> None:
    """A wrong URL is refused before anything is sent, with what is wrong."""
    with pytest.raises(InputError, match=message):
        parse_url(url, model, None, protocol)


def test_the_only_model_of_a_server_is_found(server: tuple[int, dict[str, Any]]) -> None:
    """By the repository extension; with several the user is asked, with their names."""
    port, pages = server
    pages["/v2/repository/index"] = [
        {"name": "one", "state": "READY"},
        {"name": "off", "state": "UNAVAILABLE"},
    ]
    assert parse_url(f"http://127.0.0.1:{port}", None, None, None).model_name == "one"
    pages["/v2/repository/index"] = [{"name": "one"}, {"name": "two"}]
    with pytest.raises(InputError, match="the server has: one, two"):
        parse_url(f"http://127.0.0.1:{port}", None, None, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("poisson:100", {"kind": "poisson", "rate_rps": 100}),
        ("gamma:rate_rps=20,cv=3", {"kind": "gamma", "rate_rps": 20, "cv": 3}),
        ("closed_loop:8,think_time_ms=2.5", {"kind": "closed_loop", "concurrency": 8, "think_time_ms": 2.5}),
        ("single_stream", {"kind": "single_stream"}),
        ('{"kind": "server", "rate_rps": 5}', {"kind": "server", "rate_rps": 5}),
    ],
)
def test_arrivals_on_one_line(text: str, expected: dict[str, Any]) -> None:
    """A number alone is the first parameter that must be given."""
    assert parse_arrivals(text) == expected


@pytest.mark.parametrize("text", ["nosuch:1", "poisson:1,2", "single_stream:3", "{nonsense", "{}", "[1]"])
def test_arrivals_that_are_none_are_refused(text: str) -> None:
    """With an InputError, whatever was typed."""
    with pytest.raises(InputError):
        parse_arrivals(text)


def _tensor(name: str, shape: list[int], datatype: str = "FP32") -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": shape}


def _where(port: int) -> Endpoint:
    return Endpoint(protocol="http", host="127.0.0.1", port=port, model_name="m")


def test_inputs_are_made_as_the_model_says(server: tuple[int, dict[str, Any]], tmp_path: Path) -> None:
    """Names, types and shapes of its metadata; the batch axis is left to the load; one seed, one content."""
    port, pages = server
    pages["/v2/models/m"] = {
        "inputs": [
            _tensor("x", [-1, 3, 8]),
            _tensor("ids", [-1, 5], "INT64"),
            _tensor("t", [-1, 1], "BYTES"),
        ],
        "outputs": [_tensor("y", [-1, 10])],
    }
    inputs = inputs_for(_where(port), None, {}, tmp_path, 1)
    again = inputs_for(_where(port), None, {}, tmp_path / "again", 1)
    with np.load(inputs.path) as arrays, np.load(again.path) as same:
        assert arrays["x"].shape == (64, 3, 8)
        assert arrays["x"].dtype == np.float32
        assert arrays["ids"].shape == (64, 5)
        assert arrays["ids"].dtype == np.int64
        assert arrays["t"].dtype.kind in "US"
        assert all((arrays[name] == same[name]).all() for name in arrays.files)
    assert inputs.batched
    assert inputs.expected["y"].shape == (10,)


def test_a_model_without_a_batch_axis_gets_none(server: tuple[int, dict[str, Any]], tmp_path: Path) -> None:
    """Its whole shape is one sample."""
    port, pages = server
    pages["/v2/models/m"] = {"inputs": [_tensor("x", [2, 4])], "outputs": [_tensor("y", [2, 4])]}
    inputs = inputs_for(_where(port), None, {}, tmp_path, 1)
    assert not inputs.batched
    assert inputs.expected["y"].shape == (2, 4)
    assert not inputs.expected["y"].batched
    with np.load(inputs.path) as arrays:
        assert arrays["x"].shape[1:] == (2, 4)


def test_an_input_of_any_size_has_to_be_given_one(server: tuple[int, dict[str, Any]], tmp_path: Path) -> None:
    """With the option that does it; an input that is not there is named."""
    port, pages = server
    pages["/v2/models/m"] = {"inputs": [_tensor("x", [-1, 3, -1])], "outputs": []}
    with pytest.raises(InputError, match="--shape x="):
        inputs_for(_where(port), None, {}, tmp_path, 1)
    with pytest.raises(InputError, match="no input z; it has: x"):
        inputs_for(_where(port), None, {"z": (3, 4)}, tmp_path, 1)
    inputs = inputs_for(_where(port), None, {"x": (3, 7)}, tmp_path, 1)
    with np.load(inputs.path) as arrays:
        assert arrays["x"].shape[1:] == (3, 7)


def test_an_unknown_model_or_no_server_is_an_error_with_the_way_out(
    server: tuple[int, dict[str, Any]],
) -> None:
    """404, and what to do; nobody there, and who was asked."""
    port, _ = server
    with pytest.raises(InputError, match="404.*--input"):
        inputs_for(_where(port), None, {}, Path("/nonexistent"), 1)
    with pytest.raises(InputError, match="No HTTP answer from 127.0.0.1:1"):
        inputs_for(_where(1), None, {}, Path("/nonexistent"), 1)
