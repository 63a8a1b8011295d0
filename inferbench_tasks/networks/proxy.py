"""A TCP proxy that shapes what passes: latency, jitter, bandwidth and loss, per direction.

``python -m inferbench_tasks.networks.proxy ORDER`` (JSON, see ``base.shaping_proxy``) prints its port and serves
until standard input closes. Every piece of data gets the time at which it may leave: after the link has
carried what came before it (bandwidth, shared by all connections of a direction) and the latency has passed.
Pieces of one connection never overtake each other.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import random
import socket
import sys
import time
from typing import Any, cast

from inferbench_tasks.networks.network import Network
from inferbench_tasks.timing.realtime import become_realtime, realtime_problem
from inferbench_tasks.timing.timerfd import Timer

#: Bytes are put on the link in pieces of at most so many, so that connections share it evenly.
_PIECE_BYTES = 16 * 1460
_SEGMENT_BYTES = 1460
#: Reading stops when so much waits in one connection: TCP's window.
_WINDOW_BYTES = 1 << 20


class Link:
    """One direction of the network: when does a piece that arrives now come out at the other end?"""

    def __init__(self, network: Network, mbit_s: float | None, seed: int) -> None:
        self._ns_per_byte = 8000 / mbit_s if mbit_s else 0.0
        self._latency_ns = network.latency_ms * 1e6
        self._lost_ns = 2 * self._latency_ns
        self._jitter_ns = network.jitter_ms * 1e6
        self._loss = network.loss_ratio
        self._random = random.Random(seed)
        self._free_ns = 0.0

    def take_off(self, own_delay_ms: float) -> None:
        """What passing through this process costs in one direction is part of the latency, not on top of it."""
        self._latency_ns = max(0.0, self._latency_ns - own_delay_ms * 1e6)

    def leaves_ns(self, now_ns: int, size: int) -> int:
        """Its time at the far end; the link is busy with it until its last byte is on the way."""
        self._free_ns = max(now_ns, self._free_ns) + size * self._ns_per_byte
        delay_ns = self._latency_ns
        if self._jitter_ns:
            delay_ns = max(0.0, self._random.gauss(self._latency_ns, self._jitter_ns))
        if self._loss:
            segments = -(-size // _SEGMENT_BYTES)
            while segments and any(self._random.random() < self._loss for _ in range(segments)):
                delay_ns += self._lost_ns
                segments = 1  # only what was lost is sent again, and may be lost again
        return int(self._free_ns + delay_ns)


class Conveyor:
    """All pieces on their way, in the order of the times at which they arrive."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._heap: list[tuple[int, int, Side, bytes]] = []
        self._timer = Timer(loop, self._deliver)
        self._count = 0

    def put(self, due_ns: int, side: Side, data: bytes) -> None:
        """``side`` gets the data at that time; b"" ends its connection."""
        self._count += 1
        heapq.heappush(self._heap, (due_ns, self._count, side, data))
        if self._heap[0][1] == self._count:
            self._timer.at(due_ns)

    def _deliver(self) -> None:
        while self._heap and self._heap[0][0] <= time.monotonic_ns():
            _, _, side, data = heapq.heappop(self._heap)
            side.deliver(data)
        if self._heap:
            self._timer.at(self._heap[0][0])


class Side(asyncio.Protocol):
    """One end of a proxied connection; what it receives goes over ``link`` to ``peer``."""

    def __init__(self, conveyor: Conveyor, link: Link) -> None:
        self._conveyor = conveyor
        self._link = link
        self._transport: asyncio.Transport | None = None
        self._last_ns = 0
        self._in_flight = 0
        self._early: list[bytes] = []
        self.peer: Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its base class
        for data in self._early:
            self.deliver(data)
        self._early.clear()

    def data_received(self, data: bytes) -> None:
        assert self.peer is not None and self._transport is not None
        now_ns = time.monotonic_ns()
        for start in range(0, len(data), _PIECE_BYTES):
            piece = data[start : start + _PIECE_BYTES]
            self._send(self._link.leaves_ns(now_ns, len(piece)), piece)
        self._in_flight += len(data)
        if self._in_flight > _WINDOW_BYTES:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        self._send(self._link.leaves_ns(time.monotonic_ns(), 0), b"")
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self._send(self._link.leaves_ns(time.monotonic_ns(), 0), b"")

    def _send(self, due_ns: int, data: bytes) -> None:
        self._last_ns = max(self._last_ns, due_ns)
        if self.peer is not None:
            self._conveyor.put(self._last_ns, self.peer, data)

    def deliver(self, data: bytes) -> None:
        """Hand the bytes over to the real connection."""
        if self._transport is None:
            self._early.append(data)  # the far connection is still being made
        elif not data:
            self._transport.close()
        elif not self._transport.is_closing():
            self._transport.write(data)
        if self.peer is not None:
            self.peer.delivered(len(data))

    def delivered(self, size: int) -> None:
        """So much of what this side read has arrived."""
        self._in_flight -= size
        transport = self._transport
        if transport is not None and self._in_flight <= _WINDOW_BYTES and not transport.is_closing():
            transport.resume_reading()

    def abort(self) -> None:
        """End the connection at once, without what is still under way."""
        if self._transport is not None:
            self._transport.abort()


class Way:
    """From a listener to a server through a network; both directions."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, network: Network, host: str, port: int, seed: int
    ) -> None:
        self._loop = loop
        self._conveyor = Conveyor(loop)
        self._host, self._port = host, port
        self.up = Link(network, network.up_mbit_s, seed)
        self.down = Link(network, network.down_mbit_s, seed + 1)
        self._background: set[asyncio.Task[None]] = set()

    def accepted(self) -> Side:
        """Take in a new client and connect it to the server behind."""
        client, server = Side(self._conveyor, self.up), Side(self._conveyor, self.down)
        client.peer, server.peer = server, client
        task = self._loop.create_task(self._connect(client, server))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return client

    async def _connect(self, client: Side, server: Side) -> None:
        try:
            await self._loop.create_connection(lambda: server, self._host, self._port)
        except OSError as error:
            print(f"{self._host}:{self._port}: {error}", file=sys.stderr)  # noqa: T201 - its log
            client.abort()


async def serve(order: dict[str, Any]) -> None:
    """Listen, say the ports, and pass everything on until standard input closes.

    ``netns`` and ``listen``: listen on that address in that namespace. ``calibration``: a second way, by which
    whoever started us finds out our own delay; it comes as a line of JSON and is taken off both directions.
    """
    loop = asyncio.get_running_loop()
    way = Way(loop, Network.model_validate(order["network"]), order["host"], order["port"], order["seed"])
    if order.get("netns"):
        from inferbench_tasks.networks.netem import listener

        sock = listener(order["netns"], order["listen"])
    else:
        sock = socket.create_server(("127.0.0.1", 0), backlog=1024)
    servers = [await loop.create_server(way.accepted, sock=sock)]
    document = {"port": sock.getsockname()[1]}
    if calibration := order.get("calibration"):
        network = Network.model_validate(calibration["network"])
        other = Way(loop, network, "127.0.0.1", calibration["port"], order["seed"])
        servers.append(await loop.create_server(other.accepted, "127.0.0.1", 0))
        document["calibration"] = servers[-1].sockets[0].getsockname()[1]
    _say(document)
    ended = asyncio.Event()

    def read() -> None:
        line = sys.stdin.readline()
        if not line:
            ended.set()
            return
        for link in (way.up, way.down):
            link.take_off(json.loads(line)["own_delay_ms"] / 2)
        _say({})

    loop.add_reader(sys.stdin.fileno(), read)
    await ended.wait()


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)  # noqa: T201 - the answer to whoever started it


if __name__ == "__main__":
    import uvloop

    # A network does not wait for a core: its delays must not grow with what the machine does beside it.
    if realtime_problem() is None:
        become_realtime()
    uvloop.run(serve(json.loads(sys.argv[1])))
