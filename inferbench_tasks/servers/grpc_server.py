"""KServe v2 over gRPC, beside the HTTP server in the same process and on the same event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from inferbench_tasks.protocols.datatypes import Array, pack_bytes
from inferbench_tasks.protocols.kserve_proto import SERVICE, message
from inferbench_tasks.protocols.problem import RequestProblem
from inferbench_tasks.protocols.shared_memory import REGION
from inferbench_tasks.servers.codec import DecodedRequest, RequestedOutput
from inferbench_tasks.servers.grpc_front import Decoded, GrpcFront
from inferbench_tasks.servers.model import ServedModel
from inferbench_tasks.servers.shared_memory import Regions, refuse_output
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


def decode(request: Any, signature: Signature, regions: Regions) -> DecodedRequest:
    """A ModelInferRequest; RequestProblem names the field that is wrong."""
    arrays: dict[str, Array] = {}
    raw = request.raw_input_contents
    carried = sum(REGION not in item.parameters for item in request.inputs)
    if raw and len(raw) != carried:
        raise RequestProblem(f"raw_input_contents: {len(raw)} given for {carried} inputs")
    contents = iter(raw)
    for item in request.inputs:
        tensor, shape = signature.input(item.name, item.datatype, list(item.shape))
        if tensor.name in arrays:
            raise RequestProblem(f"inputs: {tensor.name} is given twice")
        shared = regions.view(_parameters(item), f"inputs.{tensor.name}") if item.parameters else None
        if shared is not None:
            arrays[tensor.name] = from_binary(tensor, shape, shared)
            continue
        if raw:
            arrays[tensor.name] = from_binary(tensor, shape, next(contents))
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
    for item in request.outputs:
        refuse_output(item.parameters, f"outputs.{item.name}")
    outputs = tuple(RequestedOutput(signature.output(item.name).name, True) for item in request.outputs)
    if not outputs:
        outputs = tuple(RequestedOutput(name, True) for name in signature.outputs)
    return DecodedRequest(request.id, arrays, signature.batch_size(arrays), outputs)


def _parameters(tensor: Any) -> dict[str, Any]:
    """A tensor's parameters as plain values; one without a value is None."""
    choices = {name: value.WhichOneof("choice") for name, value in tensor.parameters.items()}
    return {
        name: getattr(tensor.parameters[name], choice) if choice else None for name, choice in choices.items()
    }


def encode(model: ServedModel, request: DecodedRequest, outputs: dict[str, Array]) -> bytes:
    """A serialised ModelInferResponse with raw contents."""
    response = message("ModelInferResponse")(
        model_name=model.name, model_version=model.version, id=request.id
    )
    for output in request.outputs:
        array = np.ascontiguousarray(outputs[output.name])
        datatype = model.signature.outputs[output.name].datatype
        response.outputs.add(name=output.name, datatype=datatype, shape=array.shape)
        response.raw_output_contents.append(pack_bytes(array) if datatype == "BYTES" else array.tobytes())
    serialised: bytes = response.SerializeToString()
    return serialised


class GrpcServer(GrpcFront):
    """The gRPC half of the server: KServe v2's ``GRPCInferenceService``."""

    def __init__(self, model: ServedModel, version: str, secret: str = "") -> None:
        super().__init__(model, version, secret)
        calls: dict[str, Callable[[Any, Any], Awaitable[Any]]] = {
            "ServerLive": self._live,
            "ServerReady": self._server_ready,
            "ModelReady": self._model_ready,
            "ServerMetadata": self._server_metadata,
            "ModelMetadata": self._metadata,
            "ModelInfer": self._infer,
            "ModelStatistics": self._statistics,
            "SystemSharedMemoryStatus": self._regions,
            "SystemSharedMemoryRegister": self._register,
            "SystemSharedMemoryUnregister": self._unregister,
        }
        handlers = {
            name: self.grpc.unary_unary_rpc_method_handler(
                call,
                request_deserializer=message(f"{name}Request").FromString,
                response_serializer=_serialise,
            )
            for name, call in calls.items()
        }
        self.server.add_generic_rpc_handlers((self.grpc.method_handlers_generic_handler(SERVICE, handlers),))

    async def _infer(self, request: Any, context: Any) -> Any:
        def decoded() -> Decoded[DecodedRequest]:
            self._check(request.model_name, request.model_version)
            decoded_request = decode(request, self.model.signature, self.model.regions)
            return Decoded(decoded_request.arrays, decoded_request.batch_size, decoded_request)

        return await self.infer(context, decoded, lambda d, outputs: encode(self.model, d.details, outputs))

    async def _live(self, request: Any, context: Any) -> Any:
        return message("ServerLiveResponse")(live=True)

    async def _server_ready(self, request: Any, context: Any) -> Any:
        return message("ServerReadyResponse")(ready=self.model.ready)

    async def _model_ready(self, request: Any, context: Any) -> Any:
        await self._require(request, context)
        return message("ModelReadyResponse")(ready=self.model.ready)

    async def _server_metadata(self, request: Any, context: Any) -> Any:
        return message("ServerMetadataResponse")(
            name="inferbench",
            version=self.version,
            extensions=["statistics", *self.model.regions.extensions],
        )

    async def _regions(self, request: Any, context: Any) -> Any:
        answer = message("SystemSharedMemoryStatusResponse")()

        def tell() -> None:
            for region in self.model.regions.status(request.name or None):
                for field, value in region.items():
                    setattr(answer.regions[region["name"]], field, value)

        await self.require(tell, context)
        return answer

    async def _register(self, request: Any, context: Any) -> Any:
        regions = self.model.regions
        given = (request.name, request.key, request.offset, request.byte_size)
        await self.require(lambda: regions.register(*given), context)
        return message("SystemSharedMemoryRegisterResponse")()

    async def _unregister(self, request: Any, context: Any) -> Any:
        await self.require(lambda: self.model.regions.unregister(request.name or None), context)
        return message("SystemSharedMemoryUnregisterResponse")()

    async def _metadata(self, request: Any, context: Any) -> Any:
        await self._require(request, context)
        return message("ModelMetadataResponse")(**self.model.metadata())

    async def _statistics(self, request: Any, context: Any) -> Any:
        if request.name:
            await self._require(request, context)
        model = self.model
        document = model.statistics.document(model.name, model.version)
        document.pop("processor_stats", None)  # the protocol has no field for them; HTTP tells them
        return message("ModelStatisticsResponse")(model_stats=[document])

    def _check(self, name: str, version: str) -> None:
        model = self.model
        if name != model.name or version not in ("", model.version):
            raise RequestProblem(
                f"model: {name or '(none)'} {version} is not served here; "
                f"known: {model.name}, version {model.version}",
                status=404,
            )

    async def _require(self, request: Any, context: Any) -> None:
        await self.require(lambda: self._check(request.name, request.version), context)


def _serialise(answer: Any) -> bytes:
    if isinstance(answer, bytes):
        return answer
    serialised: bytes = answer.SerializeToString()
    return serialised
