"""What a good answer looks like: the next one is recognised by it, not read frame by frame. And requests alike.

A server says the same with each answer: equal header blocks around a message of, mostly, equal length.
All that may not differ is compared byte for byte; whatever differs in anything is read frame by frame.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from inferbench_tasks.clients import http2
from inferbench_tasks.clients.http2 import HEAD_BYTES

_ID = struct.Struct(">L")


class AnswerForm:
    """HEADERS, one DATA frame, HEADERS that end the stream; learnt from an answer that was read and good.

    ``bytes``: of the whole answer, ``message_bytes``: of the gRPC message in it, with its prefix.
    """

    __slots__ = ("_around", "_head", "_middle", "_trailers", "_unpack", "bytes", "message_bytes")

    def __init__(self, head: bytes, message_bytes: int, trailers: bytes) -> None:
        layout = struct.Struct(f">5sL{len(head)}s5sL{message_bytes}x5sL{len(trailers)}s")
        self.bytes = layout.size
        self.message_bytes = message_bytes
        self._unpack = layout.unpack_from
        self._head = _start(len(head), http2.HEADERS, http2.END_HEADERS)
        self._middle = _start(message_bytes, http2.DATA, 0)
        self._trailers = _start(len(trailers), http2.HEADERS, http2.END_HEADERS | http2.END_STREAM)
        self._around = head, trailers

    def same(self, head: bytes, message_bytes: int, trailers: bytes) -> bool:
        """Whether an answer of these parts has this form."""
        return self._around == (head, trailers) and self.message_bytes == message_bytes

    def stream_at(self, data: bytes, at: int) -> int:
        """The stream that a whole answer of this form at ``at`` belongs to; 0 if there is none."""
        if len(data) - at < self.bytes:
            return 0
        frame = self._unpack(data, at)
        stream_id: int = frame[1]
        head, trailers = self._around
        whole = (
            self._head, stream_id, head, self._middle, stream_id, self._trailers, stream_id, trailers
        )  # fmt: skip
        return stream_id if frame == whole else 0


class RequestForm:
    """A request's frames; between two of the same size only the stream's number and the data differ."""

    def __init__(self, headers: bytes) -> None:
        self.headers = headers
        self._start = _start(len(headers), http2.HEADERS, http2.END_HEADERS)
        self._between: dict[int, bytes] = {}

    def beside(self, metadata: Iterable[tuple[str, str]]) -> RequestForm:
        """The form of a request with metadata of its own; the message is not touched."""
        return RequestForm(self.headers + b"".join(http2.literal(name, value) for name, value in metadata))

    def head(self, stream_id: int) -> bytes:
        """The HEADERS frame of a request without its DATA frames."""
        return b"".join((self._start, _ID.pack(stream_id), self.headers))

    def whole(self, stream_id: int, wire: bytes) -> bytes:
        """HEADERS and all data in one frame."""
        size = len(wire)
        between = self._between.get(size)
        if between is None:
            between = self._between[size] = self.headers + _start(size, http2.DATA, http2.END_STREAM)
        number = _ID.pack(stream_id)
        return b"".join((self._start, number, between, number, wire))


def _start(length: int, kind: int, flags: int) -> bytes:
    """A frame's first bytes, up to the stream's number."""
    return http2.frame(kind, flags, 0, bytes(length))[: HEAD_BYTES - 4]
