"""A closed loop of raw sockets: as cheap as Python allows, so that the server's cost is what shows."""

from __future__ import annotations

import selectors
import socket
import time
from contextlib import ExitStack
from typing import cast

ANSWER_TIMEOUT_S = 30.0


def drive(
    port: int, path: str, body: bytes, header_length: int, connections: int, seconds: float
) -> list[float]:
    """Keep one request in flight per connection; the latencies of the answers in time, ms. Fails on any error.

    Connections are closed once the last answers are there: the next measurement finds a server without orphaned work.
    """
    request = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        f"Inference-Header-Content-Length: {header_length}\r\n\r\n"
    ).encode() + body
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.EpollSelector())
        sockets = []
        for _ in range(connections):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(sock, selectors.EVENT_READ)
            sockets.append(sock)
        return _loop(selector, sockets, request, seconds)


def _loop(
    selector: selectors.EpollSelector, sockets: list[socket.socket], request: bytes, seconds: float
) -> list[float]:
    sent = {sock.fileno(): time.perf_counter() for sock in sockets}
    partial = {sock.fileno(): b"" for sock in sockets}
    for sock in sockets:
        sock.sendall(request)
    latencies: list[float] = []
    end = time.perf_counter() + seconds
    waiting = len(sockets)
    while waiting:
        ready = selector.select(ANSWER_TIMEOUT_S)
        if not ready:
            raise TimeoutError(f"no answer to {waiting} requests within {ANSWER_TIMEOUT_S} s")
        for key, _ in ready:
            sock, fd = cast(socket.socket, key.fileobj), key.fd
            if not (part := sock.recv(1 << 20)):
                raise ConnectionError("the server closed a connection on which a request was waiting")
            answer = partial[fd] + part
            if not complete(answer):
                partial[fd] = answer
                continue
            assert answer.startswith(b"HTTP/1.1 200"), answer[:300]
            partial[fd] = b""
            now = time.perf_counter()
            if now >= end:
                waiting -= 1
                continue
            latencies.append((now - sent[fd]) * 1e3)
            sent[fd] = now
            sock.sendall(request)
    return latencies


def complete(answer: bytes) -> bool:
    """Whether a whole answer has come."""
    head, separator, body = answer.partition(b"\r\n\r\n")
    if not separator:
        return False
    length = head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0]
    return len(body) >= int(length)
