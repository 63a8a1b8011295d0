"""KServe v2 over gRPC as bytes: requests built before the load, answers read back."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from inferbench_tasks.clients.answers import BadAnswer, Outputs
from inferbench_tasks.clients.grpc_message import frame, unframe
from inferbench_tasks.clients.kserve_http import tensor_from_bytes
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.protocols.datatypes import NUMPY_OF, datatype_of, pack_bytes
from inferbench_tasks.protocols.kserve_proto import message
from inferbench_tasks.protocols.rows_of_one import with_axis
from inferbench_tasks.protocols.shared_memory import BYTE_SIZE, OFFSET, REGION, PlacedTensor

_TYPED = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents",
    "INT64": "int64_contents", "UINT8": "uint_contents", "UINT16": "uint_contents",
    "UINT32": "uint_contents", "UINT64": "uint64_contents", "FP32": "fp32_contents",
    "FP64": "fp64_contents", "BYTES": "bytes_contents",
}  # fmt: skip


def encode_request(endpoint: Endpoint, inputs: Outputs) -> bytes:
    """A framed ``ModelInferRequest`` with raw contents."""
    request = message("ModelInferRequest")(
        model_name=endpoint.model_name, model_version=endpoint.model_version
    )
    for name, value in (with_axis(inputs) if endpoint.rows_of_one else inputs).items():
        array = np.ascontiguousarray(value)
        datatype = datatype_of("object" if array.dtype.kind in "OSU" else array.dtype.name)
        request.inputs.add(name=name, datatype=datatype, shape=array.shape)
        request.raw_input_contents.append(pack_bytes(array) if datatype == "BYTES" else array.tobytes())
    return frame(request.SerializeToString())


def encode_placed(endpoint: Endpoint, tensors: Sequence[PlacedTensor]) -> bytes:
    """A framed ``ModelInferRequest`` whose inputs lie in shared memory."""
    request = message("ModelInferRequest")(
        model_name=endpoint.model_name, model_version=endpoint.model_version
    )
    for tensor in tensors:
        item = request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        item.parameters[REGION].string_param = tensor.region
        item.parameters[OFFSET].int64_param = tensor.offset
        item.parameters[BYTE_SIZE].int64_param = tensor.byte_size
    return frame(request.SerializeToString())


def decode_request(wire: bytes) -> Outputs:
    """The inputs of a request of ``encode_request``; for who writes it once more."""
    request = message("ModelInferRequest").FromString(unframe(wire))
    return {
        item.name: tensor_from_bytes(item.name, item.datatype, tuple(item.shape), raw)
        for item, raw in zip(request.inputs, request.raw_input_contents, strict=True)
    }


def decode_answer(data: bytes) -> Outputs:
    """The outputs of a framed ``ModelInferResponse``, raw or typed; BadAnswer says what is wrong."""
    from google.protobuf.message import DecodeError

    try:
        answer = message("ModelInferResponse").FromString(unframe(data))
    except DecodeError as error:
        raise BadAnswer(f"not a ModelInferResponse: {error}") from error
    raw = answer.raw_output_contents
    if raw and len(raw) != len(answer.outputs):
        raise BadAnswer(f"{len(answer.outputs)} outputs with {len(raw)} raw contents")
    outputs: Outputs = {}
    for index, item in enumerate(answer.outputs):
        shape = tuple(item.shape)
        if raw:
            outputs[item.name] = tensor_from_bytes(item.name, item.datatype, shape, raw[index])
            continue
        values = getattr(item.contents, _TYPED.get(item.datatype, ""), None)
        if values is None or len(values) != math.prod(shape):
            raise BadAnswer(f"output {item.name}: no values for the shape {list(shape)} of {item.datatype}")
        outputs[item.name] = np.array(values, dtype=NUMPY_OF[item.datatype]).reshape(shape)
    return outputs
