"""gRPC on raw HTTP/2: requests are bytes already, frames are written as they are, little is looked at.

Complete where a server may do as it likes: flow control both ways, MAX_CONCURRENT_STREAMS, GOAWAY,
RST_STREAM, PING, SETTINGS at any time, trailers with and without data, messages of any size.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections import deque
from typing import Any
from urllib.parse import unquote

from inferbench_tasks.clients import http2
from inferbench_tasks.clients.base import BAD_RESPONSE, OK, RESET, Call
from inferbench_tasks.clients.grpc_message import METHODS, status_name
from inferbench_tasks.clients.http2 import HEAD, HEAD_BYTES
from inferbench_tasks.clients.pool import Pool

#: RST_STREAM's codes as gRPC's statuses (gRPC over HTTP/2, "Errors"); others are "internal".
_RESET_STATUS = {
    http2.REFUSED_STREAM: "grpc_unavailable",
    http2.CANCEL: "grpc_cancelled",
    http2.ENHANCE_YOUR_CALM: "grpc_resource_exhausted",
    12: "grpc_permission_denied",
}
#: What we let the server send before we say that we have read it.
_WINDOW = http2.MAX_WINDOW
_UPDATE_AFTER = 2**29


class Stream:
    """One request on a connection."""

    __slots__ = ("call", "chunks", "http_status", "pending", "received", "send_window")

    def __init__(self, call: Call, send_window: int) -> None:
        self.call = call
        self.send_window = send_window
        self.pending: memoryview | None = None
        self.chunks: list[bytes] = []
        self.received = 0
        self.http_status: str | None = None


class GrpcConnection(asyncio.Protocol):
    """One connection with many streams."""

    def __init__(self, client: GrpcClient) -> None:
        self._client = client
        self._headers = client.headers
        self._blocks = client.blocks
        self._streams: dict[int, Stream] = {}
        self._blocked: deque[int] = deque()
        self._rest = b""
        self._next_id = 1
        self._send_window = http2.DEFAULT_WINDOW
        self._initial_window = http2.DEFAULT_WINDOW
        self._max_frame = http2.DEFAULT_MAX_FRAME
        self._max_streams = 2**31
        self._unread = 0
        self._block: tuple[int, int, bytes] | None = None
        self._usable = False
        self._established: asyncio.Future[None] = client.loop.create_future()
        self._acknowledged = self._greeted = False
        self.transport: Any = None

    # -- the connection ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        ours = {
            http2.SETTINGS_HEADER_TABLE_SIZE: 0,
            http2.SETTINGS_ENABLE_PUSH: 0,
            http2.SETTINGS_INITIAL_WINDOW_SIZE: _WINDOW,
        }
        grow = http2.window_update(0, _WINDOW - http2.DEFAULT_WINDOW)
        self.transport.write(http2.PREFACE + http2.settings(ours) + grow)

    async def established(self) -> None:
        """Both sides' settings hold: from now on no header block refers to another."""
        await self._established

    def connection_lost(self, error: Exception | None) -> None:
        self._end(str(error) if error else "the server closed the connection")

    def drop(self) -> None:
        """Close without a word to anybody."""
        self._streams.clear()
        self._end("closed by the client")
        if self.transport is not None:
            self.transport.abort()

    def _end(self, reason: str) -> None:
        self._usable = False
        if not self._established.done():
            self._established.set_exception(ConnectionError(reason))
            self._established.exception()  # whoever waited may have given up
        client = self._client
        client.retired.discard(self)
        client.lost(self)
        streams, self._streams = self._streams, {}
        if streams:
            client.explain(RESET, reason)
            now_ns = time.monotonic_ns()
            for stream in streams.values():
                client.finish(stream.call, RESET, now_ns)

    def _break(self, code: int, reason: str) -> None:
        """The server broke the rules."""
        last = struct.pack(">LL", 0, code)
        self.transport.write(http2.frame(http2.GOAWAY, 0, 0, last))
        streams, self._streams = self._streams, {}
        self._end(reason)
        self.transport.close()
        if streams:
            self._client.explain(BAD_RESPONSE, reason)
            now_ns = time.monotonic_ns()
            for stream in streams.values():
                self._client.finish(stream.call, BAD_RESPONSE, now_ns)

    # -- sending -------------------------------------------------------------------------------------

    def send(self, call: Call) -> bool:
        """Send a request; False if this connection takes none now."""
        if not self._usable or len(self._streams) >= self._max_streams:
            return False
        stream_id = self._next_id
        self._next_id = stream_id + 2
        if stream_id + 2 > http2.MAX_STREAM_ID:
            self._retire()
        wire = call.payload.wire
        size = len(wire)
        stream = Stream(call, self._initial_window)
        self._streams[stream_id] = stream
        call.connection = (self, stream_id)
        if call.sent_ns < 0:
            call.sent_ns = time.monotonic_ns()
        headers = self._headers
        head = HEAD.pack(0, len(headers), http2.HEADERS, http2.END_HEADERS, stream_id)
        if size <= self._max_frame and size <= self._send_window and size <= stream.send_window:
            data_head = HEAD.pack(size >> 16, size & 0xFFFF, http2.DATA, http2.END_STREAM, stream_id)
            self._send_window -= size
            self.transport.write(b"".join((head, headers, data_head, wire)))
            return True
        self.transport.write(head + headers)
        stream.pending = memoryview(wire)
        if not self._push(stream_id, stream):
            self._blocked.append(stream_id)
        return True

    def _push(self, stream_id: int, stream: Stream) -> bool:
        """Send as much of a stream's data as the windows allow; True if that was all."""
        pending = stream.pending
        assert pending is not None
        frames: list[bytes | memoryview] = []
        while pending and (room := min(self._max_frame, self._send_window, stream.send_window)) > 0:
            piece, pending = pending[:room], pending[room:]
            size = len(piece)
            self._send_window -= size
            stream.send_window -= size
            flags = 0 if pending else http2.END_STREAM
            frames += (HEAD.pack(size >> 16, size & 0xFFFF, http2.DATA, flags, stream_id), piece)
        if frames:
            self.transport.write(b"".join(frames))
        stream.pending = pending or None
        return not pending

    def _unblock(self) -> None:
        """Go on with the streams that waited for a window, in their order."""
        for _ in range(len(self._blocked)):
            stream_id = self._blocked.popleft()
            stream = self._streams.get(stream_id)
            if stream is not None and stream.pending and not self._push(stream_id, stream):
                self._blocked.append(stream_id)

    def abandon(self, stream_id: int) -> None:
        """Tell the server that nobody waits for this answer."""
        if self._streams.pop(stream_id, None) is not None:
            self.transport.write(http2.rst_stream(stream_id, http2.CANCEL))
            self._close_if_done()

    def _retire(self) -> None:
        """No more requests on this connection; what is under way goes on, then it is closed."""
        self._usable = False
        self._client.retired.add(self)
        self._client.lost(self)

    def _close_if_done(self) -> None:
        if not self._usable and not self._streams and self._established.done():
            self.transport.close()

    # -- receiving -----------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        try:
            while end - at >= HEAD_BYTES:
                high, low, kind, flags, stream_id = HEAD.unpack_from(data, at)
                length = high << 16 | low
                if length > http2.DEFAULT_MAX_FRAME:
                    raise http2.ProtocolError(
                        f"a frame of {length} bytes, {http2.DEFAULT_MAX_FRAME} are allowed"
                    )
                stop = at + HEAD_BYTES + length
                if stop > end:
                    break
                self._frame(kind, flags, stream_id & 0x7FFFFFFF, data[at + HEAD_BYTES : stop], now_ns)
                at = stop
        except (http2.ProtocolError, struct.error) as error:
            self._rest = b""
            self._break(http2.PROTOCOL_ERROR, f"not HTTP/2: {error}")
            return
        self._rest = data[at:] if at < end else b""

    def _frame(self, kind: int, flags: int, stream_id: int, payload: bytes, now_ns: int) -> None:
        if self._block is not None and kind != http2.CONTINUATION:
            raise http2.ProtocolError("a header block was not continued")
        if kind == http2.DATA:
            self._data(flags, stream_id, payload, now_ns)
        elif kind == http2.HEADERS:
            block = http2.unpadded(flags, payload)
            if flags & http2.END_HEADERS:
                self._header_block(flags, stream_id, block, now_ns)
            else:
                self._block = flags, stream_id, block
        elif kind == http2.CONTINUATION:
            if self._block is None or self._block[1] != stream_id:
                raise http2.ProtocolError("a continuation of nothing")
            first_flags, _, block = self._block
            self._block = first_flags, stream_id, block + payload
            if flags & http2.END_HEADERS:
                self._block = None
                self._header_block(first_flags, stream_id, block + payload, now_ns)
        elif kind == http2.WINDOW_UPDATE:
            self._window_update(stream_id, struct.unpack(">L", payload)[0] & 0x7FFFFFFF)
        elif kind == http2.PING:
            if not flags & http2.ACK:
                self.transport.write(http2.frame(http2.PING, http2.ACK, 0, payload))
        elif kind == http2.SETTINGS:
            self._settings(flags, payload)
        elif kind == http2.RST_STREAM:
            self._reset(stream_id, struct.unpack(">L", payload)[0], now_ns)
        elif kind == http2.GOAWAY:
            self._go_away(payload)
        elif kind == http2.PUSH_PROMISE:
            raise http2.ProtocolError("a push though pushes are forbidden")
        # PRIORITY, and frames of kinds that are not known, mean nothing.

    def _data(self, flags: int, stream_id: int, payload: bytes, now_ns: int) -> None:
        self._unread += len(payload)
        if self._unread > _UPDATE_AFTER:
            self.transport.write(http2.window_update(0, self._unread))
            self._unread = 0
        stream = self._streams.get(stream_id)
        if stream is None:
            return  # abandoned
        call = stream.call
        if call.first_byte_ns < 0:
            call.first_byte_ns = now_ns
        call.bytes_received += len(payload) + HEAD_BYTES
        stream.received += len(payload)
        if stream.received > _UPDATE_AFTER:
            self.transport.write(http2.window_update(stream_id, stream.received))
            stream.received = 0
        stream.chunks.append(http2.unpadded(flags, payload) if flags & http2.PADDED else payload)
        if flags & http2.END_STREAM:
            self._client.explain("grpc_unknown", "the answer ended without a grpc-status")
            self._finish(stream_id, stream, "grpc_unknown", now_ns)

    def _header_block(self, flags: int, stream_id: int, block: bytes, now_ns: int) -> None:
        answered = self._blocks.read(block)
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        call = stream.call
        if call.first_byte_ns < 0:
            call.first_byte_ns = now_ns
        call.bytes_received += len(block) + HEAD_BYTES
        if answered.spans is not None and self._client.settings.server_spans:
            call.server_spans = answered.spans
        if answered.http_status is not None:
            stream.http_status = answered.http_status
        if not flags & http2.END_STREAM:
            return
        if answered.grpc_status is None:
            http = stream.http_status or "200"
            status = "grpc_unknown" if http == "200" else f"http_{http[0]}xx"
            self._client.explain(status, f"HTTP {http}, and no grpc-status")
        else:
            status = status_name(answered.grpc_status)
            if status == OK:
                status = self._judge(call, stream.chunks)
            else:
                self._client.explain(status, unquote(answered.grpc_message)[:300])
        self._finish(stream_id, stream, status, now_ns)

    def _judge(self, call: Call, chunks: list[bytes]) -> str:
        check, batch_size = self._client.check, call.payload.batch_size
        size = len(chunks[0]) if len(chunks) == 1 else sum(map(len, chunks))
        if not check.known(batch_size, size) and (
            problem := check.problem(batch_size, size, b"".join(chunks))
        ):
            self._client.explain(BAD_RESPONSE, problem)
            return BAD_RESPONSE
        return OK

    def _finish(self, stream_id: int, stream: Stream, status: str, now_ns: int) -> None:
        del self._streams[stream_id]
        if stream.pending:  # answered before it was asked to the end
            self.transport.write(http2.rst_stream(stream_id, http2.NO_ERROR))
        stream.call.connection = None
        if not self._usable:
            self._close_if_done()
        self._client.finish(stream.call, status, now_ns)

    def _window_update(self, stream_id: int, increment: int) -> None:
        if increment == 0:
            raise http2.ProtocolError("a window grew by nothing")
        if stream_id == 0:
            self._send_window += increment
            if self._send_window > http2.MAX_WINDOW:
                raise http2.ProtocolError("the connection's window grew too large")
        elif (stream := self._streams.get(stream_id)) is not None:
            stream.send_window += increment
        if self._blocked:
            self._unblock()

    def _settings(self, flags: int, payload: bytes) -> None:
        if flags & http2.ACK:
            self._acknowledged = True
        else:
            for key, value in struct.iter_unpack(">HL", payload):
                self._apply(key, value)
            self.transport.write(http2.frame(http2.SETTINGS, http2.ACK, 0))
            self._greeted = True
            if self._blocked:
                self._unblock()
        if self._greeted and self._acknowledged and not self._established.done():
            self._usable = True
            self._established.set_result(None)

    def _apply(self, key: int, value: int) -> None:
        if key == http2.SETTINGS_MAX_CONCURRENT_STREAMS:
            self._max_streams = value
        elif key == http2.SETTINGS_INITIAL_WINDOW_SIZE:
            if value > http2.MAX_WINDOW:
                raise http2.ProtocolError(f"an initial window of {value}")
            for stream in self._streams.values():
                stream.send_window += value - self._initial_window
            self._initial_window = value
        elif key == http2.SETTINGS_MAX_FRAME_SIZE:
            self._max_frame = value

    def _reset(self, stream_id: int, code: int, now_ns: int) -> None:
        stream = self._streams.pop(stream_id, None)
        if stream is None:
            return
        stream.call.connection = None
        self._close_if_done()
        if code == http2.REFUSED_STREAM and not stream.chunks:
            self._client.refused(stream.call)
            return
        status = _RESET_STATUS.get(code, "grpc_internal")
        self._client.explain(status, f"the server reset the stream with code {code}")
        self._client.finish(stream.call, status, now_ns)

    def _go_away(self, payload: bytes) -> None:
        last_id, code = struct.unpack_from(">LL", payload)
        if code != http2.NO_ERROR:
            self._client.explain(
                RESET, f"GOAWAY with code {code}: {payload[8:].decode(errors='replace')[:200]}"
            )
        self._retire()
        unseen = [stream_id for stream_id in self._streams if stream_id > last_id & 0x7FFFFFFF]
        calls = [self._streams.pop(stream_id).call for stream_id in unseen]
        for call in reversed(calls):
            call.connection = None
            self._client.refused(call)
        self._close_if_done()
        self._client.replace()


class GrpcClient(Pool[GrpcConnection]):
    """Requests go round the connections; one that the server closes is replaced."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        endpoint = self.settings.endpoint
        self.loop = self._loop
        self.blocks = http2.HeaderBlocks()
        self.headers = b"".join(
            (
                b"\x83\x86",  # :method POST, :scheme http (from the static table)
                http2.literal(":path", METHODS[endpoint.protocol]),
                http2.literal(":authority", endpoint.url),
                http2.literal("te", "trailers"),
                http2.literal("content-type", "application/grpc"),
                http2.literal("grpc-timeout", _timeout(self.settings.timeout_ns)),
                http2.literal("user-agent", "inferbench"),
            )
        )
        self._usable: list[GrpcConnection] = []
        #: Take no more requests, but some are under way on them.
        self.retired: set[GrpcConnection] = set()
        self._turn = 0

    async def close(self) -> None:
        for connection in list(self.retired):
            connection.drop()
        await super().close()

    def make(self) -> GrpcConnection:
        return GrpcConnection(self)

    def send(self, call: Call) -> bool:
        usable = self._usable
        count = len(usable)
        for _ in range(count):
            self._turn = turn = (self._turn + 1) % count
            if usable[turn].send(call):
                return True
            if len(usable) != count:  # that one is used up
                return self.send(call)
        return False

    def abandon(self, call: Call) -> None:
        where, call.connection = call.connection, None
        if isinstance(where, tuple):
            connection, stream_id = where
            connection.abandon(stream_id)

    def refused(self, call: Call) -> None:
        """The server did not look at it. Once more, a moment later, so that nobody is hammered."""
        self._loop.call_later(0.001, self._sink.again, call)

    def free(self, connection: GrpcConnection) -> None:
        self._usable.append(connection)

    def lost(self, connection: GrpcConnection) -> None:
        super().lost(connection)
        if connection in self._usable:
            self._usable.remove(connection)
            self.replace()

    def replace(self) -> None:
        """As many connections as there were."""
        if not self._closed:
            self.want(self.settings.connections - len(self._all))


def _timeout(timeout_ns: int) -> str:
    """``grpc-timeout``: at most eight digits and a unit."""
    ms = max(1, timeout_ns // 1_000_000)
    return f"{ms}m" if ms < 100_000_000 else f"{ms // 1000}S"
