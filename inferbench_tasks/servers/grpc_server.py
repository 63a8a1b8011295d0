"""KServe v2 over gRPC, beside the HTTP server in the same process and on the same event loop."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from inferbench_tasks.servers.codec import DecodedRequest, Wanted
from inferbench_tasks.servers.datatypes import Array, pack_bytes
from inferbench_tasks.servers.kserve_proto import SERVICE, message
from inferbench_tasks.servers.model import ServedModel
from inferbench_tasks.servers.problem import RequestProblem
from inferbench_tasks.servers.signature import Signature, from_binary

#: Where the values of a datatype stand in InferTensorContents.
CONTENTS = {
    "BOOL": "bool_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


def decode(request: Any, signature: Signature) -> DecodedRequest:
    """A ModelInferRequest; RequestProblem names the field that is wrong."""
    arrays: dict[str, Array] = {}
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise RequestProblem(f"raw_input_contents: {len(raw)} given for {len(request.inputs)} inputs")
    for index, item in enumerate(request.inputs):
        tensor, shape = signature.input(item.name, item.datatype, list(item.shape))
        if tensor.name in arrays:
            raise RequestProblem(f"inputs: {tensor.name} is given twice")
        if raw:
            arrays[tensor.name] = from_binary(tensor, shape, raw[index])
            continue
        if tensor.datatype not in CONTENTS:
            raise RequestProblem(f"inputs.{tensor.name}: {tensor.datatype} goes into raw_input_contents")
        values = getattr(item.contents, CONTENTS[tensor.datatype])
        if len(values) != int(np.prod(shape)):
            raise RequestProblem(
                f"inputs.{tensor.name}.contents: {len(values)} values given, shape {list(shape)} "
                f"needs {int(np.prod(shape))}"
            )
        try:
            arrays[tensor.name] = np.array(values, dtype=tensor.dtype).reshape(shape)
        except OverflowError as error:
            raise RequestProblem(f"inputs.{tensor.name}.contents: {error}") from error
    wanted = tuple(Wanted(signature.output(item.name).name, True) for item in request.outputs)
    if not wanted:
        wanted = tuple(Wanted(name, True) for name in signature.outputs)
    return DecodedRequest(request.id, arrays, signature.batch_size(arrays), wanted)


def encode(model: ServedModel, request: DecodedRequest, outputs: dict[str, Array]) -> bytes:
    """A serialised ModelInferResponse with raw contents."""
    response = message("ModelInferResponse")(
        model_name=model.name, model_version=model.version, id=request.id
    )
    for want in request.wanted:
        array = np.ascontiguousarray(outputs[want.name])
        datatype = model.signature.outputs[want.name].datatype
        response.outputs.add(name=want.name, datatype=datatype, shape=array.shape)
        response.raw_output_contents.append(pack_bytes(array) if datatype == "BYTES" else array.tobytes())
    serialised: bytes = response.SerializeToString()
    return serialised


class GrpcServer:
    """The gRPC half of the server."""

    def __init__(self, model: ServedModel, version: str) -> None:
        import grpc
        from grpc import aio

        self._grpc = grpc
        self._model = model
        self._version = version
        limit = model.config.max_request_bytes
        self._server = aio.server(
            options=[
                ("grpc.max_receive_message_length", limit),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),
                ("grpc.max_concurrent_streams", 10_000),
            ]
        )
        calls: dict[str, tuple[str, Callable[[Any, Any], Awaitable[Any]]]] = {
            "ServerLive": ("ServerLive", self._live),
            "ServerReady": ("ServerReady", self._server_ready),
            "ModelReady": ("ModelReady", self._model_ready),
            "ServerMetadata": ("ServerMetadata", self._server_metadata),
            "ModelMetadata": ("ModelMetadata", self._metadata),
            "ModelInfer": ("ModelInfer", self._infer),
            "ModelStatistics": ("ModelStatistics", self._statistics),
        }
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                call,
                request_deserializer=message(f"{stem}Request").FromString,
                response_serializer=_serialise,
            )
            for name, (stem, call) in calls.items()
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port. OSError where it can't be bound."""
        try:
            bound: int = self._server.add_insecure_port(f"{host}:{port}")
        except RuntimeError as error:
            raise OSError(98, str(error)) from error
        await self._server.start()
        return bound

    async def stop(self) -> None:
        """End, giving running calls two seconds."""
        await self._server.stop(2)

    async def _infer(self, request: Any, context: Any) -> bytes:
        started_ns = time.monotonic_ns()
        model = self._model
        try:
            self._check(request.model_name, request.model_version)
            decoded = decode(request, model.signature)
            decoded_ns = time.monotonic_ns()
            execution = await model.execute(decoded.arrays, decoded.batch_size)
        except RequestProblem as problem:
            model.statistics.failed(time.monotonic_ns() - started_ns)
            await context.abort(self._code(problem.status), str(problem))
            raise
        if execution.error is not None:
            error = execution.error
            await context.abort(
                self._grpc.StatusCode.INTERNAL, f"inference failed: {type(error).__name__}: {error}"
            )
        resumed_ns = time.monotonic_ns()
        assert execution.outputs is not None
        answer = encode(model, decoded, execution.outputs)
        preprocess_ns = decoded_ns - started_ns + execution.input_ns
        postprocess_ns = time.monotonic_ns() - resumed_ns + execution.output_ns
        context.set_trailing_metadata(
            (
                ("x-inferbench-queue-ns", str(execution.queue_ns)),
                ("x-inferbench-inference-ns", str(execution.infer_ns)),
                ("x-inferbench-preprocess-ns", str(preprocess_ns)),
                ("x-inferbench-postprocess-ns", str(postprocess_ns)),
            )
        )
        return answer

    async def _live(self, request: Any, context: Any) -> Any:
        return message("ServerLiveResponse")(live=True)

    async def _server_ready(self, request: Any, context: Any) -> Any:
        return message("ServerReadyResponse")(ready=self._model.ready)

    async def _model_ready(self, request: Any, context: Any) -> Any:
        await self._require(request, context)
        return message("ModelReadyResponse")(ready=self._model.ready)

    async def _server_metadata(self, request: Any, context: Any) -> Any:
        return message("ServerMetadataResponse")(
            name="inferbench", version=self._version, extensions=["statistics"]
        )

    async def _metadata(self, request: Any, context: Any) -> Any:
        await self._require(request, context)
        return message("ModelMetadataResponse")(**self._model.metadata())

    async def _statistics(self, request: Any, context: Any) -> Any:
        if request.name:
            await self._require(request, context)
        model = self._model
        document = model.statistics.document(model.name, model.version)
        document.pop("processor_stats", None)  # the protocol has no field for them; HTTP tells them
        return message("ModelStatisticsResponse")(model_stats=[document])

    def _check(self, name: str, version: str) -> None:
        model = self._model
        if name != model.name or version not in ("", model.version):
            raise RequestProblem(
                f"model: {name or '(none)'} {version} is not served here; "
                f"known: {model.name}, version {model.version}",
                status=404,
            )

    async def _require(self, request: Any, context: Any) -> None:
        try:
            self._check(request.name, request.version)
        except RequestProblem as problem:
            await context.abort(self._code(problem.status), str(problem))

    def _code(self, status: int) -> Any:
        codes = self._grpc.StatusCode
        return {404: codes.NOT_FOUND, 503: codes.UNAVAILABLE}.get(status, codes.INVALID_ARGUMENT)


def _serialise(answer: Any) -> bytes:
    if isinstance(answer, bytes):
        return answer
    serialised: bytes = answer.SerializeToString()
    return serialised
