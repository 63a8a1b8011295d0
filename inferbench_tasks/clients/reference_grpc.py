"""gRPC by grpc.aio, with messages that are bytes already."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from inferbench_tasks.clients.base import OK, Call
from inferbench_tasks.clients.grpc_message import METHODS, PREFIX_BYTES, frame
from inferbench_tasks.clients.tasks import TaskClient
from inferbench_tasks.protocols.bounds import HEAD_BYTES

#: Calls that may be under way on one channel.
STREAMS_PER_CHANNEL = 1000
#: Requests of any size, a connection for each channel, and no long wait before a connection is tried again.
CHANNEL_OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 100),
]


def channel_options(max_answer_bytes: int) -> list[tuple[str, int]]:
    """A channel's options: of answers and their metadata only so much is read."""
    return [
        *CHANNEL_OPTIONS,
        ("grpc.max_receive_message_length", min(max_answer_bytes, 2**31 - 1)),
        ("grpc.absolute_max_metadata_size", HEAD_BYTES),
    ]


class ReferenceGrpcClient(TaskClient):
    """As many channels as connections are allowed, each with a connection of its own."""

    extra: ClassVar[str] = "grpc"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        import grpc

        self._grpc = grpc
        self._channels: list[Any] = []
        self._calls: list[Any] = []
        self._turn = 0
        self.in_flight_limit = self.settings.connections * STREAMS_PER_CHANNEL

    async def open(self, connections: int) -> None:
        endpoint = self.settings.endpoint
        for _ in range(connections):
            options = channel_options(self._check.max_bytes)
            channel = self._grpc.aio.insecure_channel(endpoint.url, options=options)
            self._channels.append(channel)
            try:
                await asyncio.wait_for(channel.channel_ready(), self.settings.connect_timeout_s)
            except TimeoutError as error:
                await self.close()
                raise ConnectionError(f"no connection to {endpoint.url}") from error
        self._calls = [channel.unary_unary(METHODS[endpoint.protocol]) for channel in self._channels]

    async def exchange(self, call: Call) -> tuple[str, bytes]:
        self._turn = (self._turn + 1) % len(self._calls)
        message = call.payload.wire[PREFIX_BYTES:]
        timeout_s = self.settings.timeout_ns / 1e9
        try:
            answer: bytes = await self._calls[self._turn](
                message, timeout=timeout_s, metadata=call.payload.metadata or None
            )
        except self._grpc.aio.AioRpcError as error:
            status = f"grpc_{error.code().name.lower()}"
            self._sink.explain(status, error.details() or "")
            return status, b""
        call.bytes_received = len(answer) + PREFIX_BYTES
        return OK, frame(answer)

    async def close(self) -> None:
        await super().close()
        for channel in self._channels:
            await channel.close()
        self._channels.clear()
