"""The frames of HTTP/2 (RFC 9113) that a gRPC client sends, and the header blocks (RFC 7541) it reads.

Our SETTINGS forbid the server a dynamic header table, so every header block stands for itself: equal
bytes mean equal headers, and are decoded once.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from typing import Any

from inferbench_tasks.protocols.spans import HEADER_BYTES, ServerTimes

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITY_FLAG = 0x20

SETTINGS_HEADER_TABLE_SIZE = 1
SETTINGS_ENABLE_PUSH = 2
SETTINGS_MAX_CONCURRENT_STREAMS = 3
SETTINGS_INITIAL_WINDOW_SIZE = 4
SETTINGS_MAX_FRAME_SIZE = 5

NO_ERROR, PROTOCOL_ERROR = 0, 1
REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 7, 8, 11

DEFAULT_WINDOW = 65_535
DEFAULT_MAX_FRAME = 16_384
MAX_WINDOW = 2**31 - 1
MAX_STREAM_ID = 2**31 - 1
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

#: Length (high byte, low bytes), type, flags, stream.
HEAD = struct.Struct(">BHBBL")
HEAD_BYTES = 9
_MAX_CACHED = 4096
#: Longer blocks are decoded each time: a server whose headers are all different must not fill the memory.
_MAX_CACHED_BYTES = 4096


class ProtocolError(Exception):
    """The server broke the rules; the connection can't be used any more."""


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """A whole frame: its header of nine bytes and its payload."""
    return HEAD.pack(len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream_id) + payload


def settings(values: dict[int, int]) -> bytes:
    """The bytes of a SETTINGS frame on stream 0; ``values`` by identifier (RFC 9113, 6.5)."""
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HL", k, v) for k, v in values.items()))


def window_update(stream_id: int, increment: int) -> bytes:
    """The bytes of a WINDOW_UPDATE frame; ``increment`` in bytes (RFC 9113, 6.9)."""
    return frame(WINDOW_UPDATE, 0, stream_id, struct.pack(">L", increment))


def rst_stream(stream_id: int, code: int) -> bytes:
    """The bytes of a RST_STREAM frame, which ends one stream (RFC 9113, 6.4)."""
    return frame(RST_STREAM, 0, stream_id, struct.pack(">L", code))


def unpadded(flags: int, payload: bytes) -> bytes:
    """The payload without its padding and priority."""
    start, stop = 0, len(payload)
    if flags & PADDED:
        if not payload or payload[0] >= stop:
            raise ProtocolError("a frame has more padding than payload")
        start, stop = 1, stop - payload[0]
    if flags & PRIORITY_FLAG:
        start += 5
    return payload[start:stop]


def literal(name: str, value: str) -> bytes:
    """A header as a literal that is in no table, not compressed (RFC 7541, 6.2.2)."""
    return b"\x00" + _text(name) + _text(value)


def _text(text: str) -> bytes:
    data = text.encode()
    size, prefix = len(data), bytearray()
    if size < 127:
        return bytes([size]) + data
    prefix.append(127)
    size -= 127
    while size >= 128:
        prefix.append(size % 128 + 128)
        size //= 128
    prefix.append(size)
    return bytes(prefix) + data


@dataclass(frozen=True, slots=True)
class Answered:
    """What a client looks for in a header block; None where it is not there."""

    http_status: str | None
    grpc_status: str | None
    grpc_message: str
    #: In ns, where the server tells its own times.
    spans: ServerTimes | None = None


#: A literal header that is in no table with one of our server's times, as gRPC's core writes it.
_TOLD = re.compile(rb"[\x00\x10](.)(x-inferbench-[a-z]+-ns)(.)(\d{1,18})", re.DOTALL)


class HeaderBlocks:
    """Decodes header blocks, each distinct one once; what differs in each, the server's own times, apart."""

    def __init__(self) -> None:
        self._known: dict[bytes, Answered] = {}

    def read(self, block: bytes) -> Answered:
        """The block's headers; ProtocolError if they can't be read."""
        if b"x-inferbench-" in block:
            return self._telling(block)
        answer = self._known.get(block)
        return answer if answer is not None else self._decode(block)

    def _telling(self, block: bytes) -> Answered:
        """The times cut out, the rest as any other block."""
        spans: dict[bytes, int] = {}

        def take(match: re.Match[bytes]) -> bytes:
            if match[1][0] == len(match[2]) and match[3][0] == len(match[4]):
                spans[match[2]] = int(match[4])
                return b""
            return match[0]

        rest = _TOLD.sub(take, block)
        answered = self._known.get(rest)
        if answered is None:
            answered = self._decode(rest)
        if any(name not in spans for name in HEADER_BYTES):
            return answered
        queue, inference, preprocess, postprocess = (spans[name] for name in HEADER_BYTES)
        return replace(answered, spans=(queue, inference, preprocess, postprocess))

    def _decode(self, block: bytes) -> Answered:
        from hpack import Decoder, HPACKError

        try:
            headers: dict[Any, Any] = dict(Decoder().decode(block))
        except HPACKError as error:
            raise ProtocolError(f"unreadable headers: {type(error).__name__}: {error}") from error
        answer = Answered(headers.get(":status"), headers.get("grpc-status"), headers.get("grpc-message", ""))
        if len(self._known) < _MAX_CACHED and len(block) <= _MAX_CACHED_BYTES:
            self._known[block] = answer
        return answer
