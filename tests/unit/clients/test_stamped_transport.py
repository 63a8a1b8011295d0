"""Reads with the kernel's stamps, over real sockets."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from inferbench_tasks.clients.stamped_transport import NOT_STAMPED, StampedProtocol, StampedReader
from inferbench_tasks.timing.wall_clock import WallClock

MS = 1_000_000


class Reader(StampedProtocol):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.reads: list[tuple[bytes, int, int]] = []
        self.lost: list[Exception | None] = []
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def received(self, data: memoryview | bytes, arrival_ns: int, waited_ns: int) -> None:
        self.reads.append((bytes(data), arrival_ns, waited_ns))

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.append(error)


def with_peer(act: Callable[[Reader, socket.socket, WallClock], Awaitable[None]]) -> Reader:
    """A connected reader after that; the peer's socket blocks."""

    async def run() -> Reader:
        clock, reader = WallClock(), Reader()
        for _ in range(20):  # as many beats of a sender
            clock.sample()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            host, port = listener.getsockname()
            await StampedReader(asyncio.get_running_loop(), clock).connect(host, port, reader)
            peer, _ = listener.accept()
        with peer:
            await act(reader, peer, clock)
        reader.transport.abort()
        await asyncio.sleep(0)
        return reader

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


async def until(true: Callable[[], Any]) -> None:
    """Let the loop turn until it is so."""
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.001)


def test_what_the_process_was_held_up_is_in_no_stamp() -> None:
    """The bytes arrived before the loop was held up for 50 ms; the wait for their read is told beside it."""
    moments: list[int] = []

    async def act(reader: Reader, peer: socket.socket, clock: WallClock) -> None:
        moments.append(time.monotonic_ns())
        peer.sendall(b"token")
        moments.append(time.monotonic_ns())
        time.sleep(0.05)
        await until(lambda: reader.reads)

    (data, arrival_ns, waited_ns), *_ = with_peer(act).reads
    # Over the loopback it arrives within the send; a clock read takes less than the 0.1 ms of either side.
    assert data == b"token"
    assert moments[0] - MS // 10 <= arrival_ns <= moments[1] + MS // 10
    assert waited_ns >= 49 * MS


def test_segments_that_are_read_together_carry_the_last_ones_moment() -> None:
    """Both came before the read, 20 ms from each other."""
    second_ns: list[int] = []

    async def act(reader: Reader, peer: socket.socket, clock: WallClock) -> None:
        peer.sendall(b"one")
        time.sleep(0.02)
        second_ns.append(time.monotonic_ns())
        peer.sendall(b"two")
        await until(lambda: reader.reads)

    (data, arrival_ns, _), *_ = with_peer(act).reads
    assert data == b"onetwo"
    assert arrival_ns >= second_ns[0] - MS // 10


def test_a_stamp_of_the_future_is_none() -> None:
    """Where somebody set the system's time since the clocks were compared: the read's moment, and it is told so."""

    async def act(reader: Reader, peer: socket.socket, clock: WallClock) -> None:
        clock.offset_ns -= 3_600 * 1000 * MS
        peer.sendall(b"token")
        await until(lambda: reader.reads)

    (_, arrival_ns, waited_ns), *_ = with_peer(act).reads
    assert waited_ns == NOT_STAMPED and arrival_ns <= time.monotonic_ns()


def test_all_that_is_written_arrives_though_the_kernel_takes_it_in_pieces() -> None:
    """More than any socket's buffer, in two writes of which the second follows at once."""
    body = bytes(range(256)) * 60_000
    got = bytearray()

    async def act(reader: Reader, peer: socket.socket, clock: WallClock) -> None:
        reader.transport.write(body)
        reader.transport.write(b"end")
        peer.setblocking(False)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(20):
            while len(got) < len(body) + 3:
                got.extend(await loop.sock_recv(peer, 1 << 20))

    with_peer(act)
    assert got == body + b"end"


@pytest.mark.parametrize("reset", [False, True])
def test_the_peers_end_is_told_once(reset: bool) -> None:
    """Without an error where it closed, with one where it reset; what is written then goes nowhere."""

    async def act(reader: Reader, peer: socket.socket, clock: WallClock) -> None:
        if reset:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        peer.close()
        await until(lambda: reader.lost)
        reader.transport.write(b"late")

    reader = with_peer(act)
    assert len(reader.lost) == 1 and (reader.lost[0] is not None) == reset
    assert reader.transport.is_closing()


def test_no_listener_is_an_error() -> None:
    """As of any connection."""

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            host, port = listener.getsockname()
        await StampedReader(asyncio.get_running_loop(), WallClock()).connect(host, port, Reader())

    with pytest.raises(ConnectionRefusedError):
        asyncio.run(run())
