"""Does an emulated network do what its row says? Measured through the real proxy, against a real echo server."""

from __future__ import annotations

import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from inferbench_tasks.networks.base import Network, shaping_proxy

#: A figure is met within this share, or within what a shared machine's scheduling adds.
TOLERANCE_RATIO = 0.10
TOLERANCE_MS = 0.3
_PINGS = 40
_BULK_S = 1.0


def self_test(network: Network, folder: Path, *, bulk: bool = True) -> dict[str, Any]:
    """{round_trip_ms, jitter_ms, up_mbit_s, down_mbit_s: {asked, measured, met}, met}.

    The round trip is the median of pings less that of a direct connection; jitter the standard deviation of
    the round trip (that of both ways together); bandwidths those of a bulk transfer of about a second each.
    """
    with _echo() as port:
        direct_ms = _pings(port, _PINGS)
        with shaping_proxy(network, "127.0.0.1", port, folder / "network-selftest.log") as shaped:
            pings_ms = _pings(shaped, _PINGS)
            found = {
                "round_trip_ms": _judge(
                    2 * network.latency_ms,
                    statistics.median(pings_ms) - statistics.median(direct_ms),
                    TOLERANCE_MS,
                ),
            }
            # 40 pings bound a standard deviation to about a fifth; it is told, not judged.
            jitter = {
                "asked": network.jitter_ms * 2**0.5,
                "measured": statistics.stdev(pings_ms),
                "met": None,
            }
            if bulk:
                for direction, mbit_s in (("up", network.up_mbit_s), ("down", network.down_mbit_s)):
                    if mbit_s:
                        size = int(mbit_s * 1e6 / 8 * _BULK_S)
                        seconds = _transfer(shaped, size, direction) - 2 * network.latency_ms / 1e3
                        found[f"{direction}_mbit_s"] = _judge(mbit_s, size * 8 / 1e6 / seconds, 0.0)
    return {
        **found,
        "jitter_ms": jitter,
        "emulation": "proxy",
        "loss": "as a round trip's delay per lost segment" if network.loss_ratio else None,
        "met": all(figure["met"] for figure in found.values()),
    }


def _judge(asked: float, measured: float, slack: float) -> dict[str, Any]:
    met = abs(measured - asked) <= max(TOLERANCE_RATIO * asked, slack)
    return {"asked": asked, "measured": measured, "met": met}


def _pings(port: int, count: int) -> list[float]:
    """Round trips of single bytes, ms."""
    found = []
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            sent_ns = time.monotonic_ns()
            connection.sendall(b"p")
            connection.recv(1)
            found.append((time.monotonic_ns() - sent_ns) / 1e6)
    return found


def _transfer(port: int, size: int, direction: str) -> float:
    """Seconds from the order to the last byte (up: to the server's word that it has it)."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
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
def _echo() -> Iterator[int]:
    """A server that answers pings and takes part in transfers; its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def handle(connection: socket.socket) -> None:
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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
