"""Servers under test that send without end, or play games with the protocol; each for the tests of the clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import count, repeat
from typing import Any

from inferbench_tasks.clients import http2
from inferbench_tasks.loadgen.null_server import NullGrpc, NullHttp

#: What is sent after a request: pieces, as fast as they are read, without end or to the last one.
Pieces = Callable[[int], Iterator[bytes]]
_BLOCK_BYTES = 1 << 16
_HEAD = b"\x88" + http2.literal("content-type", "application/grpc")
_OK = b"HTTP/1.1 200 OK\r\n"


class _Pump:
    """Writes pieces as fast as the other side reads; once in a while others of the loop have their turn."""

    def __init__(self, transport: Any, pieces: Iterator[bytes], pause_s: float = 0.0) -> None:
        self._transport = transport
        self._pieces = pieces
        self._pause_s = pause_s
        self.paused = False

    def go_on(self) -> None:
        if self.paused or self._transport.is_closing():
            return
        if (piece := next(self._pieces, None)) is None:
            return
        self._transport.write(piece)
        loop = asyncio.get_running_loop()
        loop.call_later(self._pause_s, self.go_on) if self._pause_s else loop.call_soon(self.go_on)


class _Pausing:
    _pumps: list[_Pump]

    def pause_writing(self) -> None:
        for pump in self._pumps:
            pump.paused = True

    def resume_writing(self) -> None:
        for pump in self._pumps:
            pump.paused = False
            pump.go_on()


class _Answering:
    """Stands for the transport of a null server: what it would write begins what we write."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self.write = write


class HostileHttp(_Pausing, NullHttp):
    """Answers a whole request with the pieces."""

    def __init__(self, pieces: Pieces, pause_s: float = 0.0) -> None:
        super().__init__(b"-")
        self._pieces, self._pause_s = pieces, pause_s
        self._pumps = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        def begin(_: bytes) -> None:
            self._pumps.append(_Pump(transport, self._pieces(0), self._pause_s))
            self._pumps[-1].go_on()

        self._transport = _Answering(begin)


class HostileGrpc(_Pausing, NullGrpc):
    """Answers each stream with the pieces. ``deaf``: reads nothing any more from the first answer on."""

    def __init__(self, pieces: Pieces, pause_s: float = 0.0, deaf: bool = False) -> None:
        super().__init__(b"-")
        self._pieces, self._pause_s, self._deaf = pieces, pause_s, deaf
        self._pumps = []

    def _answer(self, stream_id: int, out: list[bytes]) -> None:
        if self._deaf:
            self._transport.pause_reading()
        self._pumps.append(_Pump(self._transport, self._pieces(stream_id), self._pause_s))
        asyncio.get_running_loop().call_soon(self._pumps[-1].go_on)


def _endless(piece: bytes, first: bytes = b"") -> Pieces:
    """The same for ever, in blocks of some size."""
    block = piece * max(1, _BLOCK_BYTES // len(piece))

    def pieces(_: int) -> Iterator[bytes]:
        yield first
        yield from repeat(block)

    return pieces


def _stream(make: Callable[[int], bytes], first: Callable[[int], bytes] = lambda s: b"") -> Pieces:
    """The same frames of one stream for ever."""
    return lambda stream_id: _endless(make(stream_id), first(stream_id))(stream_id)


def _head(stream_id: int) -> bytes:
    return http2.frame(http2.HEADERS, http2.END_HEADERS, stream_id, _HEAD)


def _status_of_digits(stream_id: int) -> Iterator[bytes]:
    block = _HEAD + http2.literal("grpc-status", "1" * 5000)
    yield http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, stream_id, block)


def _windows(stream_id: int) -> Iterator[bytes]:
    """Windows of all sizes, one byte more at a time, and a settings frame full of the same entry."""
    sizes = b"".join(b"\x00\x04" + (n % 65536).to_bytes(4, "big") for n in range(2000))
    for _ in count():
        yield http2.frame(http2.SETTINGS, 0, 0, sizes) + http2.window_update(0, 1) * 50
        yield http2.window_update(stream_id, 1) * 100


HTTP: dict[str, Callable[[], asyncio.Protocol]] = {
    "body of a length": lambda: HostileHttp(
        _endless(bytes(_BLOCK_BYTES), _OK + b"content-length: 99999999999\r\n\r\n")
    ),
    "body until the connection ends": lambda: HostileHttp(_endless(bytes(_BLOCK_BYTES), _OK + b"\r\n")),
    "body in chunks": lambda: HostileHttp(
        _endless(b"1\r\nx\r\n", _OK + b"transfer-encoding: chunked\r\n\r\n")
    ),
    "headers": lambda: HostileHttp(_endless(b"x-more: yes\r\n", _OK)),
    "one header": lambda: HostileHttp(_endless(b"y" * _BLOCK_BYTES, _OK + b"x-long: ")),
    "announcements": lambda: HostileHttp(_endless(b"HTTP/1.1 100 Continue\r\n\r\n")),
    "trailers": lambda: HostileHttp(
        _endless(b"x-more: yes\r\n", _OK + b"transfer-encoding: chunked\r\n\r\n0\r\n")
    ),
    "body a byte at a time": lambda: HostileHttp(
        _drip(_OK + b"content-length: 100\r\n\r\n", b"x"), pause_s=0.05
    ),
    "status of another protocol": lambda: HostileHttp(
        lambda _: iter([b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"])
    ),
}


def _drip(first: bytes, piece: bytes) -> Pieces:
    def pieces(_: int) -> Iterator[bytes]:
        yield first
        yield from repeat(piece)

    return pieces


GRPC: dict[str, Callable[[], asyncio.Protocol]] = {
    "DATA": lambda: HostileGrpc(_stream(lambda s: http2.frame(http2.DATA, 0, s, bytes(16384)), _head)),
    "DATA with nothing in it": lambda: HostileGrpc(_stream(lambda s: http2.frame(http2.DATA, 0, s), _head)),
    "HEADERS": lambda: HostileGrpc(
        _stream(lambda s: http2.frame(http2.HEADERS, 4, s, _HEAD + http2.literal("x-more", "y" * 8000)))
    ),
    "CONTINUATION": lambda: HostileGrpc(
        _stream(
            lambda s: http2.frame(http2.CONTINUATION, 0, s, http2.literal("x-more", "y" * 8000)),
            lambda s: http2.frame(http2.HEADERS, 0, s, _HEAD),
        )
    ),
    "CONTINUATION with nothing in it": lambda: HostileGrpc(
        _stream(
            lambda s: http2.frame(http2.CONTINUATION, 0, s),
            lambda s: http2.frame(http2.HEADERS, 0, s, _HEAD),
        )
    ),
    "metadata a header at a time": lambda: HostileGrpc(
        lambda s: iter(
            http2.frame(http2.HEADERS if n == 0 else http2.CONTINUATION, 0, s, http2.literal("x-more", "y"))
            for n in range(10_000)
        ),
        pause_s=0.02,
    ),
    "PING": lambda: HostileGrpc(_stream(lambda s: http2.frame(http2.PING, 0, 0, bytes(8)))),
    "PING, answers are not read": lambda: HostileGrpc(
        _stream(lambda s: http2.frame(http2.PING, 0, 0, bytes(8))), deaf=True
    ),
    "SETTINGS": lambda: HostileGrpc(_stream(lambda s: http2.settings({4: 65535}))),
    "SETTINGS, answers are not read": lambda: HostileGrpc(
        _stream(lambda s: http2.settings({4: 65535})), deaf=True
    ),
    "windows": lambda: HostileGrpc(_windows),
    "frames of one byte": lambda: HostileGrpc(_stream(lambda s: http2.settings({5: 1}))),
    "grpc-status of 5,000 digits": lambda: HostileGrpc(_status_of_digits),
}
