"""OTLP over gRPC: ``TraceService/Export``, packed by gzip, one call at a time over one channel."""

from __future__ import annotations

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
#: Of one request alone; others are of all.
_OF_ONE = {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"}
#: How grpcio tells an answer from the end of a connection, which has the same code.
_FROM_PEER = "received from peer"


class GrpcReceiver:
    """See ``base.Receiver``."""

    def __init__(self, target: Target) -> None:
        require("grpc")
        import grpc

        if binary := [name for name in target.headers if name.endswith("-bin")]:
            raise InputError(f"the header {binary[0]} has bytes as its value; texts are sent", field="--to")
        self.address = f"grpc{'s' if target.encrypted else ''}://{target.address}"
        self._grpc: Any = grpc
        self._metadata = tuple(target.headers.items())
        options = [
            ("grpc.enable_retries", 0),  # they are made here, where they are counted
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.max_reconnect_backoff_ms", 2000),
            ("grpc.primary_user_agent", "inferbench"),
        ]
        gzip = grpc.Compression.Gzip
        self._channel: Any = (
            grpc.secure_channel(target.address, grpc.ssl_channel_credentials(), options, gzip)
            if target.encrypted
            else grpc.insecure_channel(target.address, options, gzip)
        )
        self._export: Any = self._channel.unary_unary(METHOD)

    def close(self) -> None:
        self._channel.close()

    def send(self, content: bytes) -> Answer:
        ready = self._grpc.channel_ready_future(self._channel)
        try:
            ready.result(timeout=CONNECT_S)
        except self._grpc.FutureTimeoutError:
            return Later(f"it can't be reached: no connection in {CONNECT_S:g} s")
        finally:
            ready.cancel()
        try:
            return taken(self._export(content, timeout=TIMEOUT_S, metadata=self._metadata))
        except self._grpc.RpcError as error:
            return _read(error)


def _read(error: Any) -> Answer:
    code = str(error.code().name)
    reason = f"{code}: {shortened(error.details() or '')}"
    after_s = retry_delay_s(error.trailing_metadata() or ())
    if code in _AGAIN or (code == "RESOURCE_EXHAUSTED" and after_s is not None):
        refused = _FROM_PEER in error.debug_error_string() and code in ("UNAVAILABLE", "RESOURCE_EXHAUSTED")
        return Later(reason, after_s, unsure=not refused)
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
                    return max(0.0, delay.seconds + delay.nanos / 1e9)
        except DecodeError:
            return None
    return None
