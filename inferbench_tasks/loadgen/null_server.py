"""A server that does nothing but answer, as cheaply as it can: what is measured against it is the client.

``python -m inferbench_tasks.loadgen.null_server PROTOCOL ANSWER_BYTES`` prints its port and serves until its
standard input is closed.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import orjson

from inferbench_tasks.clients import http2
from inferbench_tasks.clients.grpc_message import frame
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import LoadError

_OUTPUT = "output"
#: Of an event with one token, as servers write it.
EVENT_BYTES = 256
_START_TIMEOUT_S = 20.0


class NullHttp(asyncio.Protocol):
    """HTTP/1.1: counts bytes until a request is complete, and answers the same each time."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._head = b""
        self._missing = 0
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        while data:
            if self._missing:
                skipped = min(self._missing, len(data))
                self._missing -= skipped
                data = data[skipped:]
            else:
                data = self._head + data
                at = data.find(b"\r\n\r\n")
                if at < 0:
                    self._head = data
                    return
                head, self._head = data[:at].lower(), b""
                start = head.find(b"content-length:")
                size = int(head[start + 15 :].split(b"\r\n", 1)[0]) if start >= 0 else 0
                body = data[at + 4 :]
                self._missing = max(0, size - len(body))
                data = body[size:]
            if not self._missing:
                self._transport.write(self._answer)


class NullStream(NullHttp):
    """Streams of tokens: each event is written by itself, as fast as the reader takes them."""

    def __init__(self, answer: bytes) -> None:
        super().__init__(answer)
        head, _, body = answer.partition(b"\r\n\r\n")
        events = body.split(b"\n\n")[:-1]
        self._pieces = [head + b"\r\n\r\n", *(event + b"\n\n" for event in events)]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._out: Any = transport
        self._transport = self  # what would be written as a whole comes here

    def write(self, _: bytes) -> None:
        """Write the next piece, and the one after it at the loop's next turn."""
        self._next(0)

    def _next(self, index: int) -> None:
        if self._out.is_closing():
            return
        self._out.write(self._pieces[index])
        if index + 1 < len(self._pieces):
            asyncio.get_running_loop().call_soon(self._next, index + 1)


class NullGrpc(asyncio.Protocol):
    """gRPC: answers at the end of each stream, whatever it was asked."""

    def __init__(self, message: bytes) -> None:
        self._message = frame(message)
        self._rest = b""
        self._preface = len(http2.PREFACE)
        self._unread = 0
        self._head = b"\x88" + http2.literal("content-type", "application/grpc")
        self._trailers = http2.literal("grpc-status", "0")
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.write(
            http2.settings(
                {
                    http2.SETTINGS_INITIAL_WINDOW_SIZE: http2.MAX_WINDOW,
                    http2.SETTINGS_MAX_CONCURRENT_STREAMS: 100_000,
                    http2.SETTINGS_MAX_FRAME_SIZE: 2**20,
                }
            )
            + http2.window_update(0, http2.MAX_WINDOW - http2.DEFAULT_WINDOW)
        )

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        at, end = 0, len(data)
        if self._preface:
            if end < self._preface:
                self._rest = data
                return
            at, self._preface = self._preface, 0
        out: list[bytes] = []
        while end - at >= http2.HEAD_BYTES:
            high, low, kind, flags, stream_id = http2.HEAD.unpack_from(data, at)
            stop = at + http2.HEAD_BYTES + (high << 16 | low)
            if stop > end:
                break
            if kind == http2.DATA:
                self._unread += stop - at - http2.HEAD_BYTES
                if self._unread > 2**29:
                    out.append(http2.window_update(0, self._unread))
                    self._unread = 0
                if flags & http2.END_STREAM:
                    self._answer(stream_id, out)
            elif kind == http2.SETTINGS and not flags & http2.ACK:
                out.append(http2.frame(http2.SETTINGS, http2.ACK, 0))
            elif kind == http2.PING and not flags & http2.ACK:
                out.append(http2.frame(http2.PING, http2.ACK, 0, data[at + http2.HEAD_BYTES : stop]))
            at = stop
        self._rest = data[at:]
        if out:
            self._transport.write(b"".join(out))

    def _answer(self, stream_id: int, out: list[bytes]) -> None:
        out.append(http2.frame(http2.HEADERS, http2.END_HEADERS, stream_id, self._head))
        message, size = self._message, http2.DEFAULT_MAX_FRAME
        out.extend(
            http2.frame(http2.DATA, 0, stream_id, message[start : start + size])
            for start in range(0, len(message), size)
        )
        end = http2.END_HEADERS | http2.END_STREAM
        out.append(http2.frame(http2.HEADERS, end, stream_id, self._trailers))


def answer_message(protocol: str, answer_bytes: int) -> bytes:
    """A true answer of the protocol with one output of about so many bytes."""
    if protocol == "openai":
        return stream_answer(max(1, answer_bytes // EVENT_BYTES))
    values = np.zeros(max(1, answer_bytes // 4), np.float32)
    if protocol == "grpc":
        from inferbench_tasks.protocols.kserve_proto import message

        answer = message("ModelInferResponse")(model_name="null")
        answer.outputs.add(name=_OUTPUT, datatype="FP32", shape=[1, len(values)])
        answer.raw_output_contents.append(values.tobytes())
        return bytes(answer.SerializeToString())
    if protocol == "grpc_tfs":
        from inferbench_tasks.protocols.tfs_proto import fill, message

        answer = message("PredictResponse")()
        fill(answer.outputs[_OUTPUT], values.reshape(1, -1))
        return bytes(answer.SerializeToString())
    raw = values.tobytes()
    output = {
        "name": _OUTPUT, "datatype": "FP32", "shape": [1, len(values)],
        "parameters": {"binary_data_size": len(raw)},
    }  # fmt: skip
    head = orjson.dumps({"model_name": "null", "model_version": "1", "outputs": [output]})
    lines = [
        "HTTP/1.1 200 OK",
        "Content-Type: application/octet-stream",
        f"Inference-Header-Content-Length: {len(head)}",
        f"Content-Length: {len(head) + len(raw)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + head + raw


def stream_answer(tokens: int) -> bytes:
    """A true stream with so many token chunks, of the size that servers write."""
    padding = "chatcmpl-" + "0" * 100

    def event(delta: dict[str, str], finish: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        document = {"id": padding, "object": "chat.completion.chunk", "model": "null", "choices": [choice]}
        return b"data: " + orjson.dumps(document) + b"\n\n"

    usage = {"prompt_tokens": 1, "completion_tokens": tokens, "total_tokens": tokens + 1}
    told = b"data: " + orjson.dumps({"id": padding, "choices": [], "usage": usage}) + b"\n\n"
    body = event({"content": "null"}, None) * tokens + event({}, "length") + told + b"data: [DONE]\n\n"
    lines = ["HTTP/1.1 200 OK", "Content-Type: text/event-stream", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def _serve(protocol: str, answer_bytes: int) -> None:
    loop = asyncio.get_running_loop()
    answer = answer_message(protocol, answer_bytes)
    kinds: dict[str, Callable[[bytes], asyncio.Protocol]] = {"http": NullHttp, "openai": NullStream}
    kind = kinds.get(protocol, NullGrpc)

    def make() -> asyncio.Protocol:
        return kind(answer)

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    server = await loop.create_server(make, sock=listener, backlog=4096)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


@contextmanager
def null_server(protocol: str, answer_bytes: int = 64) -> Iterator[Endpoint]:
    """A null server in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "inferbench_tasks.loadgen.null_server", protocol, str(answer_bytes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line.strip().isdigit():
            raise LoadError("The null server did not start")
        yield Endpoint(
            protocol=protocol,
            host="127.0.0.1",
            port=int(line),
            model_name="null",
        )
    finally:
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(_START_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(sys.argv[1], int(sys.argv[2])))
