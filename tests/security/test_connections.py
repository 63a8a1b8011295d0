"""Connections that never ask anything whole: what they may take of the server, and that others are answered."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import uvicorn

from inferbench_tasks.provider.api.connections import MAX_BARE_BYTES, BoundedConnection

HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"
LARGE = b"x" * 64_000_000


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Reads a body to its end and says how long it was; ``/large`` sends 64 MB in pieces."""
    if scope["type"] != "http":
        return
    length, more = 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return
        length, more = length + len(message["body"]), message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for start in range(0, len(LARGE) if scope["path"] == "/large" else 0, 1_000_000):
        await send(
            {"type": "http.response.body", "body": LARGE[start : start + 1_000_000], "more_body": True}
        )
    await send({"type": "http.response.body", "body": b"%d" % length})


@contextmanager
def serving(**limits: float) -> Iterator[tuple[str, int]]:
    """The address of a real server with these limits."""
    protocol = type("Protocol", (BoundedConnection,), limits)
    config = uvicorn.Config(application, port=0, http=protocol, ws="none", lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()
    finally:
        server.should_exit = server.force_exit = True
        thread.join()
        listener.close()


def answer(connection: socket.socket) -> bytes:
    """All that comes until the server closes; nothing where it resets."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def one_answer(connection: socket.socket) -> bytes:
    """Up to its last chunk."""
    text = b""
    while not text.endswith(b"\r\n0\r\n\r\n"):
        text += connection.recv(4096)
    return text


def asked(address: tuple[str, int], more: bytes = b"", host: str = "127.0.0.1") -> bytes:
    """The first line of the answer to a whole request of somebody else."""
    with socket.create_connection(address, 60, source_address=(host, 0)) as connection:
        connection.sendall(HEAD + b"Connection: close\r\n" + more + b"\r\n")
        return answer(connection).partition(b"\r\n")[0]


@pytest.mark.parametrize("sent", [b"", b"G", HEAD, HEAD + b"Content-Length: 5\r\n"])
def test_a_head_that_does_not_end_is_given_up(sent: bytes) -> None:
    """408 and a close, also of a connection that says nothing at all; others are answered meanwhile."""
    with serving(head_patience_s=1.0) as address, socket.create_connection(address, 60) as connection:
        connection.sendall(sent)
        assert asked(address) == b"HTTP/1.1 200 OK"
        assert answer(connection).startswith(b"HTTP/1.1 408 ")


def test_the_time_of_a_head_does_not_begin_anew_with_each_byte() -> None:
    """A byte now and then is no progress."""
    with serving(head_patience_s=1.0) as address, socket.create_connection(address, 60) as connection:
        connection.sendall(HEAD)
        connection.settimeout(0.05)
        for _ in range(1000):
            connection.sendall(b"x")
            try:
                assert connection.recv(100).startswith(b"HTTP/1.1 408 ")
                return
            except TimeoutError:
                continue
        raise AssertionError("it goes on for ever")


def test_the_second_request_of_a_connection_has_the_same_time() -> None:
    """One that was asked well before is no exception, and may be idle between its requests."""
    with serving(head_patience_s=1.0) as address, socket.create_connection(address, 60) as connection:
        for _ in range(2):
            connection.sendall(HEAD + b"\r\n")
            assert one_answer(connection).startswith(b"HTTP/1.1 200 ")
            time.sleep(1.5)
        connection.sendall(HEAD)
        assert answer(connection).rpartition(b"HTTP/1.1 ")[2].startswith(b"408 ")


def endless_header(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"a: ")


def endless_trailer(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\na: ")


def endless_extension(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;a=")


@pytest.mark.parametrize("begin", [endless_header, endless_trailer, endless_extension])
def test_what_is_no_body_has_an_end(begin: Callable[[socket.socket], None]) -> None:
    """Headers, trailers and extensions of chunks are refused after 64 KiB, not collected: 431, or a reset."""
    with serving() as address, socket.create_connection(address, 60) as connection:
        begin(connection)
        sent = 0
        try:
            while sent < 100 * MAX_BARE_BYTES:
                connection.sendall(b"x" * 16384)
                sent += 16384
        except OSError:
            pass
        assert sent < 100 * MAX_BARE_BYTES
        assert asked(address) == b"HTTP/1.1 200 OK"


def test_bodies_are_not_bound_by_it() -> None:
    """A body of any length passes, in pieces, in chunks, and behind others on one connection."""
    body = b"x" * 3_000_000
    chunks = b"".join(b"%x\r\n" % 1000 + b"x" * 1000 + b"\r\n" for _ in range(3000)) + b"0\r\n\r\n"
    with serving() as address, socket.create_connection(address, 60) as connection:
        for _ in range(3):
            connection.sendall(HEAD + b"Content-Length: 3000000\r\n\r\n" + body)
            assert b"\r\n3000000\r\n" in one_answer(connection)
            connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
            assert b"\r\n3000000\r\n" in one_answer(connection)


def test_thousands_of_half_open_connections_keep_nobody_out() -> None:
    """Of one address that holds hundreds, the oldest go; the other's is kept, and newcomers of both are answered."""
    with serving(max_waiting=50) as address, ExitStack() as stack:

        def opened(host: str) -> socket.socket:
            connection = socket.create_connection(address, 60, source_address=(host, 0))
            connection.sendall(HEAD)
            return stack.enter_context(connection)

        patient = opened("127.0.0.2")
        flood = []
        for number in range(1000):
            flood.append(opened("127.0.0.1"))
            if number % 100 == 0:
                assert asked(address) == asked(address, host="127.0.0.2") == b"HTTP/1.1 200 OK"
        assert asked(address) == b"HTTP/1.1 200 OK"
        assert all(answer(connection) == b"" for connection in flood[:900])
        patient.sendall(b"Connection: close\r\n\r\n")
        assert answer(patient).startswith(b"HTTP/1.1 200 ")


def test_an_answer_that_nobody_reads_is_given_up() -> None:
    """Its rest is not sent, its connection is closed."""
    with serving(reader_patience_s=0.3) as address, socket.create_connection(address, 60) as connection:
        connection.sendall(HEAD.replace(b"/", b"/large", 1) + b"\r\n")
        time.sleep(1.0)
        assert len(answer(connection)) < len(LARGE)
        assert asked(address) == b"HTTP/1.1 200 OK"
