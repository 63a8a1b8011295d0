"""One HTTP/2 connection as a client sees it: frames, windows, settings, and its end (RFC 9113).

What the streams carry is a subclass's business (``grpc_connection``). Complete where a server may do as it
likes: flow control both ways, MAX_CONCURRENT_STREAMS, GOAWAY, PING, SETTINGS at any time, CONTINUATION.
What is written while a piece of input is read goes out in one write at its end.
"""

from __future__ import annotations

import asyncio
import struct
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any

from inferbench_tasks.clients import http2
from inferbench_tasks.clients.base import Call
from inferbench_tasks.clients.http2 import HEAD, HEAD_BYTES
from inferbench_tasks.protocols import bounds

#: What we let the server send before we say that we have read it.
WINDOW = http2.MAX_WINDOW
UPDATE_AFTER = 2**29
#: More than this is handed to the kernel piece by piece: to put it together first would cost a copy of it.
_JOIN_BYTES = 1 << 16
#: A header block in more pieces than this is a game.
_MAX_CONTINUATIONS = 64
#: While so much waits to be sent, so many bytes of answers to PING and SETTINGS are added and no more.
_MAX_OWED_BYTES = 1 << 20
#: RFC 9113, 6.5.2.
_LARGEST_FRAME = 2**24 - 1

Bytes = bytes | memoryview


class Stream:
    """The state of one request on a connection."""

    __slots__ = ("call", "chunks", "head", "held", "http_status", "pending", "received", "send_window")

    def __init__(self, call: Call, send_window: int) -> None:
        self.call = call
        self.send_window = send_window
        self.pending: memoryview | None = None
        self.chunks: list[bytes] = []
        self.received = 0
        #: Bytes of its answer, as the client counts them.
        self.held = 0
        self.head: bytes | None = None
        self.http_status: str | None = None


class Http2Connection(asyncio.Protocol, ABC):
    """Frames in and out. ``streams``: what is under way, by stream id."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.streams: dict[int, Stream] = {}
        self.transport: Any = None
        #: Whether requests may be sent.
        self.usable = False
        self.max_streams = 2**31
        self.next_id = 1
        self.send_window = http2.DEFAULT_WINDOW
        self.initial_window = http2.DEFAULT_WINDOW
        self.max_frame = http2.DEFAULT_MAX_FRAME
        self.unread = 0
        self._blocked: deque[int] = deque()
        self._rest = b""
        #: A header block that is to be continued: flags, stream, what came.
        self._block: tuple[int, int, bytes] | None = None
        self._continuations = 0
        #: Bytes of answers to PING and SETTINGS that were written while the server did not read.
        self._owed = 0
        self._out: list[Bytes] | None = None
        self._established: asyncio.Future[None] = loop.create_future()
        self._acknowledged = self._greeted = False

    # -- for the subclass ----------------------------------------------------------------------------

    @abstractmethod
    def answer(self, data: bytes, at: int, now_ns: int) -> int:
        """Read answers of a known form from ``at`` on, if they are there; returns where they end."""

    @abstractmethod
    def data(self, flags: int, stream_id: int, payload: bytes, now_ns: int) -> None:
        """Take in a DATA frame of a stream."""

    @abstractmethod
    def header_block(self, flags: int, stream_id: int, block: bytes, now_ns: int) -> None:
        """A whole header block; ``flags`` of its first frame."""

    @abstractmethod
    def reset(self, stream_id: int, code: int, now_ns: int) -> None:
        """Take in an RST_STREAM frame: the server gave a request up."""

    @abstractmethod
    def gone_away(self, last_id: int, code: int, text: bytes) -> None:
        """GOAWAY: streams after ``last_id`` will not be looked at."""

    @abstractmethod
    def forget(self) -> None:
        """What came of the streams' answers is not waited for any more."""

    @abstractmethod
    def ended(self, reason: str, *, broken: bool) -> None:
        """The connection is no more. ``broken``: the server broke the rules."""

    # -- the connection ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        ours = {
            http2.SETTINGS_HEADER_TABLE_SIZE: 0,
            http2.SETTINGS_ENABLE_PUSH: 0,
            http2.SETTINGS_INITIAL_WINDOW_SIZE: WINDOW,
        }
        grow = http2.window_update(0, WINDOW - http2.DEFAULT_WINDOW)
        self.write(http2.PREFACE + http2.settings(ours) + grow)

    async def established(self) -> None:
        """Both sides' settings hold: from now on no header block refers to another."""
        await self._established

    def connection_lost(self, error: Exception | None) -> None:
        self._end(str(error) if error else "the server closed the connection")

    def drop(self) -> None:
        """Close without a word to anybody."""
        self.forget()
        self.streams.clear()
        self._end("closed by the client")
        if self.transport is not None:
            self.transport.abort()

    def close_if_done(self) -> None:
        """Close a connection that takes no more requests once nothing is under way."""
        if not self.usable and not self.streams and self._established.done():
            self._close()

    def _close(self) -> None:
        self._send_out()
        self.transport.close()

    def _end(self, reason: str, *, broken: bool = False) -> None:
        self.usable = False
        if not self._established.done():
            self._established.set_exception(ConnectionError(reason))
            self._established.exception()  # whoever waited may have given up
        self.ended(reason, broken=broken)

    # -- sending -------------------------------------------------------------------------------------

    def write(self, *pieces: Bytes) -> None:
        """Send, now or together with what else the input that is being read leads to."""
        if self._out is None:
            self._write(pieces)
        else:
            self._out += pieces

    def _send_out(self) -> None:
        out, self._out = self._out, None
        if out:
            self._write(out)

    def _write(self, pieces: Sequence[Bytes]) -> None:
        if len(pieces) == 1:
            self.transport.write(pieces[0])
        elif sum(map(len, pieces)) <= _JOIN_BYTES:
            self.transport.write(b"".join(pieces))
        else:
            self.transport.writelines(pieces)

    def send_in_parts(self, stream_id: int, stream: Stream, data: bytes) -> None:
        """Send a stream's data as far as the windows allow, the rest as they grow."""
        stream.pending = memoryview(data)
        if not self._push(stream_id, stream):
            self._blocked.append(stream_id)

    def _push(self, stream_id: int, stream: Stream) -> bool:
        """Send as much of a stream's data as the windows allow; True if that was all."""
        pending = stream.pending
        assert pending is not None
        frames: list[Bytes] = []
        while pending and (room := min(self.max_frame, self.send_window, stream.send_window)) > 0:
            piece, pending = pending[:room], pending[room:]
            size = len(piece)
            self.send_window -= size
            stream.send_window -= size
            flags = 0 if pending else http2.END_STREAM
            frames += (HEAD.pack(size >> 16, size & 0xFFFF, http2.DATA, flags, stream_id), piece)
        if frames:
            self.write(*frames)
        stream.pending = pending or None
        return not pending

    def _unblock(self) -> None:
        """Go on with the streams that waited for a window, in their order."""
        for _ in range(len(self._blocked)):
            stream_id = self._blocked.popleft()
            stream = self.streams.get(stream_id)
            if stream is not None and stream.pending and not self._push(stream_id, stream):
                self._blocked.append(stream_id)

    # -- receiving -----------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        if self._rest:
            data = self._rest + data
        self._out = []
        try:
            at = self._read(data, now_ns)
        except (http2.ProtocolError, struct.error) as error:
            self._rest = b""
            last = struct.pack(">LL", 0, http2.PROTOCOL_ERROR)
            self.write(http2.frame(http2.GOAWAY, 0, 0, last))
            self._close()
            if self.transport.get_write_buffer_size():
                self.transport.abort()  # it does not read: what is to be sent would stay here for ever
            self._end(f"not HTTP/2: {error}", broken=True)
        else:
            self._rest = data[at:] if at < len(data) else b""
        finally:
            self._send_out()

    def _read(self, data: bytes, now_ns: int) -> int:
        """Take every whole frame; returns where the rest begins."""
        at, end = 0, len(data)
        while end - at >= HEAD_BYTES:
            if data[at + 3] == http2.HEADERS and self._block is None:
                after = self.answer(data, at, now_ns)
                if after != at:
                    at = after
                    continue
            high, low, kind, flags, stream_id = HEAD.unpack_from(data, at)
            length = high << 16 | low
            if length > http2.DEFAULT_MAX_FRAME:
                raise http2.ProtocolError(f"a frame of {length} bytes, {http2.DEFAULT_MAX_FRAME} are allowed")
            stop = at + HEAD_BYTES + length
            if stop > end:
                break
            self._frame(kind, flags, stream_id & 0x7FFFFFFF, data[at + HEAD_BYTES : stop], now_ns)
            at = stop
        if self.unread > UPDATE_AFTER:
            self.write(http2.window_update(0, self.unread))
            self.unread = 0
        return at

    def _frame(self, kind: int, flags: int, stream_id: int, payload: bytes, now_ns: int) -> None:
        if self._block is not None and kind != http2.CONTINUATION:
            raise http2.ProtocolError("a header block was not continued")
        if kind == http2.DATA:
            self.unread += len(payload)
            self.data(flags, stream_id, payload, now_ns)
        elif kind == http2.HEADERS:
            block = http2.unpadded(flags, payload)
            if flags & http2.END_HEADERS:
                self.header_block(flags, stream_id, block, now_ns)
            else:
                self._block = flags, stream_id, block
                self._continuations = 0
        elif kind == http2.CONTINUATION:
            if self._block is None or self._block[1] != stream_id:
                raise http2.ProtocolError("a continuation of nothing")
            first_flags, _, block = self._block
            self._continuations += 1
            if len(block) + len(payload) > bounds.HEAD_BYTES or self._continuations > _MAX_CONTINUATIONS:
                raise http2.ProtocolError(
                    f"a header block of more than {bounds.HEAD_BYTES:,} bytes or {_MAX_CONTINUATIONS} pieces"
                )
            self._block = first_flags, stream_id, block + payload
            if flags & http2.END_HEADERS:
                self._block = None
                self.header_block(first_flags, stream_id, block + payload, now_ns)
        elif kind == http2.WINDOW_UPDATE:
            self._window_update(stream_id, struct.unpack(">L", payload)[0] & 0x7FFFFFFF)
        elif kind == http2.PING:
            if not flags & http2.ACK:
                self._acknowledge(http2.frame(http2.PING, http2.ACK, 0, payload))
        elif kind == http2.SETTINGS:
            self._settings(flags, payload)
        elif kind == http2.RST_STREAM:
            self.reset(stream_id, struct.unpack(">L", payload)[0], now_ns)
        elif kind == http2.GOAWAY:
            last_id, code = struct.unpack_from(">LL", payload)
            self.gone_away(last_id & 0x7FFFFFFF, code, payload[8:])
        elif kind == http2.PUSH_PROMISE:
            raise http2.ProtocolError("a push though pushes are forbidden")
        # PRIORITY, and frames of kinds that are not known, mean nothing.

    def _acknowledge(self, answer: bytes) -> None:
        """Answer a frame that costs the server nothing, unless it reads none of our answers."""
        if self.transport.get_write_buffer_size() < _MAX_OWED_BYTES:
            self._owed = 0
        else:
            self._owed += len(answer)
            if self._owed > _MAX_OWED_BYTES:
                raise http2.ProtocolError("it sends PING and SETTINGS, and does not read the answers")
        self.write(answer)

    def _window_update(self, stream_id: int, increment: int) -> None:
        if increment == 0:
            raise http2.ProtocolError("a window grew by nothing")
        if stream_id == 0:
            self.send_window += increment
            if self.send_window > http2.MAX_WINDOW:
                raise http2.ProtocolError("the connection's window grew too large")
        elif (stream := self.streams.get(stream_id)) is not None:
            stream.send_window += increment
        if self._blocked:
            self._unblock()

    def _settings(self, flags: int, payload: bytes) -> None:
        if flags & http2.ACK:
            self._acknowledged = True
        else:
            # Of a value that is set twice in one frame the last holds: all streams' windows are changed once.
            for key, value in dict(struct.iter_unpack(">HL", payload)).items():
                self._apply(key, value)
            self._acknowledge(http2.frame(http2.SETTINGS, http2.ACK, 0))
            self._greeted = True
            if self._blocked:
                self._unblock()
        if self._greeted and self._acknowledged and not self._established.done():
            self.usable = True
            self._established.set_result(None)

    def _apply(self, key: int, value: int) -> None:
        if key == http2.SETTINGS_MAX_CONCURRENT_STREAMS:
            self.max_streams = value
        elif key == http2.SETTINGS_INITIAL_WINDOW_SIZE:
            if value > http2.MAX_WINDOW:
                raise http2.ProtocolError(f"an initial window of {value}")
            for stream in self.streams.values():
                stream.send_window += value - self.initial_window
            self.initial_window = value
        elif key == http2.SETTINGS_MAX_FRAME_SIZE:
            if not http2.DEFAULT_MAX_FRAME <= value <= _LARGEST_FRAME:
                raise http2.ProtocolError(f"a largest frame of {value} bytes")
            self.max_frame = value
