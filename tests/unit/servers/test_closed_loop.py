"""The closed loop of ``benchmarks/serving``: what it counts is answers, and a server that goes away is an error."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from benchmarks.serving.closed_loop import drive

REQUEST = b"x" * 10
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """One connection at a time is given to ``serve``; the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    serve(connection)

        thread = threading.Thread(target=accept)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def read_request(connection: socket.socket) -> bool:
    """Whether a whole one came; False once the client has left."""
    seen = b""
    while not seen.endswith(REQUEST):
        if not (part := connection.recv(4096)):
            return False
        seen += part
    return True


def test_it_leaves_once_its_last_answer_is_there() -> None:
    """The server never finds a client gone with a request open."""
    asked, answered = [], []

    def serve(connection: socket.socket) -> None:
        while read_request(connection):
            asked.append(1)
            connection.sendall(ANSWER)
            answered.append(1)

    with server(serve) as port:
        latencies = drive(port, "/infer", REQUEST, 5, 1, 0.05)
    assert len(latencies) >= 1
    assert len(asked) == len(answered) == len(latencies) + 1  # the last answer came after the end


def test_a_server_that_closes_is_an_error() -> None:
    """It is not counted on without the connection."""

    def serve(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(ANSWER)
        read_request(connection)

    with (
        server(serve) as port,
        pytest.raises(ConnectionError, match="closed a connection on which a request"),
    ):
        drive(port, "/infer", REQUEST, 5, 1, 5.0)
