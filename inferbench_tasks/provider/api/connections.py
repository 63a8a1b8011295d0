"""What a connection may be: how long it may say nothing whole, how much, and how many of those there are.

uvicorn has no limit on the time or size of a request's head, and none on how long an answer waits to be read.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: From a connection's begin, or a request's first byte, to the end of its head.
HEAD_PATIENCE_S = 20.0
#: How long an answer may wait for its reader to take the next 48 KiB of it.
READER_PATIENCE_S = 60.0
#: Of a request without its body: line, headers, trailers, and what frames a body's chunks beyond the body's own size.
MAX_BARE_BYTES = 64 * 1024
#: Connections that wait for their peer (idle, with half a head or body, with an answer that nobody reads): of more, the
#: address that has the most loses its oldest. Half the usual limit of open files (1,024).
MAX_WAITING = 512
_REASONS = {408: "Request Timeout", 431: "Request Header Fields Too Large"}


class BoundedConnection(HttpToolsProtocol):
    """uvicorn's, with these limits; of a refused request without a whole head it answers 408 or 431, and closes."""

    head_patience_s, reader_patience_s, max_waiting = HEAD_PATIENCE_S, READER_PATIENCE_S, MAX_WAITING

    def connection_made(self, transport: Any) -> None:
        """A newcomer is let in, whoever has to go for it."""
        super().connection_made(transport)
        self.began_s = time.monotonic()
        self._bare_bytes = 0
        self._reader_timer: asyncio.TimerHandle | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._expect_head()
        if len(self.connections) > self.max_waiting:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Its timers would keep it alive."""
        self._stop_timers()
        super().connection_lost(exc)

    @property
    def waits_for_peer(self) -> bool:
        """Whether it is the peer's turn: to send (the rest of) a request, or to read an answer."""
        if self.transport.is_closing():
            return False
        answering = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        return not answering or self._reader_timer is not None

    def data_received(self, data: bytes) -> None:
        """Bytes that are no body count, however they are spread."""
        self._bare_bytes += len(data)
        super().data_received(data)
        if self._bare_bytes > MAX_BARE_BYTES:
            self._refuse(431)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect_head()

    def on_headers_complete(self) -> None:
        self._stop_head_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        # Twice: each byte of it, and as much again for what frames it.
        self._bare_bytes -= 2 * len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._bare_bytes = 0
        super().on_message_complete()

    def pause_writing(self) -> None:
        """The reader of an answer is behind."""
        super().pause_writing()
        if self._reader_timer is None:
            self._reader_timer = self.loop.call_later(self.reader_patience_s, self.transport.abort)

    def resume_writing(self) -> None:
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None
        super().resume_writing()

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_patience_s, self._refuse, 408)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_timers(self) -> None:
        self._stop_head_timer()
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def _refuse(self, status: int) -> None:
        """Say why, unless another request's answer is under way, and close."""
        self._stop_head_timer()
        if self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.abort()
            return
        head = f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode())
        self.transport.close()

    def _make_room(self) -> None:
        waiting = [c for c in self.connections if isinstance(c, BoundedConnection) and c.waits_for_peer]
        if len(waiting) <= self.max_waiting:
            return
        ((host, _),) = Counter(c.host for c in waiting).most_common(1)
        min((c for c in waiting if c.host == host), key=lambda c: c.began_s).transport.abort()

    @property
    def host(self) -> str:
        """Whose connection it is: the address of the peer, a proxy's where there is one."""
        return self.client[0] if self.client else ""
