"""Streams of tokens over HTTP/1.1: each read is stamped and kept, and nothing is decoded while the load runs.

What a read costs does not depend on how long its stream is. The bytes go to ``ClientSettings.streams``; what they say
is found out after the load (``loadgen.token_streams``), which then knows more failures than this client: here an
answer is good when HTTP says that it is complete. The first byte has the moment of its arrival, the end of an answer
that of its read: from then on its user knows of it.
"""

from __future__ import annotations

import array
import ssl
import time
from typing import Any

import httptools

from inferbench_tasks.clients.base import OK, Call
from inferbench_tasks.clients.http import HttpClient, HttpConnection
from inferbench_tasks.clients.openai_form import without_key
from inferbench_tasks.clients.stamped_transport import NOT_STAMPED, StampedProtocol, StampedReader
from inferbench_tasks.clients.stream_file import READ_FIELDS
from inferbench_tasks.protocols.bounds import HEAD_BYTES

#: What a stream may have in memory; then it is written, and its sender's memory does not grow with it.
_PIECE_BYTES = 64 * 1024
_PIECE_READS = 4096
#: What is kept of an answer that is no stream: enough for the server's words.
_WORDS_BYTES = 4096
TOO_LARGE = "stream_too_large"
#: What is told once of a server that closes kept connections.
CLOSES_KEPT = (
    "kept_connection",
    "the server closes connections that it promised to keep: requests were sent again, each on its own",
)


class StreamConnection(HttpConnection, StampedProtocol):
    """One connection. The parser takes HTTP's own framing off, whatever pieces the bytes come in."""

    def __init__(self, client: OpenAIClient) -> None:
        super().__init__(client)
        self._owner = client
        self._body = bytearray()
        self._reads = array.array("q")
        self._body_bytes = 0
        self._in_head = True
        #: Whether the body ends with the connection.
        self._until_end = True
        #: Whether an answer came over it before.
        self.kept = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser for each header."""
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._until_end = False

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        self._in_head = self._parser.get_status_code() < 200

    def on_body(self, body: bytes) -> None:
        """Called by the parser for each piece of the body."""
        self._body += body

    def data_received(self, data: bytes) -> None:
        self.received(data, time.monotonic_ns(), NOT_STAMPED)

    def received(self, data: memoryview | bytes, arrival_ns: int, waited_ns: int) -> None:
        call = self.call
        if call is None:
            self.transport.abort()  # an answer that nobody asked for: the rest can't be trusted either
            return
        now_ns = arrival_ns + max(0, waited_ns)
        if arrival_ns < call.sent_ns:  # the system's time was set back since the clocks were compared
            arrival_ns, waited_ns = now_ns, NOT_STAMPED
        if call.first_byte_ns < 0:
            call.first_byte_ns = arrival_ns
        call.bytes_received += len(data)
        before = len(self._body)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._refuse(call, f"not HTTP: {error}", now_ns)
            return
        body = self._body
        if len(body) > before:
            self._body_bytes += len(body) - before
            self._reads.extend((arrival_ns, waited_ns, len(body)))
        if self._complete:
            self._complete = False
            self._answered(call, now_ns)
        elif self._in_head:
            if call.bytes_received > HEAD_BYTES:
                self._refuse(call, f"the headers have more than {HEAD_BYTES:,} bytes", now_ns)
        elif self._body_bytes > self._owner.check.max_bytes:
            self._owner.explain(TOO_LARGE, f"more than {self._owner.check.max_bytes:,} bytes")
            self._end(call, TOO_LARGE, now_ns, reuse=False)
        elif len(body) > _PIECE_BYTES or len(self._reads) > READ_FIELDS * _PIECE_READS:
            self._keep(call)

    def connection_lost(self, error: Exception | None) -> None:
        call = self.call
        if call is not None and error is None and not self._in_head and self._until_end:
            self._reuse = False
            self._answered(call, time.monotonic_ns())  # HTTP/1.0's way of ending a body
            return
        if call is not None and self.kept and call.bytes_received == 0:
            self.call = call.connection = None
            super().connection_lost(error)
            self._owner.send_again(call)
            return
        super().connection_lost(error)

    def _keep(self, call: Call) -> None:
        """Hand over what came, as one piece."""
        streams = self._owner.settings.streams
        if streams is not None and self._body:
            streams.keep(call.request_id, self._reads, self._body)
        self._body = bytearray()
        self._reads = array.array("q")

    def _answered(self, call: Call, now_ns: int) -> None:
        code = self._parser.get_status_code()
        status = OK
        if code != 200:
            status = f"http_{code // 100}xx"
            words = bytes(self._body[:_WORDS_BYTES]).decode(errors="replace")[:300]
            self._owner.explain(status, f"HTTP {code}: {words}")
        self._end(call, status, now_ns, reuse=self._reuse)

    def _end(self, call: Call, status: str, now_ns: int, *, reuse: bool) -> None:
        if status == OK or not status.startswith("http_"):
            self._keep(call)
        self._renew()
        self.kept = True
        super()._end(call, status, now_ns, reuse=reuse and not self._owner.closes_kept)

    def _forget(self) -> None:
        """The connection is no more; what came of a stream is kept all the same."""
        if self.call is not None and not self._in_head:
            self._keep(self.call)
        super()._forget()

    def drop(self) -> None:
        self._forget()
        super().drop()

    def _renew(self) -> None:
        """The next answer begins."""
        self._body = bytearray()
        self._reads = array.array("q")
        self._body_bytes = 0
        self._in_head = True
        self._until_end = True


class OpenAIClient(HttpClient):
    """Its failures never show the API key, which a server may repeat."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._kind = StreamConnection  # type: ignore[assignment]
        target = self.settings.target
        self._key = target.key() if target else None
        self._reader: StampedReader | None = None
        if target and target.tls:
            self.tls = ssl.create_default_context()
        elif self.settings.clock is not None:
            self._reader = StampedReader(self._loop, self.settings.clock)
        explain = self._sink.explain

        def explain_without_key(status: str, text: str) -> None:
            explain(status, without_key(text, self._key))

        self.explain = explain_without_key
        #: Whether the server was seen to close connections that it had promised to keep: none is used twice then.
        self.closes_kept = False

    async def dial(self) -> HttpConnection:
        """Read with the kernel's stamps where the clocks are compared and nothing is encrypted."""
        if self._reader is None:
            return await super().dial()
        connection = StreamConnection(self)
        await self._reader.connect(self.settings.endpoint.host, self.settings.endpoint.port, connection)
        return connection

    def send_again(self, call: Call) -> None:
        """Send a request that met a kept connection's end on a new one; its latency goes on from its intended moment.

        Servers close kept connections without a word, some after every stream; no byte of an answer had come. On a
        new connection such an end is a failure.
        """
        self.closes_kept = True
        for connection in [idle for idle in self._idle if isinstance(idle, StreamConnection) and idle.kept]:
            connection.drop()
        self.explain(*CLOSES_KEPT)
        self._sink.again(call)
