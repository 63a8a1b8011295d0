"""HTTP/1.1 on bare asyncio protocols: a pool of kept-alive connections, one request on each at a time."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httptools

from inferbench_tasks.clients.base import BAD_RESPONSE, OK, RESET, Call
from inferbench_tasks.clients.pool import Pool
from inferbench_tasks.protocols.bounds import HEAD_BYTES, MAX_DIGITS, too_large
from inferbench_tasks.protocols.spans import HEADER_BYTES, NOT_TOLD

_PLACES = {header: place for place, header in enumerate(HEADER_BYTES)}


class HttpConnection(asyncio.Protocol):
    """One connection. The parser is told of the message's end only: every callback costs."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self._parser = httptools.HttpResponseParser(self)
        self._chunks: list[bytes] = []
        self._complete = False
        self._reuse = False
        #: Bytes of an answer that is not complete, as the client counts them, and whether its headers are.
        self._held = 0
        self._headed = False
        self.call: Call | None = None
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    async def established(self) -> None:
        """Nothing is to be awaited: a connection of HTTP/1.1 can be used at once."""

    def send(self, call: Call) -> None:
        """Send a request; the connection must be idle."""
        self.call = call
        call.connection = self
        call.sent_ns = time.monotonic_ns()
        self.transport.write(call.payload.wire)

    def data_received(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        call = self.call
        if call is None:
            self.transport.abort()  # an answer that nobody asked for: the rest can't be trusted either
            return
        if call.first_byte_ns < 0:
            call.first_byte_ns = now_ns
        call.bytes_received += len(data)
        self._chunks.append(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._refuse(call, f"not HTTP: {error}", now_ns)
            return
        if self._complete:
            self._complete = False
            self._answered(call, now_ns)
        else:
            self._hold(call, len(data), now_ns)

    def _hold(self, call: Call, size: int, now_ns: int) -> None:
        """Count a part of an answer that is not complete; one that is too large is given up."""
        client = self._client
        self._held += size
        client.held += size
        received = call.bytes_received
        if not self._headed and received > HEAD_BYTES:
            self._headed = b"\r\n\r\n" in b"".join(self._chunks)[: HEAD_BYTES + 4]
            if not self._headed:
                self._refuse(call, f"the headers have more than {HEAD_BYTES:,} bytes", now_ns)
                return
        if received > client.check.max_bytes:
            self._refuse(call, too_large(client.check.max_bytes), now_ns)
        elif client.held > client.check.held_bytes(client.settings.connections):
            self._refuse(call, f"all answers under way have {client.held:,} bytes", now_ns)

    def _release(self) -> None:
        self._client.held -= self._held
        self._held = 0
        self._headed = False

    def _refuse(self, call: Call, text: str, now_ns: int) -> None:
        self._client.explain(BAD_RESPONSE, text)
        self._end(call, BAD_RESPONSE, now_ns, reuse=False)

    def on_message_complete(self) -> None:
        """Called by the parser; 1xx answers are only an announcement."""
        self._complete = self._parser.get_status_code() >= 200
        self._reuse = self._parser.should_keep_alive()  # only true to the facts while in this call

    def _answered(self, call: Call, now_ns: int) -> None:
        chunks = self._chunks
        code = self._parser.get_status_code()
        status = OK
        if code != 200:
            status = f"http_{code // 100}xx"
            body = b"".join(chunks).partition(b"\r\n\r\n")[2]
            self._client.explain(status, f"HTTP {code}: {body[:300].decode(errors='replace')}")
        else:
            body_bytes = call.bytes_received - chunks[0].find(b"\r\n\r\n") - 4
            check = self._client.check
            batch_size = call.payload.batch_size
            if not check.known(batch_size, body_bytes) and (
                problem := check.problem(batch_size, body_bytes, b"".join(chunks))
            ):
                status = BAD_RESPONSE
                self._client.explain(status, problem)
        self._end(call, status, now_ns, reuse=self._reuse)

    def _end(self, call: Call, status: str, now_ns: int, *, reuse: bool) -> None:
        self.call = None
        call.connection = None
        self._chunks.clear()
        if self._held:
            self._release()
        client = self._client
        if reuse:
            client.free(self)
        else:
            client.lost(self)
            self.transport.abort()
        client.finish(call, status, now_ns)

    def connection_lost(self, error: Exception | None) -> None:
        self._client.lost(self)
        self._forget()
        call, self.call = self.call, None
        if call is not None:
            call.connection = None
            why = str(error) if error else "the server closed the connection before its answer was complete"
            self._client.explain(RESET, why)
            self._client.finish(call, RESET, time.monotonic_ns())

    def drop(self) -> None:
        """Close without a word to anybody."""
        self.call = None
        self._forget()
        self._client.lost(self)
        self.transport.abort()

    def _forget(self) -> None:
        self._chunks.clear()
        self._release()


class TellingConnection(HttpConnection):
    """Also reads the server's own times from the headers."""

    def __init__(self, client: HttpClient) -> None:
        super().__init__(client)
        self._spans = [*NOT_TOLD]

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser for each header."""
        index = _PLACES.get(name.lower())
        if index is not None and value.isdigit() and len(value) <= MAX_DIGITS:
            self._spans[index] = int(value)

    def _answered(self, call: Call, now_ns: int) -> None:
        queue, inference, preprocess, postprocess = self._spans
        call.server_spans = (queue, inference, preprocess, postprocess)
        self._spans = [*NOT_TOLD]
        super()._answered(call, now_ns)


class HttpClient(Pool[HttpConnection]):
    """The last connection that became free is taken first, so that no more are kept warm than needed."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._kind = TellingConnection if self.settings.server_spans else HttpConnection
        self._idle: list[HttpConnection] = []
        #: Bytes of answers that are not complete, of all connections.
        self.held = 0

    def make(self) -> HttpConnection:
        return self._kind(self)

    def send(self, call: Call) -> bool:
        if not self._idle:
            return False
        self._idle.pop().send(call)
        return True

    def abandon(self, call: Call) -> None:
        connection = call.connection
        call.connection = None
        if isinstance(connection, HttpConnection):
            connection.drop()

    def free(self, connection: HttpConnection) -> None:
        self._idle.append(connection)

    def lost(self, connection: HttpConnection) -> None:
        super().lost(connection)
        if connection in self._idle:
            self._idle.remove(connection)
