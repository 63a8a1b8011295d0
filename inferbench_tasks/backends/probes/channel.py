"""gRPC calls whose errors are the probes' own."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.backends.probes.base import Refused, max_answer_bytes
from inferbench_tasks.clients import unary
from inferbench_tasks.contracts.handles import Endpoint


class GrpcChannel:
    """Unary calls with a time limit, each over a connection of its own."""

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        self._endpoint = endpoint
        self._timeout_s = timeout_s

    def call(self, path: str, request: Any, response_class: Any) -> Any:
        """One call; ConnectionError where nobody answers in time, Refused with the server's words."""
        message = request.SerializeToString()
        try:
            answer = unary.ask(
                self._endpoint, path, message, timeout_s=self._timeout_s, max_bytes=max_answer_bytes()
            )
            return response_class.FromString(answer)
        except unary.RefusedCall as error:
            raise Refused(f"gRPC {error}") from error
        except ValueError as error:  # protobuf's DecodeError is one
            raise Refused(f"gRPC: the answer can't be read: {error}") from error
