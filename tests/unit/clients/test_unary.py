"""gRPC questions one at a time, asked of a real gRPC server and of nobody."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from inferbench_tasks.clients.unary import RefusedCall, ask
from inferbench_tasks.contracts.handles import Endpoint
from tests.load_servers import endpoint

PATH = "/a.B/C"


@contextlib.contextmanager
def answering(handle: Callable[[bytes, grpc.ServicerContext], bytes]) -> Iterator[Endpoint]:
    """A server of grpcio's whose one method answers so."""
    server = grpc.server(ThreadPoolExecutor(2))
    method = grpc.unary_unary_rpc_method_handler(handle)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("a.B", {"C": method})])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield endpoint("grpc", port)
    finally:
        server.stop(None).wait()


@pytest.mark.parametrize("size", [0, 1, 70_000, 3_000_000])
def test_the_message_comes_back_whole(size: int) -> None:
    """Of no byte, one, more than a frame and more than a window."""
    with answering(lambda message, _: message[::-1]) as server:
        message = bytes(n % 251 for n in range(size))
        assert ask(server, PATH, message, timeout_s=20, max_bytes=4 << 20) == message[::-1]


def test_an_error_is_told_with_its_status_and_the_servers_words() -> None:
    """And one that says that nobody looked at it is no answer."""

    def refuse(message: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode[message.decode()], "no such model: ümlaut")
        return b""

    with answering(refuse) as server:
        with pytest.raises(RefusedCall, match="grpc_not_found: no such model: ümlaut") as refused:
            ask(server, PATH, b"NOT_FOUND", timeout_s=20, max_bytes=100)
        assert refused.value.status == "grpc_not_found"
        with pytest.raises(ConnectionError, match="no such model"):
            ask(server, PATH, b"UNAVAILABLE", timeout_s=20, max_bytes=100)
        with pytest.raises(RefusedCall, match="grpc_unimplemented"):
            ask(server, "/a.B/D", b"", timeout_s=20, max_bytes=100)


def test_an_answer_beyond_the_bound_is_refused() -> None:
    """With the bound in its words."""
    with (
        answering(lambda *_: bytes(5000)) as server,
        pytest.raises(RefusedCall, match="more than 4,000 bytes"),
    ):
        ask(server, PATH, b"", timeout_s=20, max_bytes=4000)


def test_nobody_there_is_a_lost_connection() -> None:
    """A closed port at once, a server that takes connections and never speaks after the time limit."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        asked = endpoint("grpc", silent.getsockname()[1])
        with pytest.raises(ConnectionError, match=r"no (answer|connection)"):
            ask(asked, PATH, b"", timeout_s=0.2, max_bytes=100)
    with pytest.raises(ConnectionError, match="no connection"):
        ask(asked, PATH, b"", timeout_s=20, max_bytes=100)
