"""What the two sides of a measurement say to each other, over one TCP connection.

First each proves that it knows the secret, without sending it (HMAC over numbers that both draw). What follows is
moments and zeros, which are no secret, and of a load what its requests go with, the run's one-time secret among it: it
is not encrypted, as the requests themselves are not. The near side gives orders of one byte.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import struct
import time
from dataclasses import dataclass

from inferbench_tasks.errors import LoadError

MAGIC = b"inferbench-link-1\n"
NONCE_BYTES = PROOF_BYTES = 32
#: The near side's number and proof.
ANSWER_BYTES = NONCE_BYTES + PROOF_BYTES
#: A moment or two, a count and a duration: two 64-bit numbers.
PAIR = struct.Struct("!qq")
LENGTH = struct.Struct("!I")
#: Orders: the time, how Unix time is reckoned from it, streams to and from the far side, the end.
TIME, EPOCH, UP, DOWN, QUIT = b"t", b"e", b"u", b"d", b"q"
#: What a far side that has more to do beside a load is asked for (``FarSide.serve``): begin, how it goes, end.
BEGIN, STATE, END = b"b", b"s", b"f"
#: What it is asked in words, and answers with bytes.
ASK = b"a"
CHUNK = 1 << 16
_MORE, _LAST = bytes([1]) * CHUNK, bytes([0]) * CHUNK
#: The first part of a stream, while TCP still opens its window, is not counted.
SETTLING_RATIO = 1 / 3
#: Unsent data that the kernel keeps: what a slow link has still to carry when the sender stops would take minutes.
_NOT_SENT_BYTES = 1 << 17
TIMEOUT_S = 30.0
#: A peer that is not known within it, whatever it said meanwhile, is let go.
GREETING_S = 5.0
#: No answer of ours is longer: a text, and what is asked for in words.
_MOST_TEXT, MOST_BYTES = 4096, 1 << 20


@dataclass(frozen=True, slots=True)
class Counted:
    """What a receiver counted of a stream."""

    size: int
    duration_ns: int

    @property
    def mbit_s(self) -> float:
        return self.size * 8e3 / self.duration_ns


def prepare(connection: socket.socket) -> None:
    """No byte waits for others; a host that is gone is noticed."""
    connection.settimeout(TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _NOT_SENT_BYTES)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 4)):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def proof(secret: bytes, side: bytes, far_nonce: bytes, near_nonce: bytes) -> bytes:
    """That a side knows the secret; each side's is another, so that none can be sent back."""
    return hmac.digest(secret, MAGIC + side + far_nonce + near_nonce, "sha256")


def greeting(far_nonce: bytes) -> bytes:
    """What the far side says first."""
    return MAGIC + far_nonce


def proof_for(secret: bytes, far_nonce: bytes, answer: bytes) -> bytes | None:
    """What the far side answers to who knows the secret, by its ``answer`` of ``ANSWER_BYTES``; None for others."""
    near = answer[:NONCE_BYTES]
    if not hmac.compare_digest(answer[NONCE_BYTES:], proof(secret, b"near", far_nonce, near)):
        return None
    return proof(secret, b"far", far_nonce, near)


def greet(connection: socket.socket, secret: bytes) -> None:
    """The near side's part; LoadError where the peer is no such listener, or knows another secret."""
    greeting = receive(connection, len(MAGIC) + NONCE_BYTES)
    far, near = greeting[len(MAGIC) :], secrets.token_bytes(NONCE_BYTES)
    if not greeting.startswith(MAGIC):
        raise LoadError("what answers there does not listen for links as this version does")
    connection.sendall(near + proof(secret, b"near", far, near))
    try:
        answer = receive(connection, PROOF_BYTES)
    except ConnectionError:
        raise LoadError("the other side did not take the secret: it is another listener's") from None
    if not hmac.compare_digest(answer, proof(secret, b"far", far, near)):
        raise LoadError("what answers there does not know the secret of the file: it is not who wrote it")


def receive(connection: socket.socket, size: int) -> bytes:
    """Exactly so many bytes; ConnectionError if it ends before."""
    data = bytearray(size)
    _fill(connection, memoryview(data))
    return bytes(data)


def send_text(connection: socket.socket, text: str) -> None:
    send_bytes(connection, text.encode())


def receive_text(connection: socket.socket) -> str:
    return receive_bytes(connection, _MOST_TEXT).decode()


def send_bytes(connection: socket.socket, data: bytes) -> None:
    connection.sendall(LENGTH.pack(len(data)) + data)


def receive_bytes(connection: socket.socket, most: int = MOST_BYTES) -> bytes:
    (size,) = LENGTH.unpack(receive(connection, LENGTH.size))
    if size > most:
        raise ConnectionError(f"it sent {size} bytes where at most {most} are due")
    return receive(connection, size)


def send_stream(connection: socket.socket, duration_s: float) -> None:
    """As much as goes in that time."""
    end = time.monotonic() + duration_s
    while time.monotonic() < end:
        connection.sendall(_MORE)
    connection.sendall(_LAST)


def receive_stream(connection: socket.socket) -> Counted:
    """Count a stream, without the part in which it settles; the whole of one that came in two pieces or one."""
    buffer = memoryview(bytearray(CHUNK))
    arrived = [(time.monotonic_ns(), 0)]
    while True:
        _fill(connection, buffer)
        arrived.append((time.monotonic_ns(), arrived[-1][1] + CHUNK))
        if buffer[0] == _LAST[0]:
            break
    ended_ns, size = arrived[-1]
    settled_ns = arrived[1][0] + (ended_ns - arrived[1][0]) * SETTLING_RATIO
    from_ns, before = next((piece for piece in arrived[1:-1] if piece[0] >= settled_ns), arrived[0])
    return Counted(size - before, max(1, ended_ns - from_ns))


def _fill(connection: socket.socket, buffer: memoryview) -> None:
    view = buffer
    while view:
        count = connection.recv_into(view)
        if not count:
            raise ConnectionError("the other side closed the connection")
        view = view[count:]
