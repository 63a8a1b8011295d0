"""What our gRPC servers share, whatever their protocol: the port, a request's way through the model, refusals."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.protocols.problem import RequestProblem
from inferbench_tasks.protocols.spans import HEADERS
from inferbench_tasks.protocols.traceparent import HEADER as TRACEPARENT
from inferbench_tasks.protocols.tracestate import HEADER as TRACESTATE
from inferbench_tasks.servers.model import ServedModel

QUEUE, INFERENCE, PREPROCESS, POSTPROCESS = HEADERS
AUTHORIZATION = "authorization"
Details = TypeVar("Details")


@dataclass(frozen=True, slots=True)
class Decoded(Generic[Details]):
    """A request's tensors, its batch size, and whatever its answer needs to know of it."""

    arrays: dict[str, Array]
    rows: int
    details: Details


class GrpcFront:
    """An asynchronous gRPC server beside the HTTP one, in the same process and on the same event loop.

    ``secret``: without it in the metadata, as HTTP has it in ``Authorization: Bearer``, nobody is answered; "":
    everybody is.
    """

    def __init__(self, model: ServedModel, version: str, secret: str = "") -> None:
        import grpc
        from grpc import aio

        self.grpc: Any = grpc
        self.model = model
        self.version = version
        self.server: Any = aio.server(
            options=[
                ("grpc.max_receive_message_length", model.config.max_request_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),
                ("grpc.max_concurrent_streams", 10_000),
            ],
            interceptors=[_guard(grpc, aio, secret)] if secret else [],
        )

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port. OSError where it can't be bound."""
        try:
            bound: int = self.server.add_insecure_port(f"{host}:{port}")
        except RuntimeError as error:
            raise OSError(98, str(error)) from error
        await self.server.start()
        return bound

    async def stop(self) -> None:
        """End the server and give running calls two seconds."""
        await self.server.stop(2)

    async def infer(
        self,
        context: Any,
        decode: Callable[[], Decoded[Details]],
        encode: Callable[[Decoded[Details], dict[str, Array]], Any],
    ) -> Any:
        """One request through the model; its spans come as trailing metadata, a refusal as a status."""
        recorder = self.model.recorder
        begun = recorder.begin() if recorder is not None else None
        started_ns = time.monotonic_ns()
        try:
            decoded = decode()
            decoded_ns = time.monotonic_ns()
            execution = await self.model.execute(decoded.arrays, decoded.rows)
        except RequestProblem as problem:
            self.model.statistics.failed(time.monotonic_ns() - started_ns)
            await context.abort(self._code(problem.status), str(problem))
            raise
        if execution.error is not None:
            error = execution.error
            text = f"inference failed: {type(error).__name__}: {error}"
            await context.abort(self.grpc.StatusCode.INTERNAL, text)
        resumed_ns = time.monotonic_ns()
        assert execution.outputs is not None
        answer = encode(decoded, execution.outputs)
        encoded_ns = time.monotonic_ns()
        if recorder is not None:
            told = context.invocation_metadata() or ()
            values = [value.encode() for key, value in told if key == TRACEPARENT]
            if values:
                states = [value.encode() for key, value in told if key == TRACESTATE]
                moments = (None, started_ns, decoded_ns, resumed_ns, encoded_ns)
                recorder.request(values, moments, execution, states, begun)
        preprocess_ns = decoded_ns - started_ns + execution.prepared_ns
        postprocess_ns = encoded_ns - resumed_ns + execution.finished_ns
        context.set_trailing_metadata(
            (
                (QUEUE, str(execution.queue_ns)),
                (INFERENCE, str(execution.infer_ns)),
                (PREPROCESS, str(preprocess_ns)),
                (POSTPROCESS, str(postprocess_ns)),
            )
        )
        return answer

    async def require(self, check: Callable[[], None], context: Any) -> None:
        """End the call with the right status where a check raises RequestProblem."""
        try:
            check()
        except RequestProblem as problem:
            await context.abort(self._code(problem.status), str(problem))

    def _code(self, status: int) -> Any:
        codes = self.grpc.StatusCode
        return {404: codes.NOT_FOUND, 503: codes.UNAVAILABLE}.get(status, codes.INVALID_ARGUMENT)


def _guard(grpc: Any, aio: Any, secret: str) -> Any:
    """What comes before every method, those too that there are not: a call without the secret is refused."""
    bearer = f"Bearer {secret}".encode()

    async def refuse(request: Any, context: Any) -> None:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "")

    refusal = grpc.unary_unary_rpc_method_handler(refuse)

    class Guard(aio.ServerInterceptor):  # type: ignore[misc]
        async def intercept_service(self, continuation: Any, details: Any) -> Any:
            for key, value in details.invocation_metadata or ():
                if key == AUTHORIZATION:
                    known = hmac.compare_digest(value.encode() if isinstance(value, str) else value, bearer)
                    return await continuation(details) if known else refusal
            return refusal

    return Guard()
