"""OTLP over gRPC: ``TraceService/Export``, packed by gzip, one call at a time over one channel."""

from __future__ import annotations

import asyncio
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require
from inferbench_tasks.protocols import otlp_proto
from inferbench_tasks.tracing.push.base import TIMEOUT_S, Answer, Later, Refused, shortened, taken
from inferbench_tasks.tracing.push.target import Target

METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
CONNECT_S = 5.0
_STATUS = "grpc-status-details-bin"
_RETRY_INFO = "google.rpc.RetryInfo"
#: What may be asked again (OTLP, "OTLP/gRPC Response"); RESOURCE_EXHAUSTED only with the moment to do so.
_AGAIN = {"CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS"}
#: Of these those that a collector says of what it did not take.
_NOT_TAKEN = {"UNAVAILABLE", "RESOURCE_EXHAUSTED"}
#: Of one request alone; others are of all.
_OF_ONE = {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"}
#: After a failure the channel's state is looked at so much later: it may change behind the call's.
_SETTLED_S = 0.05


class GrpcReceiver:
    """See ``base.Receiver``. Calls have an event loop of their own: only there grpcio tells a channel's state."""

    def __init__(self, target: Target) -> None:
        require("grpc")
        if binary := [name for name in target.headers if name.endswith("-bin")]:
            raise InputError(f"the header {binary[0]} has bytes as its value; texts are sent", field="--to")
        self.address = f"grpc{'s' if target.encrypted else ''}://{target.address}"
        self._metadata = tuple(target.headers.items())
        self._loop = asyncio.Runner()
        self._channel = self._loop.run(_channel(target))
        self._export: Any = self._channel.unary_unary(METHOD)

    def close(self) -> None:
        self._loop.run(self._channel.close())
        self._loop.close()

    def send(self, content: bytes) -> Answer:
        return self._loop.run(self._send(content))

    async def _send(self, content: bytes) -> Answer:
        import grpc

        try:
            await asyncio.wait_for(self._channel.channel_ready(), CONNECT_S)
        except TimeoutError:
            return Later(f"it can't be reached: {await self._why()}")
        try:
            return taken(await self._export(content, timeout=TIMEOUT_S, metadata=self._metadata))
        except grpc.aio.AioRpcError as error:
            await asyncio.sleep(_SETTLED_S)
            return _read(error, answered=self._channel.get_state() is grpc.ChannelConnectivity.READY)

    async def _why(self) -> str:
        """Why there is no connection: what a call without spans fails of, which does not wait for one."""
        import grpc

        try:
            await self._export(b"", timeout=1.0, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            return shortened(error.details() or error.code().name)
        return f"it took more than {CONNECT_S:g} s"


async def _channel(target: Target) -> Any:
    import grpc

    options = [
        ("grpc.enable_retries", 0),  # they are made here, where they are counted
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.max_reconnect_backoff_ms", 2000),
        ("grpc.primary_user_agent", "inferbench"),
    ]
    gzip = grpc.Compression.Gzip
    if target.encrypted:
        return grpc.aio.secure_channel(target.address, grpc.ssl_channel_credentials(), options, gzip)
    return grpc.aio.insecure_channel(target.address, options, gzip)


def _read(error: Any, answered: bool) -> Answer:
    """``answered``: whether the connection is still there, so that the status is the collector's own: the end of one
    has the same code as a collector that is busy."""
    code = str(error.code().name)
    reason = f"{code}: {shortened(error.details() or '')}"
    after_s = retry_delay_s(error.trailing_metadata() or ())
    if code in _AGAIN or (code == "RESOURCE_EXHAUSTED" and after_s is not None):
        return Later(reason, after_s, unsure=not answered or code not in _NOT_TAKEN)
    return Refused(reason, all=code not in _OF_ONE)


def retry_delay_s(trailers: Any) -> float | None:
    """When to ask again, of the trailers' ``google.rpc.Status``; None where they do not say."""
    from google.protobuf.message import DecodeError

    for name, value in trailers:
        if name != _STATUS:
            continue
        try:
            for each in otlp_proto.message("RpcStatus").FromString(value).details:
                if each.type_url.rpartition("/")[2] == _RETRY_INFO:
                    delay = otlp_proto.message("RetryInfo").FromString(each.value).retry_delay
                    return max(0.0, float(delay.seconds + delay.nanos / 1e9))
        except DecodeError:
            return None
    return None
