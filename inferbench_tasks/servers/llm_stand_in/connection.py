"""One connection of the stand-in: reads requests, writes their pieces when they are due, and logs what it did."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import dataclass, field
from typing import IO, Any

import httptools
import orjson

from inferbench_tasks.servers.llm_stand_in.answer import (
    NO_MODEL,
    TIMINGS,
    Asked,
    Piece,
    pieces_of,
    whole_answer,
)
from inferbench_tasks.servers.llm_stand_in.course import Course
from inferbench_tasks.servers.llm_stand_in.pace import MODEL, Pace, pace_of

_MOST_BYTES = 16 << 20
_ENDLESS = b"data: " + b'{"choices": []}' + b"\n\n"


@dataclass
class Server:
    """What all connections share. ``slots``: requests served at once, in the order in which they came; None: all."""

    pace: Pace
    slots: asyncio.Semaphore | None = None
    key: str | None = None
    log: IO[bytes] | None = None
    course: Course = field(default_factory=lambda: Course(None, 0))
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def write_log(self, entry: dict[str, Any]) -> None:
        """One line of JSON for each request, once it is over."""
        if self.log is not None:
            self.log.write(orjson.dumps({"server": NO_MODEL, **entry}) + b"\n")
            self.log.flush()


class Connection(asyncio.Protocol):
    """HTTP/1.1, kept alive; one request at a time."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._parser = httptools.HttpRequestParser(self)
        self._transport: Any = None
        self._url, self._body, self._headers = b"", bytearray(), dict[bytes, bytes]()
        self._received_ns = 0
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        # asyncio does so only where the listener names TCP. Without, a chunk waits for the last one's ACK, up to 40 ms.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, error: Exception | None) -> None:
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        self._received_ns = time.monotonic_ns()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def on_message_begin(self) -> None:
        self._url, self._body, self._headers = b"", bytearray(), {}

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self._body += body
        if len(self._body) > _MOST_BYTES:
            self._transport.abort()

    def on_message_complete(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._answer())
        self._server.tasks.add(self._task)
        self._task.add_done_callback(self._server.tasks.discard)

    async def _answer(self) -> None:
        key = self._server.key
        sent = self._headers.get(b"authorization", b"").removeprefix(b"Bearer ").decode(errors="replace")
        path = self._url.partition(b"?")[0]
        if self._server.course.loading(self._received_ns):
            self._refuse_while_loading()
        elif path == b"/health":
            self._json(200, {"status": "ok", "server": NO_MODEL})
        elif key is not None and sent != key:
            self._error(401, f"Incorrect API key provided: {sent}. {NO_MODEL}")
        elif path == b"/v1/models":
            self._json(
                200, {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": NO_MODEL}]}
            )
        elif path in (b"/v1/chat/completions", b"/v1/completions"):
            await self._complete(chat=path.endswith(b"chat/completions"))
        else:
            self._error(404, f"there is no {path.decode(errors='replace')[:80]}")

    def _refuse_while_loading(self) -> None:
        self._error(503, f"Loading model. {NO_MODEL}")
        if self._url.partition(b"?")[0].endswith(b"/completions"):
            ended_ns = time.monotonic_ns()
            entry = {"received_ns": self._received_ns, "ended_ns": ended_ns, "fault": "loading", "chunks": []}
            self._server.write_log(entry)

    async def _complete(self, *, chat: bool) -> None:
        try:
            asked = read_request(bytes(self._body), chat=chat)
            pace = pace_of(asked.model, self._server.pace)
        except (ValueError, TypeError) as error:
            self._error(400, f"the stand-in can't do that: {error}")
            return
        if pace is None:
            self._error(404, f"there is no model {asked.model[:80]!r}; this is {MODEL}: {NO_MODEL}")
            return
        pace = self._server.course.next_pace(pace)
        entry: dict[str, Any] = {
            "received_ns": self._received_ns, "model": asked.model, "prompt_tokens": asked.prompt_tokens,
            "output_tokens": asked.output_tokens, "fault": pace.fault, "stall_ms": pace.stall_ms, "chunks": [],
        }  # fmt: skip
        try:
            if self._server.slots is None:
                await self._serve(asked, pace, entry)
            else:
                async with self._server.slots:
                    await self._serve(asked, pace, entry)
        finally:
            entry["ended_ns"] = time.monotonic_ns()
            self._server.write_log(entry)
        self._server.course.answered(time.monotonic_ns())

    async def _serve(self, asked: Asked, pace: Pace, entry: dict[str, Any]) -> None:
        began_ns = entry["began_ns"] = time.monotonic_ns()
        fault = pace.fault
        if fault.startswith("http_"):
            await until(began_ns + int(pace.ttft_ms * 1e6))
            self._error(int(fault.removeprefix("http_")), f"the stand-in was told so. {NO_MODEL}")
            return
        if fault == "silent":
            await asyncio.Event().wait()
        if not asked.stream or fault == "plain":
            await until(began_ns + int(pace.ttft_ms * 1e6))
            self._json(200, orjson.loads(whole_answer(asked)))
            return
        framing = "Transfer-Encoding: chunked" if pace.chunked else "Connection: close"
        self._write(f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{framing}\r\n\r\n".encode())
        for piece in pieces_of(asked, pace):
            await until(began_ns + int(piece.due_ms * 1e6))
            await self._send(piece, pace, entry)
        if fault == "endless":
            while True:
                if self._transport.get_write_buffer_size() < 1 << 20:
                    self._write(_framed(_ENDLESS * 2000, pace))
                await asyncio.sleep(0.001)
        if fault == "cut":
            self._transport.abort()
        elif pace.chunked:
            self._write(b"0\r\n\r\n")
        if not (pace.chunked and pace.keep):
            self._transport.close()

    async def _send(self, piece: Piece, pace: Pace, entry: dict[str, Any]) -> None:
        """``chunks`` of the log: [moment right before the last write, tokens] of each piece with tokens."""
        data = piece.data
        if TIMINGS in data:
            entry["timings"] = own_times(entry, pace)
            data = data.replace(TIMINGS, b'"timings":' + orjson.dumps(entry["timings"]))
        data = _framed(data, pace)
        at = 0
        if pace.split:
            while len(data) - at > pace.split:
                self._write(data[at : at + pace.split])
                at += pace.split
                await asyncio.sleep(0)
        now_ns = time.monotonic_ns()
        self._write(data[at:])
        if piece.tokens:
            entry["chunks"].append([now_ns, piece.tokens])

    def _write(self, data: bytes) -> None:
        if self._transport.is_closing():
            raise asyncio.CancelledError
        self._transport.write(data)

    def _error(self, code: int, text: str) -> None:
        self._json(code, {"error": {"message": text, "type": "stand_in", "code": code}})

    def _json(self, code: int, document: dict[str, Any]) -> None:
        body = orjson.dumps(document)
        head = f"HTTP/1.1 {code} OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._write(head.encode() + body)


def own_times(entry: dict[str, Any], pace: Pace) -> dict[str, Any]:
    """The server's word on a request whose tokens are all written, as llama.cpp has it; from its own log.

    Faults that hold chunks back stand for something behind the model, which made them when they were due.
    ``first_n``: the tokens with which the clock of ``predicted_ms`` began; llama.cpp's is 1.
    """
    began_ns, chunks = entry["began_ns"], entry["chunks"]
    if pace.fault in ("buffered", "burst"):
        gap_ns = int(pace.gap_ms * 1e6)
        first_ns = began_ns + int(pace.ttft_ms * 1e6)
        sizes = pace.chunks(entry["output_tokens"])
        chunks = [[first_ns + number * gap_ns, size] for number, size in enumerate(sizes)]
    cached = min(pace.cached_tokens or 0, entry["prompt_tokens"])
    times = {
        "queue_ms": (began_ns - entry["received_ns"]) / 1e6,
        "cache_n": cached,
        "prompt_n": entry["prompt_tokens"] - cached,
    }
    if not chunks:
        return times
    return {
        **times,
        "prompt_ms": (chunks[0][0] - began_ns) / 1e6,
        "predicted_n": sum(size for _, size in chunks),
        "first_n": chunks[0][1],
        "predicted_ms": (chunks[-1][0] - chunks[0][0]) / 1e6,
    }


def read_request(body: bytes, *, chat: bool) -> Asked:
    """What is asked for; a word counts as a token of the prompt. ValueError says what is wrong."""
    document = orjson.loads(body)
    if not isinstance(document, dict):
        raise ValueError("the body is no object")
    messages = document.get("messages") or []
    texts: list[Any] = (
        [_text(message["content"]) for message in messages] if chat else [document.get("prompt")]
    )
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError("it has no text")
    tokens = document.get("max_completion_tokens", document.get("max_tokens", 16))
    if not isinstance(tokens, int) or not 1 <= tokens <= 1_000_000:
        raise ValueError("max_tokens must be from 1 to 1,000,000")
    options = document.get("stream_options") or {}
    return Asked(
        chat=chat,
        model=str(document.get("model", "")),
        prompt_tokens=sum(len(text.split()) for text in texts),
        output_tokens=tokens,
        stream=document.get("stream") is True,
        usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


def _text(content: Any) -> Any:
    """Of a message: its text, or that of its parts."""
    return "".join(part["text"] for part in content) if isinstance(content, list) else content


def _framed(data: bytes, pace: Pace) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data) if pace.chunked else data


async def until(moment_ns: int) -> None:
    """Sleep; a loop's timers are up to a millisecond late, which the log tells."""
    while (left_ns := moment_ns - time.monotonic_ns()) > 0:
        await asyncio.sleep(left_ns / 1e9)
