"""Small round trips and large transfers against a real echo server, to measure a network by."""

from __future__ import annotations

import selectors
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_TIMEOUT_S = 60.0


def round_trips_ms(port: int, count: int, connections: int = 1, host: str = "127.0.0.1") -> list[float]:
    """At least ``count`` round trips of single bytes, ms, over so many connections at once."""
    times_ms: list[float] = []
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        sent_ns: dict[socket.socket, int] = {}
        for _ in range(connections):
            connection = stack.enter_context(socket.create_connection((host, port), timeout=_TIMEOUT_S))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(connection, selectors.EVENT_READ)
            sent_ns[connection] = time.monotonic_ns()
            connection.sendall(b"p")
        while len(times_ms) < count:
            ready = selector.select(_TIMEOUT_S)
            now_ns = time.monotonic_ns()
            if not ready:
                raise TimeoutError(f"no answer to a ping within {_TIMEOUT_S:g} s")
            for key, _ in ready:
                connection = key.fileobj  # type: ignore[assignment]
                if not connection.recv(1):
                    raise ConnectionError("the echo server closed the connection")
                times_ms.append((now_ns - sent_ns[connection]) / 1e6)
                sent_ns[connection] = time.monotonic_ns()
                connection.sendall(b"p")
    return times_ms


def quick_ms(port: int, count: int) -> float:
    """The lower quartile of the round trips of one connection, ms: what they take while nothing is in the way."""
    return statistics.quantiles(round_trips_ms(port, count + 10)[10:], n=4)[0]


def transfer_s(port: int, size: int, direction: str, host: str = "127.0.0.1") -> float:
    """Seconds from the order to the last byte (up: to the server's word that it has it)."""
    with socket.create_connection((host, port), timeout=_TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        started = time.monotonic()
        connection.sendall(b"u" if direction == "up" else b"d")
        connection.sendall(size.to_bytes(8, "big"))
        if direction == "up":
            connection.sendall(bytes(size))
            connection.recv(1)
        else:
            _receive(connection, size)
        return time.monotonic() - started


def _receive(connection: socket.socket, size: int) -> None:
    while size > 0:
        data = connection.recv(min(size, 1 << 16))
        if not data:
            raise ConnectionError("the connection ended in the middle of a transfer")
        size -= len(data)


@contextmanager
def echo() -> Iterator[int]:
    """A server that answers pings and takes part in transfers; its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def handle(connection: socket.socket) -> None:
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                while order := connection.recv(1):
                    if order == b"p":
                        connection.sendall(b"p")
                        continue
                    size = int.from_bytes(connection.recv(8, socket.MSG_WAITALL), "big")
                    if order == b"u":
                        _receive(connection, size)
                        connection.sendall(b"k")
                    else:
                        connection.sendall(bytes(size))
            except ConnectionError:
                return  # the measurement is over

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # closed: the test is over
            threading.Thread(target=handle, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)
