"""Connections on their way to TLS: anybody may open one, and each has memory, so they are few and short."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

log = logging.getLogger(__name__)

HANDSHAKE_S = 5.0
#: At once: of all, and of one address, where a worker for each of eight GPUs may start together.
MOST, MOST_OF_ONE = 256, 64


class Handshakes:
    """Those that are under way, by address."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    @contextmanager
    def one(self, address: str) -> Iterator[bool]:
        """Whether there is room for another of that address; while it lasts, it is counted."""
        if self._open.total() >= MOST or self._open[address] >= MOST_OF_ONE:
            yield False
            return
        self._open[address] += 1
        try:
            yield True
        finally:
            self._open[address] -= 1
            self._open += Counter()  # addresses that have none


class Loop(asyncio.SelectorEventLoop):
    """asyncio's own, which has no such bound, and no one place for it before the handshake but this method.

    It returns when the handshake has ended, for each connection that any server of the loop accepts.
    """

    def __init__(self) -> None:
        super().__init__()
        self._handshakes = Handshakes()

    async def _accept_connection2(
        self, factory: Any, connection: socket.socket, extra: dict[str, Any], *more: Any, **named: Any
    ) -> None:
        address = str(extra["peername"][0])
        with self._handshakes.one(address) as room:
            if not room:
                log.debug("too many handshakes peer=%s", address)
                connection.close()
                return
            async with asyncio.timeout(HANDSHAKE_S):
                await super()._accept_connection2(factory, connection, extra, *more, **named)  # type: ignore[misc]
