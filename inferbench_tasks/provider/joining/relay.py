"""Connections of workers to what listens for the leader alone: TLS with a worker's certificate ends here.

The broker's Redis has no TLS of its own and MongoDB's port stays closed to others: who has no certificate that the
authority signed, for a token in force, gets no byte to either.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections import defaultdict
from collections.abc import Callable, Collection

from inferbench_tasks.errors import InferBenchError

log = logging.getLogger(__name__)

#: Host and port.
Place = tuple[str, int]

CHUNK_BYTES = 256 * 1024
LAST_BYTES_S = 10.0
#: Of one worker: a Celery worker, its tasks and MongoDB's pools have some thirty for each device.
MOST_OF_ONE = 1024
#: Seconds of silence, seconds between questions, and how many of them.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}


class Relay:
    """``admits``: whether the worker of that token may connect now."""

    def __init__(self, admits: Callable[[str], bool]) -> None:
        self._admits = admits
        self._open: dict[str, set[asyncio.Task[None]]] = defaultdict(set)

    async def listen(
        self, host: str, port: int, context: ssl.SSLContext, target: Callable[[], Place], name: str
    ) -> asyncio.Server:
        """``target``: where to, asked for each connection. Raises OSError where ours is taken."""

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            worker = peer_name(writer)
            task = asyncio.current_task()
            assert task is not None
            mine = self._open[worker]
            if len(mine) >= MOST_OF_ONE or not self._admits(worker):
                log.warning("refused %s token=%s connections=%d", name, worker, len(mine))
                writer.transport.abort()
                return
            mine.add(task)
            _keep_alive(writer)
            try:
                await _joined(reader, writer, await asyncio.to_thread(target))
            except (OSError, InferBenchError, asyncio.CancelledError) as error:
                log.info("%s of %s ended: %s", name, worker, type(error).__name__)
            finally:
                mine.discard(task)
                writer.transport.abort()

        return await asyncio.start_server(connected, host, port, ssl=context, limit=CHUNK_BYTES)

    def cut(self, active: Collection[str]) -> list[str]:
        """End all connections of workers other than these; their tokens' ids."""
        gone = [worker for worker, tasks in self._open.items() if tasks and worker not in active]
        for worker in gone:
            for task in list(self._open[worker]):
                task.cancel()
        return gone


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    """A host that was switched off says no goodbye: after some two minutes its connections end."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEP_ALIVE.items():
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def peer_name(writer: asyncio.StreamWriter) -> str:
    """The token's id in a peer's certificate, which the handshake has verified."""
    certificate = writer.get_extra_info("peercert") or {}
    subject = {key: value for names in certificate.get("subject", ()) for key, value in names}
    return str(subject.get("commonName", ""))


async def _joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, place: Place) -> None:
    inner_reader, inner_writer = await asyncio.open_connection(*place, limit=CHUNK_BYTES)
    ways = [
        asyncio.create_task(_copied(reader, inner_writer)),
        asyncio.create_task(_copied(inner_reader, writer)),
    ]
    try:
        # None of the three protocols goes on in one direction after the other has ended.
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        with contextlib.suppress(OSError):
            await asyncio.wait_for(writer.drain(), LAST_BYTES_S)
            writer.close()
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        inner_writer.close()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
