"""gRPC on raw HTTP/2: requests are bytes already, frames are written as they are, little is looked at."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.clients import http2
from inferbench_tasks.clients.base import Call
from inferbench_tasks.clients.grpc_connection import GrpcConnection
from inferbench_tasks.clients.grpc_form import RequestForm
from inferbench_tasks.clients.grpc_message import METHODS
from inferbench_tasks.clients.pool import Pool
from inferbench_tasks.contracts.handles import Endpoint

#: One request in so many goes round the connections, so that a new connection fills up.
_ROUND = 16


class GrpcClient(Pool[GrpcConnection]):
    """Requests go round the connections; one that the server closes is replaced.

    A request that an answer gave rise to goes mostly where the answer came from: it leaves in one write
    with the others of its kind.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        endpoint = self.settings.endpoint
        self.loop = self._loop
        self.blocks = http2.HeaderBlocks()
        self.request = request_form(endpoint, METHODS[endpoint.protocol], self.settings.timeout_ns)
        self._usable: list[GrpcConnection] = []
        #: Take no more requests, but some are under way on them.
        self.retired: set[GrpcConnection] = set()
        #: Whose answers are being read.
        self.answering: GrpcConnection | None = None
        #: Bytes of answers that are not complete, of all connections.
        self.held = 0
        self._turn = 0
        self._stayed = 0

    async def close(self) -> None:
        for connection in list(self.retired):
            connection.drop()
        await super().close()

    def make(self) -> GrpcConnection:
        return GrpcConnection(self)

    def send(self, call: Call) -> bool:
        answering = self.answering
        if answering is not None:
            self._stayed += 1
            if self._stayed < _ROUND and answering.send(call):
                return True
            self._stayed = 0
        usable = self._usable
        count = len(usable)
        for _ in range(count):
            self._turn = turn = (self._turn + 1) % count
            if usable[turn].send(call):
                return True
            if len(usable) != count:  # that one is used up
                return self.send(call)
        return False

    def abandon(self, call: Call) -> None:
        where, call.connection = call.connection, None
        if isinstance(where, tuple):
            connection, stream_id = where
            connection.abandon(stream_id)

    def refused(self, call: Call) -> None:
        """The server did not look at it. Once more, a moment later, so that nobody is hammered."""
        self._loop.call_later(0.001, self._sink.again, call)

    def free(self, connection: GrpcConnection) -> None:
        self._usable.append(connection)

    def lost(self, connection: GrpcConnection) -> None:
        super().lost(connection)
        if connection in self._usable:
            self._usable.remove(connection)
            self.replace()

    def replace(self) -> None:
        """Open as many connections as are missing."""
        if not self._closed:
            self.want(self.settings.connections - len(self._all))


def request_form(endpoint: Endpoint, path: str, timeout_ns: int) -> RequestForm:
    """The head of every request for a method; ``timeout_ns`` is what the server is told.

    A server that is asked for by a secret has it with each request: header blocks refer to nothing before them.
    """
    secret = http2.literal(endpoint.metadata_key, f"Bearer {endpoint.secret}") if endpoint.secret else b""
    return RequestForm(
        b"".join(
            (
                b"\x83\x86",  # :method POST, :scheme http (from the static table)
                http2.literal(":path", path),
                http2.literal(":authority", endpoint.url),
                http2.literal("te", "trailers"),
                http2.literal("content-type", "application/grpc"),
                http2.literal("grpc-timeout", _timeout(timeout_ns)),
                http2.literal("user-agent", "inferbench"),
                secret,
            )
        )
    )


def _timeout(timeout_ns: int) -> str:
    """``grpc-timeout``: at most eight digits and a unit."""
    ms = max(1, timeout_ns // 1_000_000)
    return f"{ms}m" if ms < 100_000_000 else f"{ms // 1000}S"
