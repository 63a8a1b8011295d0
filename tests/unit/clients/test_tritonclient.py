"""NVIDIA's client writes the same requests as ours, and its troubles become the same statuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pytest

from inferbench_tasks.clients import kserve_grpc, kserve_http
from inferbench_tasks.clients.answers import AnswerCheck, ExpectedOutput, Outputs
from inferbench_tasks.clients.base import (
    BAD_RESPONSE,
    OK,
    RESET,
    Call,
    ClientSettings,
    Payload,
    Sink,
    client_factory,
)
from inferbench_tasks.clients.grpc_message import unframe
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.loadgen.null_server import answer_message
from inferbench_tasks.protocols.datatypes import NUMPY_OF
from inferbench_tasks.protocols.kserve_proto import SERVICE, message
from tests.load_servers import ANSWER_BYTES, FaultyHttp, free_port, http_answer, serving

#: Every datatype, a text and raw bytes among the strings, more than one axis, and none of the values a default.
INPUTS: Outputs = {
    name.lower(): np.array([[b"a\x00\xff", "ä"]] if name == "BYTES" else [[1, 0, 1]], dtype=dtype)
    for name, dtype in NUMPY_OF.items()
}


class One(Sink):
    """Hears of one call."""

    def __init__(self) -> None:
        self.status: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.words = ""

    def finish(self, call: Call, status: str, done_ns: int) -> None:
        self.status.set_result(status)

    def ready(self) -> None:
        """Nothing waits."""

    def again(self, call: Call) -> None:
        raise AssertionError("tritonclient never knows that a request was not looked at")

    def unreachable(self, reason: str) -> None:
        """Nothing waits."""

    def explain(self, status: str, text: str) -> None:
        self.words = text


def where(protocol: str, port: int, version: str = "") -> Endpoint:
    fields = {"protocol": protocol, "host": "127.0.0.1", "port": port, "model_name": "dense"}
    return Endpoint.model_validate(fields | {"model_version": version})


async def exchange(endpoint: Endpoint, wire: bytes, check: AnswerCheck) -> tuple[str, str, Call]:
    """One request by tritonclient: its status, the words about it, and its record."""
    sink = One()
    factory = client_factory(endpoint.protocol, "tritonclient")
    client = factory(
        ClientSettings(endpoint, 1, timeout_ns=2_000_000_000), asyncio.get_running_loop(), sink, check
    )
    await client.open(1)
    try:
        call = Call(0, 0, Payload(wire, 0, 1))
        assert client.send(call)
        return await asyncio.wait_for(sink.status, 20), sink.words, call
    finally:
        await client.close()


def http_check(*names: str) -> AnswerCheck:
    return AnswerCheck(kserve_http.decode_answer, {name: ExpectedOutput((4,)) for name in names})


async def written_over_http(
    wire: Callable[[Endpoint], bytes], version: str, *names: str
) -> tuple[bytes, bytes]:
    """Our request, and what tritonclient writes when it is handed it."""
    seen = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = await reader.readline()
            if not line:  # only a look whether somebody listens
                writer.close()
                return
            head += line
        (length,) = [int(h[15:]) for h in head.split(b"\r\n") if h.lower().startswith(b"content-length:")]
        seen.extend(head + await reader.readexactly(length))
        writer.write(answer_message("http", ANSWER_BYTES))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        endpoint = where("http", server.sockets[0].getsockname()[1], version)
        ours = wire(endpoint)
        status, words, _ = await exchange(endpoint, ours, http_check(*names))
    assert status == OK, words
    return ours, bytes(seen)


def taken_apart(request: bytes) -> tuple[bytes, dict[bytes, bytes], dict[str, Any], bytes]:
    """First line, headers, the JSON document, and the binary tensors after it."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    headers = {name.lower(): value for name, value in (line.split(b": ", 1) for line in lines)}
    assert int(headers[b"content-length"]) == len(body)
    at = int(headers.get(b"inference-header-content-length", len(body)))
    return first, headers, orjson.loads(body[:at]), body[at:]


@pytest.mark.parametrize("version", ["", "3"])
def test_over_http_the_request_is_ours(version: str) -> None:
    """The same path, document and tensors of every datatype; no compression is offered."""
    ours, theirs = asyncio.run(
        written_over_http(lambda endpoint: kserve_http.encode_request(endpoint, INPUTS), version)
    )
    first, _, document, tensors = taken_apart(ours)
    assert taken_apart(theirs)[0] == first
    assert taken_apart(theirs)[2:] == (document, tensors)
    assert taken_apart(theirs)[1][b"accept-encoding"] == b"identity"


def test_over_http_tensors_as_json_ask_for_json() -> None:
    """The same document, with the outputs by name, for else the library asks for binary ones."""
    inputs = {name: array for name, array in INPUTS.items() if name not in ("fp16", "bytes")}
    inputs["bytes"] = np.array([["a", "ä"]], dtype=object)
    ours, theirs = asyncio.run(
        written_over_http(
            lambda endpoint: kserve_http.encode_request(endpoint, inputs, binary=False), "", "output"
        )
    )
    _, _, document, tensors = taken_apart(theirs)
    assert document.pop("outputs") == [{"name": "output", "parameters": {"binary_data": False}}]
    assert (document, tensors) == (taken_apart(ours)[2], b"")


@pytest.mark.parametrize("version", ["", "3"])
def test_over_grpc_the_request_is_ours(version: str) -> None:
    """The same message with tensors of every datatype."""
    import grpc

    seen: list[bytes] = []

    class Any_(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> Any:
            async def answer(request: bytes, context: Any) -> bytes:
                if details.method != f"/{SERVICE}/ModelInfer":
                    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "only ModelInfer")
                seen.append(request)
                return answer_message("grpc", ANSWER_BYTES)

            return grpc.unary_unary_rpc_method_handler(answer)

    async def ask() -> bytes:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((Any_(),))
        endpoint = where("grpc", server.add_insecure_port("127.0.0.1:0"), version)
        await server.start()
        try:
            ours = kserve_grpc.encode_request(endpoint, INPUTS)
            check = AnswerCheck(kserve_grpc.decode_answer, {"output": ExpectedOutput((4,))})
            status, words, call = await exchange(endpoint, ours, check)
            assert status == OK, words
            assert call.bytes_received == len(answer_message("grpc", ANSWER_BYTES)) + 5
            return ours
        finally:
            await server.stop(None)

    ours = asyncio.run(ask())
    request = message("ModelInferRequest")
    assert [request.FromString(theirs) for theirs in seen] == [request.FromString(unframe(ours))]


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (http_answer(), OK, ""),
        (http_answer("400 Bad Request", b'{"error":"no such input"}'), "http_4xx", "HTTP 400: no such input"),
        (http_answer("503 Busy", b"overloaded"), "http_5xx", "overloaded"),
        (http_answer("200 OK", b"hello"), BAD_RESPONSE, "can't read the answer"),
        (http_answer("200 OK", b"{}"), BAD_RESPONSE, "can't read the answer: KeyError: 'outputs'"),
        (http_answer("200 OK", b'{"outputs":[{"name":"output","datatype":"FP32","shape":[1,4],"parameters":'
                     b'{"binary_data_size":0}}]}'), BAD_RESPONSE, "can't read the answer"),
        (answer_message("http", 2 * ANSWER_BYTES), BAD_RESPONSE, "has the shape [1, 8], [1, 4] is expected"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", BAD_RESPONSE, "not HTTP"),
        ("reset", RESET, ""),
    ],
)  # fmt: skip
def test_an_http_answer_has_the_status_of_what_it_is(answer: Any, status: str, words: str) -> None:
    """As by our client: the server's refusals, wrong answers and lost connections are told apart, in its words."""
    with serving(lambda: FaultyHttp(lambda n: answer)) as server:
        endpoint = where("http", server.port)
        wire = kserve_http.encode_request(endpoint, {"input": np.ones((1, 4), np.float32)})
        ended, told, call = asyncio.run(exchange(endpoint, wire, http_check("output")))
    assert ended == status, told
    assert words in told
    if status == OK:
        body = http_answer().partition(b"\r\n\r\n")[2]
        assert (call.bytes_received, call.first_byte_ns) == (len(body), -1)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_nobody_listens(protocol: str) -> None:
    """The client does not open, and names the address."""
    port = free_port()
    with pytest.raises(ConnectionError, match=f"no connection to 127.0.0.1:{port}"):
        asyncio.run(exchange(where(protocol, port), b"", http_check()))
