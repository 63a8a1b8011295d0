"""The gRPC client against servers that do all that HTTP/2 allows, and some that they may not."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.clients import http2
from inferbench_tasks.clients.answers import AnswerCheck, ExpectedOutput
from inferbench_tasks.clients.base import Call, ClientSettings, Payload, Sink
from inferbench_tasks.clients.grpc import GrpcClient
from inferbench_tasks.clients.grpc_message import frame
from inferbench_tasks.clients.kserve_grpc import decode_answer, encode_request
from inferbench_tasks.loadgen.null_server import answer_message
from tests.load_servers import ANSWER_BYTES, FaultyGrpc, endpoint, go_away, grpc_error, serving

Fault = Callable[[int, int], list[bytes] | None]


class Waiting(Sink):
    """Sends again what found no room, as the sender does; keeps how each call ended."""

    def __init__(self) -> None:
        self.client: GrpcClient
        self.waiting: list[Call] = []
        self.ended: dict[int, str] = {}
        self.words: dict[str, str] = {}
        self.most = 0
        self.in_flight = 0
        self.again_count = 0

    def submit(self, call: Call) -> None:
        self.waiting.append(call)
        self.ready()

    def finish(self, call: Call, status: str, done_ns: int) -> None:
        assert call.request_id not in self.ended
        self.ended[call.request_id] = status
        self.in_flight -= 1
        self.ready()

    def ready(self) -> None:
        while self.waiting and self.client.send(self.waiting[0]):
            self.waiting.pop(0)
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
        if self.waiting:
            self.client.want(len(self.waiting))

    def again(self, call: Call) -> None:
        self.again_count += 1
        self.in_flight -= 1
        self.waiting.insert(0, call)
        self.ready()

    def unreachable(self, reason: str) -> None:
        waiting, self.waiting = self.waiting, []
        self.ended.update({call.request_id: "connection" for call in waiting})

    def explain(self, status: str, text: str) -> None:
        self.words.setdefault(status, text)


def exchange(
    make: Callable[[], asyncio.Protocol], count: int = 20, size: int = 16, connections: int = 1
) -> tuple[Waiting, AnswerCheck]:
    """Send requests with a tensor of ``size`` bytes to a server and wait until each has ended."""
    sink = Waiting()
    check = AnswerCheck(decode_answer, {"output": ExpectedOutput((ANSWER_BYTES // 4,))})

    async def run(port: int) -> None:
        where = endpoint("grpc", port)
        wire = encode_request(where, {"input": np.zeros((1, size // 4), np.float32)})
        loop = asyncio.get_running_loop()
        sink.client = GrpcClient(ClientSettings(where, connections), loop, sink, check)
        await sink.client.open(connections)
        try:
            for number in range(count):
                sink.submit(Call(number, 0, Payload(wire, 0, 1)))
            async with asyncio.timeout(20):
                while len(sink.ended) < count:
                    await asyncio.sleep(0.005)
        finally:
            await sink.client.close()

    with serving(make) as server:
        asyncio.run(run(server.port))
    return sink, check


def statuses(sink: Waiting) -> set[str]:
    """The kinds of end."""
    return set(sink.ended.values())


def good(stream_id: int, *, padded: bool = False, split: bool = False) -> list[bytes]:
    """A good answer in an unusual form."""
    head = b"\x88" + http2.literal("content-type", "application/grpc")
    trailers = http2.literal("grpc-status", "0") + http2.literal("x-long", "y" * 300)
    message = frame(answer_message("grpc", ANSWER_BYTES))
    half = len(message) // 2
    parts = [message[:half], message[half:]]
    flags = http2.PADDED if padded else 0
    data = [
        http2.frame(http2.DATA, flags, stream_id, (b"\x07" + p + bytes(7)) if padded else p) for p in parts
    ]
    end = http2.END_HEADERS | http2.END_STREAM
    closing = [http2.frame(http2.HEADERS, end, stream_id, trailers)]
    if split:
        closing = [
            http2.frame(http2.HEADERS, http2.END_STREAM, stream_id, trailers[:9]),
            http2.frame(http2.CONTINUATION, 0, stream_id, trailers[9:40]),
            http2.frame(http2.CONTINUATION, http2.END_HEADERS, stream_id, trailers[40:]),
        ]
    return [http2.frame(http2.HEADERS, http2.END_HEADERS, stream_id, head), *data, *closing]


@pytest.mark.parametrize(
    "fault",
    [
        lambda n, s: None,
        lambda n, s: good(s),
        lambda n, s: good(s, padded=True),
        lambda n, s: good(s, split=True),
        lambda n, s: [http2.frame(http2.PING, 0, 0, bytes(8)), http2.frame(0xFA, 3, 0, b"?"), *good(s)],
        lambda n, s: [http2.settings({http2.SETTINGS_INITIAL_WINDOW_SIZE: 1000 + n}), *good(s)],
    ],
    ids=["plain", "pieces", "padding", "continuation", "ping and unknown frame", "settings under way"],
)
def test_every_form_of_a_good_answer_is_a_good_answer(fault: Fault) -> None:
    """Pieces, padding, continued trailers, PING, unknown frames, SETTINGS at any time."""
    sink, _ = exchange(lambda: FaultyGrpc(fault))
    assert statuses(sink) == {"ok"}, sink.words


def test_max_concurrent_streams_is_never_exceeded() -> None:
    """The server allows three: a fourth waits for room on the same connection."""
    sink, _ = exchange(lambda: FaultyGrpc(settings={http2.SETTINGS_MAX_CONCURRENT_STREAMS: 3}), count=50)
    assert statuses(sink) == {"ok"}
    assert sink.most == 3


def test_a_large_request_waits_for_the_windows() -> None:
    """One MB through windows of 64 KB: sent in parts as the server gives way, and answered."""

    class Narrow(FaultyGrpc):
        """Gives way to streams too, by what came."""

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            for stream_id in range(1, 12, 2):
                self._transport.write(http2.window_update(stream_id, 4096))

    sink, _ = exchange(lambda: Narrow(settings={http2.SETTINGS_MAX_FRAME_SIZE: 16_384}), count=4, size=2**20)
    assert statuses(sink) == {"ok"}, sink.words


def test_a_large_answer_is_read_whole() -> None:
    """Four MB in frames of 16 KB; its shape is not the expected one, which is noticed."""
    sink, check = exchange(lambda: FaultyGrpc(answer_bytes=4 * 2**20), count=2)
    assert statuses(sink) == {"bad_response"}
    assert "[1, 1048576]" in sink.words["bad_response"]
    assert check.decoded == 2


def test_an_error_in_trailers_alone_is_that_error() -> None:
    """grpc-status 8 without data: its name, and the message, percent-decoded."""
    sink, _ = exchange(lambda: FaultyGrpc(lambda n, s: grpc_error(s, 8, "queue%20full")))
    assert statuses(sink) == {"grpc_resource_exhausted"}
    assert sink.words == {"grpc_resource_exhausted": "queue full"}


@pytest.mark.parametrize(
    ("code", "status"),
    [(2, "grpc_internal"), (http2.CANCEL, "grpc_cancelled"), (http2.ENHANCE_YOUR_CALM, "grpc_resource_exhausted")],
)  # fmt: skip
def test_a_reset_stream_ends_that_request_only(code: int, status: str) -> None:
    """RST_STREAM for every third: the others are answered on the same connection."""
    sink, _ = exchange(
        lambda: FaultyGrpc(lambda n, s: [http2.rst_stream(s, code)] if n % 3 == 0 else None), count=30
    )
    assert list(sink.ended.values()).count(status) == 10
    assert statuses(sink) == {"ok", status}


def test_refused_streams_are_sent_once_more() -> None:
    """REFUSED_STREAM promises that the request was not looked at: it is no error."""
    sink, _ = exchange(
        lambda: FaultyGrpc(lambda n, s: [http2.rst_stream(s, http2.REFUSED_STREAM)] if n < 5 else None)
    )
    assert statuses(sink) == {"ok"}
    assert sink.again_count == 5


def test_goaway_loses_nothing() -> None:
    """After GOAWAY what was promised is answered, the rest goes over a new connection."""

    def fault(number: int, stream_id: int) -> list[bytes] | None:
        if number != 4:
            return None
        return [*good(stream_id), go_away(stream_id)]

    class Leaving(FaultyGrpc):
        """Answers nothing beyond the stream that it named last."""

        gone = False

        def _answer(self, stream_id: int, out: list[bytes]) -> None:
            if not self.gone:
                super()._answer(stream_id, out)
            self.gone = self.gone or self._count == 5

    sink, _ = exchange(lambda: Leaving(fault), count=12)
    assert statuses(sink) == {"ok"}, sink.words
    assert sink.again_count > 0


@pytest.mark.parametrize(
    ("frames", "status"),
    [
        (lambda s: [http2.frame(http2.DATA, http2.END_STREAM, s, frame(b""))], "grpc_unknown"),
        (lambda s: [http2.frame(http2.HEADERS, 5, s, b"\x88")], "grpc_unknown"),
        (lambda s: [http2.frame(http2.HEADERS, 5, s, b"\x08\x03502")], "http_5xx"),
        (lambda s: [http2.frame(http2.HEADERS, 5, s, http2.literal("grpc-status", "0"))], "bad_response"),
        (lambda s: [http2.frame(http2.HEADERS, 5, s, b"\xff\xff\xff")], "bad_response"),
        (lambda s: [http2.frame(http2.PUSH_PROMISE, 4, s, bytes(4))], "bad_response"),
        (lambda s: [http2.frame(http2.DATA, 0, s, bytes(20_000))], "bad_response"),
        (lambda s: [http2.frame(http2.WINDOW_UPDATE, 0, 0, struct.pack(">L", 0))], "bad_response"),
    ],
    ids=["no trailers", "no status", "HTTP 502", "no message", "no headers", "push", "frame too large", "no growth"],
)  # fmt: skip
def test_a_broken_answer_is_an_error_of_its_kind(frames: Callable[[int], list[bytes]], status: str) -> None:
    """None hangs, none is taken for a good answer."""
    sink, _ = exchange(lambda: FaultyGrpc(lambda n, s: frames(s)), count=1)
    assert statuses(sink) == {status}, sink.words


def test_a_lost_connection_is_replaced() -> None:
    """The server cuts the connection at every seventh request: those in flight are resets, the rest good."""

    class Cutting(FaultyGrpc):
        def _answer(self, stream_id: int, out: list[Any]) -> None:
            if stream_id == 13:
                self._transport.abort()
            else:
                super()._answer(stream_id, out)

    sink, _ = exchange(
        lambda: Cutting(settings={http2.SETTINGS_MAX_CONCURRENT_STREAMS: 1}), count=30, connections=2
    )
    assert statuses(sink) == {"ok", "reset"}
    assert list(sink.ended.values()).count("ok") >= 24
