"""One question to a server over HTTP that ends: at most so many bytes, headers included, within so many seconds.

``http.client`` bounds neither: its timeout is each read's, it follows announcements (1xx) for ever, and reads whatever
body comes.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
from typing import Any

from inferbench_tasks.protocols.bounds import HEAD_BYTES


class TooMuch(http.client.HTTPException):
    """The server sends more than is read of it."""


class _Socket:
    """What ``http.client`` needs of a socket; the stream lives until the last reader of it is closed."""

    def __init__(self, connection: BoundedConnection, stream: socket.socket) -> None:
        self._connection = connection
        self._stream = stream
        self._readers = 0
        self._closed = False

    def sendall(self, data: bytes) -> None:
        self._stream.settimeout(self._connection.left_s())
        self._stream.sendall(data)  # its timeout is the whole call's

    def makefile(self, mode: str) -> io.BufferedReader:
        self._readers += 1
        return io.BufferedReader(_Reader(self), 1 << 16)

    def receive_into(self, buffer: Any) -> int:
        """Some bytes of the answer, within the question's time and size."""
        self._stream.settimeout(self._connection.left_s())
        size = self._stream.recv_into(buffer)
        self._connection.count(size)
        return size

    def reader_closed(self) -> None:
        self._readers -= 1
        self._end()

    def close(self) -> None:
        self._closed = True
        self._end()

    def _end(self) -> None:
        if self._closed and not self._readers:
            self._stream.close()


class _Reader(io.RawIOBase):
    """A socket's bytes up to a number and a moment."""

    def __init__(self, source: _Socket) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._source.receive_into(buffer)

    def close(self) -> None:
        if not self.closed:
            self._source.reader_closed()
        super().close()


class BoundedConnection(http.client.HTTPConnection):
    """A connection to ``host:port``, or to a Unix socket. Every question to it has ``timeout_s`` in all."""

    def __init__(self, host: str, port: int, timeout_s: float, *, unix_path: str | None = None) -> None:
        super().__init__(host, port)
        self._timeout_s = timeout_s
        self._unix_path = unix_path
        self._deadline_s = 0.0
        self._left_bytes = 0

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        *,
        max_bytes: int,
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers (names in small letters) and body.

        OSError where nobody answers in time, HTTPException where it is no HTTP; TooMuch, which is one, where the
        headers have more than 64 KB or the body more than ``max_bytes``. After an error the connection is closed.
        """
        self._deadline_s = time.monotonic() + self._timeout_s
        self._left_bytes = HEAD_BYTES + max_bytes
        try:
            self.request(method, path, body, headers or {})
            with self.getresponse() as response:
                answer_headers = {key.lower(): value for key, value in response.getheaders()}
                answer = response.read(max_bytes + 1)
                if len(answer) > max_bytes:
                    raise TooMuch(f"more than {max_bytes:,} bytes")
                if response.length:
                    raise http.client.IncompleteRead(b"", response.length)
                status = response.status
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        except (ValueError, OverflowError) as error:  # a chunk's size, a status or a length that is no number
            self.close()
            raise http.client.HTTPException(f"not HTTP: {error}") from error
        return status, answer_headers, answer

    def connect(self) -> None:
        if self._unix_path is None:
            stream = socket.create_connection((self.host, self.port), timeout=self.left_s())
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            stream = socket.socket(socket.AF_UNIX)
            try:
                stream.settimeout(self.left_s())
                stream.connect(self._unix_path)
            except BaseException:
                stream.close()
                raise
        self.sock: Any = _Socket(self, stream)

    def count(self, size: int) -> None:
        """TooMuch once the answer has more bytes than its headers and its body may have together."""
        self._left_bytes -= size
        if self._left_bytes < -(1 << 16):  # so much may be read ahead of what is taken
            raise TooMuch("more bytes than an answer may have")

    def left_s(self) -> float:
        """What is left of the question's time; TimeoutError where nothing is."""
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"no whole answer in {self._timeout_s:g} s")
        return left_s
