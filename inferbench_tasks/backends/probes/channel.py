"""A gRPC channel whose errors are the probes' own."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.backends.probes.base import Refused, max_answer_bytes
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.extras import require
from inferbench_tasks.protocols.bounds import HEAD_BYTES

OPTIONS = [
    ("grpc.absolute_max_metadata_size", HEAD_BYTES),
    ("grpc.max_send_message_length", -1),
    # A starting server is asked again and again: gRPC's own pauses between attempts would hide its readiness.
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 100),
    ("grpc.use_local_subchannel_pool", 1),
]


class GrpcChannel:
    """A gRPC channel for unary calls with a time limit."""

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        require("grpc")
        import grpc

        self._grpc = grpc
        self._url = endpoint.url
        self._timeout_s = timeout_s
        options = [*OPTIONS, ("grpc.max_receive_message_length", min(max_answer_bytes(), 2**31 - 1))]
        self._channel = grpc.insecure_channel(endpoint.url, options=options)

    def call(self, path: str, request: Any, response_class: Any) -> Any:
        """One call; ConnectionError where nobody answers in time, Refused with the server's words."""
        method = self._channel.unary_unary(
            path,
            request_serializer=lambda value: value.SerializeToString(),
            response_deserializer=response_class.FromString,
        )
        try:
            return method(request, timeout=self._timeout_s)
        except self._grpc.RpcError as error:
            codes = self._grpc.StatusCode
            if error.code() in (codes.UNAVAILABLE, codes.DEADLINE_EXCEEDED, codes.CANCELLED):
                raise ConnectionError(f"{self._url}: {error.code().name}: {error.details()}") from error
            raise Refused(f"gRPC {error.code().name}: {error.details()}") from error

    def close(self) -> None:
        """Close the gRPC channel to the server."""
        self._channel.close()
