"""TCP read with the moment at which the kernel got the bytes: what the process waited for a core is not in it.

asyncio's transports and uvloop's read without ancillary data, so this reads by itself (``recvmsg``), whenever the loop
says that there is something. A read that holds several segments carries the last one's moment.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import time
from abc import abstractmethod
from typing import Any

from inferbench_tasks.timing.wall_clock import WallClock

#: Linux' number, on all of its 64-bit machines; Python names it from 3.14 on. Also the type of the message.
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@qq")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
_READ_BYTES = 256 * 1024
_NS = 1_000_000_000
#: Of bytes whose arrival the kernel did not tell.
NOT_STAMPED = -1


class StampedProtocol(asyncio.Protocol):
    """Whose connection may be read that way; ``data_received`` is for bytes that have no stamp."""

    @abstractmethod
    def received(self, data: memoryview | bytes, arrival_ns: int, waited_ns: int) -> None:
        """Bytes, valid during the call; when they arrived (CLOCK_MONOTONIC) and how long they waited to be read.

        ``waited_ns`` is ``NOT_STAMPED`` where the arrival is the moment of the read itself.
        """


class StampedReader:
    """What the connections of one loop share: the clock and the buffer, for only one of them reads at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: WallClock) -> None:
        self.loop = loop
        self.clock = clock
        self.view = memoryview(bytearray(_READ_BYTES))

    async def connect(self, host: str, port: int, protocol: StampedProtocol) -> None:
        """Connect a protocol; OSError if no address of the host takes it."""
        infos = await self.loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        failure: OSError | None = None
        for family, kind, number, _, address in infos:
            try:
                sock = socket.socket(family, kind, number)
            except OSError as error:  # of a family that this machine has not
                failure = error
                continue
            try:
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
                await self.loop.sock_connect(sock, address)
            except OSError as error:
                failure = error
                sock.close()
                continue
            except BaseException:
                sock.close()
                raise
            StampedTransport(self, sock, protocol)
            return
        raise failure or OSError(errno.EHOSTUNREACH, f"{host} has no address")


class StampedTransport:
    """As much of a transport as the connections of the fast clients use."""

    def __init__(self, reader: StampedReader, sock: socket.socket, protocol: StampedProtocol) -> None:
        self._loop = reader.loop
        self._clock = reader.clock
        self._view = reader.view
        self._views = [reader.view]
        self._sock = sock
        self._fd = sock.fileno()
        self._receive = sock.recvmsg_into
        self._protocol = protocol
        self._unsent = bytearray()
        self._closed = False
        protocol.connection_made(self)  # type: ignore[arg-type]
        self._loop.add_reader(self._fd, self._readable)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The socket, as of any transport."""
        return self._sock if name == "socket" else default

    def is_closing(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def write(self, data: bytes) -> None:
        """Send now what the kernel takes, the rest when it takes more."""
        if self._closed:
            return
        if not self._unsent:
            try:
                sent = self._sock.send(data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                self._close(error)
                return
            if sent == len(data):
                return
            data = data[sent:]
            self._loop.add_writer(self._fd, self._writable)
        self._unsent += data

    def abort(self) -> None:
        """Close at once."""
        self._close(None)

    def _writable(self) -> None:
        try:
            del self._unsent[: self._sock.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError as error:
            self._close(error)
            return
        if not self._unsent:
            self._loop.remove_writer(self._fd)

    def _readable(self) -> None:
        try:
            count, ancillary, _, _ = self._receive(self._views, _ANCILLARY_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._close(error)
            return
        now_ns = time.monotonic_ns()
        if not count:
            self._close(None)
            return
        arrival_ns = now_ns
        waited_ns = NOT_STAMPED
        if ancillary:
            seconds, nanoseconds = _TIMESPEC.unpack(ancillary[0][2])
            stamp_ns = seconds * _NS + nanoseconds - self._clock.offset_ns
            if stamp_ns <= now_ns:  # else the system's time was set since the last sample
                arrival_ns = stamp_ns
                waited_ns = now_ns - stamp_ns
        self._protocol.received(self._view[:count], arrival_ns, waited_ns)

    def _close(self, error: OSError | None) -> None:
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._fd)
        if self._unsent:
            self._loop.remove_writer(self._fd)
        self._sock.close()
        self._loop.call_soon(self._protocol.connection_lost, error)
