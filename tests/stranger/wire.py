"""A few bytes to a port, and a request to a web server."""

from __future__ import annotations

import http.client
import json
import socket

from tests.stranger.ending import TIMEOUT_S

LOGIN = {"username": "admin", "password": "admin"}


def say(port: int, text: bytes) -> bytes:
    try:
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.sendall(text)
            return connection.recv(4096)
    except OSError as error:
        return type(error).__name__.encode()


def request(port: int, method: str, path: str, token: str = "") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Content-Type": "application/json"} | ({"Authorization": token} if token else {})
    try:
        connection.request(method, path, None if method == "GET" else json.dumps(LOGIN), headers)
        answer = connection.getresponse()
        return answer.status, answer.read(100_000)
    finally:
        connection.close()


def speaks_http(port: int) -> bool:
    """Whether a web server listens there."""
    return say(port, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1")
