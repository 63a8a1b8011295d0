"""Connections that are opened when they are needed, and opened again when the server closed them."""

from __future__ import annotations

import asyncio
import ssl
from abc import abstractmethod
from typing import Any, Generic, Protocol, TypeVar

from inferbench_tasks.clients.base import RECONNECT_DELAY_S, Client


class Connection(Protocol):
    """What a pool needs to know of a connection."""

    async def established(self) -> None:
        """Return once requests can be sent; OSError if that will never be."""

    def drop(self) -> None:
        """Close without a word to anybody."""


C = TypeVar("C", bound=Connection)


class Pool(Client, Generic[C]):
    """Up to ``settings.connections`` connections.

    Where one can't be made there is a pause before the next attempt, so that a dead server is not
    hammered; if none is left either, everything that waits has failed (``Sink.unreachable``).
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._all: set[C] = set()
        self._connecting = 0
        self._retry: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        #: Of connections that are encrypted.
        self.tls: ssl.SSLContext | None = None
        self.finish = self._sink.finish
        self.explain = self._sink.explain
        self.check = self._check

    @abstractmethod
    def make(self) -> C:
        """The protocol of a new connection, not yet connected."""

    async def dial(self) -> C:
        """A new connection over TCP; OSError where there is none."""
        endpoint = self.settings.endpoint
        # A protocol object is what the loop wants; ours says so by what it does.
        factory: Any = self.make
        _, connection = await self._loop.create_connection(
            factory, endpoint.host, endpoint.port, ssl=self.tls
        )
        protocol: C = connection
        return protocol

    @abstractmethod
    def free(self, connection: C) -> None:
        """Say that this connection can take a request."""

    async def open(self, connections: int) -> None:
        count = min(connections, self.settings.connections)
        results = await asyncio.gather(*(self._connect() for _ in range(count)), return_exceptions=True)
        if not self._all:
            endpoint = self.settings.endpoint
            cause = next(r for r in results if isinstance(r, BaseException))
            text = str(cause) or "no answer in time"
            raise ConnectionError(f"no connection to {endpoint.host}:{endpoint.port}: {text}") from cause

    def want(self, waiting: int) -> None:
        if self._retry is not None or self._closed:
            return
        room = self.settings.connections - len(self._all) - self._connecting
        for _ in range(min(waiting - self._connecting, room)):
            self._connecting += 1
            task = self._loop.create_task(self._grow())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in list(self._all):
            connection.drop()
        await asyncio.sleep(0)

    def lost(self, connection: C) -> None:
        """That connection is no more; harmless when told twice."""
        self._all.discard(connection)

    async def _connect(self) -> None:
        async def establish() -> C:
            protocol = await self.dial()
            try:
                await protocol.established()
            except BaseException:
                protocol.drop()  # it took too long, or broke the rules: it must not stay open
                raise
            return protocol

        connection = await asyncio.wait_for(establish(), self.settings.connect_timeout_s)
        self._all.add(connection)
        self.free(connection)

    async def _grow(self) -> None:
        try:
            await self._connect()
        except OSError as error:  # TimeoutError is one of them
            self._connecting -= 1
            if self._retry is None and not self._closed:
                self._retry = self._loop.call_later(RECONNECT_DELAY_S, self._try_again)
                if not self._all:
                    self._sink.unreachable(str(error) or "no answer to the attempt to connect")
            return
        self._connecting -= 1
        self._sink.ready()

    def _try_again(self) -> None:
        self._retry = None
        self._sink.ready()
