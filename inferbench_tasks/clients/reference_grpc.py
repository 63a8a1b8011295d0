"""gRPC by grpc.aio, with messages that are bytes already."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from inferbench_tasks.clients.base import OK, Call
from inferbench_tasks.clients.grpc_message import METHODS, PREFIX_BYTES, frame
from inferbench_tasks.clients.tasks import TaskClient

#: Calls that may be under way on one channel.
STREAMS_PER_CHANNEL = 1000
#: Messages of any size, a connection for each channel, and no long wait before a connection is tried again.
CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 100),
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
            channel = self._grpc.aio.insecure_channel(endpoint.url, options=CHANNEL_OPTIONS)
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
        try:
            answer: bytes = await self._calls[self._turn](message, timeout=self.settings.timeout_ns / 1e9)
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
