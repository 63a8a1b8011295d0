"""gRPC's meaning on an HTTP/2 connection: a request is a stream, an answer is data and a status in trailers."""

from __future__ import annotations

import time
from typing import Any, Protocol
from urllib.parse import unquote

from inferbench_tasks.clients import http2
from inferbench_tasks.clients.base import BAD_RESPONSE, OK, RESET, Call
from inferbench_tasks.clients.grpc_form import AnswerForm, RequestForm
from inferbench_tasks.clients.grpc_message import status_name
from inferbench_tasks.clients.http2 import HEAD_BYTES
from inferbench_tasks.clients.http2_connection import UPDATE_AFTER, Http2Connection, Stream
from inferbench_tasks.protocols.bounds import too_large

#: RST_STREAM's codes as gRPC's statuses (gRPC over HTTP/2, "Errors"); others are "internal".
_RESET_STATUS = {
    http2.REFUSED_STREAM: "grpc_unavailable",
    http2.CANCEL: "grpc_cancelled",
    http2.ENHANCE_YOUR_CALM: "grpc_resource_exhausted",
    12: "grpc_permission_denied",
}
#: A server whose answers differ each time is not learnt from for ever.
_MAX_LEARNT = 64
_LAST_ID = http2.MAX_STREAM_ID - 2


class Connections(Protocol):
    """What a connection needs of the client that it belongs to; see ``grpc.GrpcClient`` and ``pool.Pool``."""

    loop: Any
    settings: Any
    check: Any
    finish: Any
    explain: Any
    blocks: http2.HeaderBlocks
    request: RequestForm
    retired: set[GrpcConnection]
    answering: GrpcConnection | None
    held: int

    def refused(self, call: Call) -> None: ...

    def lost(self, connection: GrpcConnection) -> None: ...

    def free(self, connection: GrpcConnection) -> None: ...

    def replace(self) -> None: ...


class GrpcConnection(Http2Connection):
    """One connection with many requests."""

    def __init__(self, client: Connections) -> None:
        super().__init__(client.loop)
        self._client = client
        self._finish = client.finish
        self._blocks = client.blocks
        self._request = client.request
        self._form: AnswerForm | None = None
        self._learnt = 0

    # -- sending -------------------------------------------------------------------------------------

    def send(self, call: Call) -> bool:
        """Send a request; False if this connection takes none now."""
        if not self.usable or len(self.streams) >= self.max_streams:
            return False
        stream_id = self.next_id
        self.next_id = stream_id + 2
        if stream_id > _LAST_ID:
            self._retire()
        wire, metadata = call.payload.wire, call.payload.metadata
        form = self._request.beside(metadata) if metadata else self._request
        size = len(wire)
        window = self.initial_window
        self.streams[stream_id] = stream = Stream(call, window)
        call.connection = (self, stream_id)
        if call.sent_ns < 0:
            call.sent_ns = time.monotonic_ns()
        if size <= self.max_frame and size <= self.send_window and size <= window:
            self.send_window -= size
            self.write(form.whole(stream_id, wire))
        else:
            self.write(form.head(stream_id))
            self.send_in_parts(stream_id, stream, wire)
        return True

    def abandon(self, stream_id: int) -> None:
        """Tell the server that nobody waits for this answer."""
        stream = self.streams.pop(stream_id, None)
        if stream is not None:
            self._release(stream)
            self.write(http2.rst_stream(stream_id, http2.CANCEL))
            self.close_if_done()

    def _retire(self) -> None:
        """No more requests on this connection; what is under way goes on, then it is closed."""
        self.usable = False
        self._client.retired.add(self)
        self._client.lost(self)

    # -- receiving -----------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._client.answering = self
        try:
            super().data_received(data)
        finally:
            self._client.answering = None

    def answer(self, data: bytes, at: int, now_ns: int) -> int:
        form = self._form
        if form is None:
            return at
        streams, known, size = self.streams, self._client.check.known, form.message_bytes
        while stream_id := form.stream_at(data, at):
            stream = streams.get(stream_id)
            if stream is None:
                break
            call = stream.call
            if (
                call.first_byte_ns >= 0
                or stream.pending is not None
                or not known(call.payload.batch_size, size)
            ):
                break
            del streams[stream_id]
            at += form.bytes
            self.unread += size
            call.connection = None
            call.first_byte_ns = now_ns
            call.bytes_received = form.bytes
            if not self.usable:
                self.close_if_done()
            self._finish(call, OK, now_ns)
        return at

    def data(self, flags: int, stream_id: int, payload: bytes, now_ns: int) -> None:
        stream = self.streams.get(stream_id)
        if stream is None:
            return  # abandoned
        call = stream.call
        if call.first_byte_ns < 0:
            call.first_byte_ns = now_ns
        call.bytes_received += len(payload) + HEAD_BYTES
        if not self._hold(stream_id, stream, len(payload), now_ns):
            return
        stream.received += len(payload)
        if stream.received > UPDATE_AFTER:
            self.write(http2.window_update(stream_id, stream.received))
            stream.received = 0
        stream.chunks.append(http2.unpadded(flags, payload) if flags & http2.PADDED else payload)
        if flags & http2.END_STREAM:
            self._client.explain("grpc_unknown", "the answer ended without a grpc-status")
            self._done(stream_id, stream, "grpc_unknown", now_ns)

    def header_block(self, flags: int, stream_id: int, block: bytes, now_ns: int) -> None:
        answer = self._blocks.read(block)
        stream = self.streams.get(stream_id)
        if stream is None:
            return
        call = stream.call
        if call.first_byte_ns < 0:
            call.first_byte_ns = now_ns
        call.bytes_received += len(block) + HEAD_BYTES
        if not self._hold(stream_id, stream, len(block), now_ns):
            return
        if answer.spans is not None and self._client.settings.server_spans:
            call.server_spans = answer.spans
        if answer.http_status is not None:
            stream.http_status = answer.http_status
        if not flags & http2.END_STREAM:
            stream.head = block if answer.spans is None else None
            return
        if answer.grpc_status is None:
            http = stream.http_status or "200"
            if not (http.isascii() and http.isdigit() and len(http) == 3):
                http = "000"
            status = "grpc_unknown" if http == "200" else f"http_{http[0]}xx"
            self._client.explain(status, f"HTTP {http}, and no grpc-status")
        else:
            status = status_name(answer.grpc_status)
            if status == OK:
                status = self._judge(call, stream.chunks)
                if status == OK and answer.spans is None:
                    self._learn(stream, block)
            else:
                self._client.explain(status, unquote(answer.grpc_message)[:300])
        self._done(stream_id, stream, status, now_ns)

    def _judge(self, call: Call, chunks: list[bytes]) -> str:
        check, batch_size = self._client.check, call.payload.batch_size
        size = len(chunks[0]) if len(chunks) == 1 else sum(map(len, chunks))
        if not check.known(batch_size, size) and (
            problem := check.problem(batch_size, size, b"".join(chunks))
        ):
            self._client.explain(BAD_RESPONSE, problem)
            return BAD_RESPONSE
        return OK

    def _learn(self, stream: Stream, trailers: bytes) -> None:
        """Expect answers like this good one, if it came in the plainest way and says nothing of its own."""
        head = stream.head
        if self._learnt >= _MAX_LEARNT or head is None or len(stream.chunks) != 1:
            return
        size = len(stream.chunks[0])
        if self._form is None or not self._form.same(head, size, trailers):
            self._learnt += 1
            self._form = AnswerForm(head, size, trailers)

    def _hold(self, stream_id: int, stream: Stream, size: int, now_ns: int) -> bool:
        """Count a part of an answer; False where it became too large, and was given up."""
        client, check = self._client, self._client.check
        stream.held += size
        client.held += size
        if stream.call.bytes_received > check.max_bytes:
            problem = too_large(check.max_bytes)
        elif client.held > check.held_bytes(len(self.streams)):
            problem = f"all answers under way have {client.held:,} bytes"
        else:
            return True
        client.explain(BAD_RESPONSE, problem)
        call = stream.call
        self.abandon(stream_id)
        call.connection = None
        self._finish(call, BAD_RESPONSE, now_ns)
        return False

    def _release(self, stream: Stream) -> None:
        self._client.held -= stream.held
        stream.held = 0

    def _done(self, stream_id: int, stream: Stream, status: str, now_ns: int) -> None:
        del self.streams[stream_id]
        self._release(stream)
        if stream.pending:  # answered before it was asked to the end
            self.write(http2.rst_stream(stream_id, http2.NO_ERROR))
        stream.call.connection = None
        if not self.usable:
            self.close_if_done()
        self._finish(stream.call, status, now_ns)

    # -- the end of a stream, or of all --------------------------------------------------------------

    def reset(self, stream_id: int, code: int, now_ns: int) -> None:
        stream = self.streams.pop(stream_id, None)
        if stream is None:
            return
        self._release(stream)
        stream.call.connection = None
        self.close_if_done()
        if code == http2.REFUSED_STREAM and not stream.chunks:
            self._client.refused(stream.call)
            return
        status = _RESET_STATUS.get(code, "grpc_internal")
        self._client.explain(status, f"the server reset the stream with code {code}")
        self._finish(stream.call, status, now_ns)

    def gone_away(self, last_id: int, code: int, text: bytes) -> None:
        if code != http2.NO_ERROR:
            self._client.explain(RESET, f"GOAWAY with code {code}: {text.decode(errors='replace')[:200]}")
        self._retire()
        unseen = [stream_id for stream_id in self.streams if stream_id > last_id]
        calls = []
        for stream_id in unseen:
            stream = self.streams.pop(stream_id)
            self._release(stream)
            calls.append(stream.call)
        for call in reversed(calls):
            call.connection = None
            self._client.refused(call)
        self.close_if_done()
        self._client.replace()

    def forget(self) -> None:
        for stream in self.streams.values():
            self._release(stream)

    def ended(self, reason: str, *, broken: bool) -> None:
        client, status = self._client, BAD_RESPONSE if broken else RESET
        self.forget()
        streams, self.streams = self.streams, {}
        client.retired.discard(self)
        client.lost(self)
        if streams:
            client.explain(status, reason)
            now_ns = time.monotonic_ns()
            for stream in streams.values():
                self._finish(stream.call, status, now_ns)
