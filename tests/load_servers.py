"""Small real servers with faults, for the tests of clients and loads; each on a port of its own."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.clients import http2
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.loadgen.null_server import NullGrpc, NullHttp, answer_message
from inferbench_tasks.loadgen.outcome import Outcome, apply_load
from inferbench_tasks.loadgen.plan import LoadPlan, OutputShape
from inferbench_tasks.loadgen.prepare import prepare
from inferbench_tasks.submission.schema import LoadSpec

Make = Callable[[], asyncio.Protocol]
ANSWER_BYTES = 16


class Running:
    """A server in a thread; it can be stopped and started again on its port."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server: asyncio.Server | None = None
        self.connections: list[asyncio.BaseTransport] = []
        self.port = 0
        self.start()

    def start(self) -> None:
        """Listen."""
        outer = self

        def make() -> asyncio.Protocol:
            protocol: Any = outer._make()
            made: Callable[[asyncio.BaseTransport], None] = protocol.connection_made

            def connection_made(transport: asyncio.BaseTransport) -> None:
                outer.connections.append(transport)
                made(transport)

            protocol.connection_made = connection_made
            return protocol  # type: ignore[no-any-return]

        async def listen() -> None:
            self._server = await self._loop.create_server(make, "127.0.0.1", self.port, reuse_address=True)
            self.port = self._server.sockets[0].getsockname()[1]

        asyncio.run_coroutine_threadsafe(listen(), self._loop).result(10)

    def stop(self) -> None:
        """Die: nobody listens, every connection is reset."""

        async def close() -> None:
            assert self._server is not None
            self._server.close()
            for _ in range(
                10
            ):  # what was aborted is closed at the loop's next turns, what was accepted comes in them
                for transport in self.connections:
                    # One that closed after its last byte was sent has no loop any more, and its abort() needs one.
                    if isinstance(transport, asyncio.Transport) and getattr(transport, "_loop", None):
                        transport.abort()
                self.connections.clear()
                await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(10)

    def close(self) -> None:
        """End the thread too."""
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@contextmanager
def serving(make: Make) -> Iterator[Running]:
    """A server for the length of a ``with``."""
    server = Running(make)
    try:
        yield server
    finally:
        server.close()


def endpoint(protocol: str, port: int, model: str = "null") -> Endpoint:
    """An endpoint on this machine."""
    fields = {"protocol": protocol, "host": "127.0.0.1", "port": port, "model_name": model}
    return Endpoint.model_validate(fields)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def load_plan(folder: Path, where: Endpoint, **options: Any) -> LoadPlan:
    """A plan for a small load; ``expected``, ``max_backlog`` and ``target_latency_ms`` are not of ``LoadSpec``."""
    inputs = folder / "inputs.npz"
    np.savez(inputs, input=np.arange(64, dtype=np.float32).reshape(16, 4))
    expected = options.pop("expected", None)
    backlog = options.pop("max_backlog", None)
    bound_ms = options.pop("target_latency_ms", None)
    fields = {"duration_s": 0.6, "warmup_s": 0.1, "timeout_ms": 1000.0, **options}
    spec = LoadSpec.model_validate(fields)
    return prepare(
        spec,
        folder=folder / "load",
        endpoint=where,
        inputs_path=str(inputs),
        base_dir=folder,
        expected={"output": OutputShape(shape=expected)} if expected else None,
        max_backlog=backlog,
        target_latency_ms=bound_ms,
    )


def run_load(folder: Path, where: Endpoint, **options: Any) -> tuple[LoadPlan, Outcome]:
    """Apply a small load."""
    plan = load_plan(folder, where, **options)
    return plan, apply_load(plan, folder / "samples.parquet")


class FaultyHttp(NullHttp):
    """Answers every request as ``script(number)`` says: bytes to write, None to hang, "reset" to reset.

    A list is written piece by piece with pauses in between.
    """

    def __init__(self, script: Callable[[int], bytes | list[bytes] | str | None]) -> None:
        super().__init__(b"-")
        self._script = script
        self._count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = _Tap(transport, self._answer_one)

    def _answer_one(self, transport: Any) -> None:
        answer = self._script(self._count)
        self._count += 1
        if isinstance(answer, bytes):
            transport.write(answer)
        elif isinstance(answer, list):
            loop = asyncio.get_running_loop()
            for index, piece in enumerate(answer):
                loop.call_later(0.002 * index, transport.write, piece)
        elif answer == "reset":
            transport.abort()


class _Tap:
    """Stands for the transport of a null server: each answer that it writes becomes a scripted one."""

    def __init__(self, transport: asyncio.BaseTransport, answered: Callable[[Any], None]) -> None:
        self._transport = transport
        self._answered = answered

    def write(self, data: bytes) -> None:
        """The null server answers."""
        self._answered(self._transport)


def http_answer(status: str = "200 OK", body: bytes | None = None, *headers: str) -> bytes:
    """An HTTP answer; by default a good one."""
    if body is None and status.startswith("200"):
        good = answer_message("http", ANSWER_BYTES)
        if not headers:
            return good
        head, _, body = good.partition(b"\r\n\r\n")
        return "\r\n".join([head.decode(), *headers, "", ""]).encode() + body
    body = body or b""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunked_answer() -> list[bytes]:
    """A good answer in chunks, piece by piece."""
    head, _, body = answer_message("http", ANSWER_BYTES).partition(b"\r\n\r\n")
    lines = [line for line in head.decode().split("\r\n") if not line.lower().startswith("content-length")]
    start = "\r\n".join([*lines, "Transfer-Encoding: chunked", "", ""]).encode()
    half = len(body) // 2
    chunks = [b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:half], body[half:])]
    return [start, *chunks, b"0\r\n\r\n"]


class FaultyGrpc(NullGrpc):
    """A gRPC server that does what HTTP/2 allows, or not.

    ``settings``: further SETTINGS. ``fault(number, stream_id)``: the frames to answer with, None for a good
    answer. ``window``: what a client may send before it gets a WINDOW_UPDATE, which comes as it is used up.
    """

    def __init__(
        self,
        fault: Callable[[int, int], list[bytes] | None] = lambda number, stream_id: None,
        settings: dict[int, int] | None = None,
        answer_bytes: int = ANSWER_BYTES,
    ) -> None:
        super().__init__(answer_message("grpc", answer_bytes))
        self._fault = fault
        self._settings = settings or {}
        self._count = 0
        self.open_streams = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not self._settings:
            super().connection_made(transport)
            return
        self._transport = transport
        self._transport.write(http2.settings(self._settings))

    def data_received(self, data: bytes) -> None:
        before = len(data)
        super().data_received(data)
        if self._settings and self._transport is not None:
            # As an application that reads everything at once: all that came may come again.
            self._transport.write(http2.window_update(0, before))

    def _answer(self, stream_id: int, out: list[bytes]) -> None:
        frames = self._fault(self._count, stream_id)
        self._count += 1
        if frames is None:
            super()._answer(stream_id, out)
        else:
            out.extend(frames)


def grpc_error(stream_id: int, code: int, message: str) -> list[bytes]:
    """Trailers only."""
    block = (
        b"\x88"
        + http2.literal("content-type", "application/grpc")
        + http2.literal("grpc-status", str(code))
        + http2.literal("grpc-message", message)
    )
    return [http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, stream_id, block)]


def go_away(last_stream_id: int, code: int = 0) -> bytes:
    """A GOAWAY frame."""
    return http2.frame(http2.GOAWAY, 0, 0, struct.pack(">LL", last_stream_id, code))
