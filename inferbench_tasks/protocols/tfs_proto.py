"""The messages of TensorFlow Serving's gRPC API, for clients: without importing TensorFlow.

Field numbers and types are those of ``predict.proto``, ``get_model_status.proto`` and ``tensor.proto``.
Messages of other packages stand in ours, and enumerations are integers: on the wire that is the same.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.protocols.proto_table import message_class

PREDICT = "/tensorflow.serving.PredictionService/Predict"
MODEL_STATUS = "/tensorflow.serving.ModelService/GetModelStatus"
#: ModelVersionStatus.State
AVAILABLE = 30

#: In the words of ``proto_table``.
MESSAGES: dict[str, tuple[tuple[str, int, str], ...]] = {
    "Int64Value": (("value", 1, "int64"),),
    "ModelSpec": (
        ("name", 1, "string"),
        ("version", 2, "oneof Int64Value"),
        ("version_label", 4, "oneof string"),
        ("signature_name", 3, "string"),
    ),
    "TensorProto": (
        ("dtype", 1, "int32"),
        ("tensor_shape", 2, "Shape"),
        ("version_number", 3, "int32"),
        ("tensor_content", 4, "bytes"),
        ("float_val", 5, "[float]"),
        ("double_val", 6, "[double]"),
        ("int_val", 7, "[int32]"),
        ("string_val", 8, "[bytes]"),
        ("int64_val", 10, "[int64]"),
        ("bool_val", 11, "[bool]"),
        ("half_val", 13, "[int32]"),
        ("uint32_val", 16, "[uint32]"),
        ("uint64_val", 17, "[uint64]"),
    ),
    "Shape": (("dim", 2, "[Dim]"), ("unknown_rank", 3, "bool")),
    "Dim": (("size", 1, "int64"), ("name", 2, "string")),
    "PredictRequest": (
        ("model_spec", 1, "ModelSpec"),
        ("inputs", 2, "map TensorProto"),
        ("output_filter", 3, "[string]"),
    ),
    "PredictResponse": (("outputs", 1, "map TensorProto"), ("model_spec", 2, "ModelSpec")),
    "GetModelStatusRequest": (("model_spec", 1, "ModelSpec"),),
    "GetModelStatusResponse": (("model_version_status", 1, "[ModelVersionStatus]"),),
    "ModelVersionStatus": (("version", 1, "int64"), ("state", 2, "int32")),
}

#: numpy's name -> (DataType, field of TensorProto where values stand without tensor_content)
DTYPES: dict[str, tuple[int, str]] = {
    "float32": (1, "float_val"),
    "float64": (2, "double_val"),
    "int32": (3, "int_val"),
    "uint8": (4, "int_val"),
    "int16": (5, "int_val"),
    "int8": (6, "int_val"),
    "object": (7, "string_val"),
    "int64": (9, "int64_val"),
    "bool": (10, "bool_val"),
    "uint16": (17, "int_val"),
    "float16": (19, "half_val"),
    "uint32": (22, "uint32_val"),
    "uint64": (23, "uint64_val"),
}
_NUMPY_OF = {number: name for name, (number, _) in DTYPES.items()}


def message(name: str) -> Any:
    """The class of a message ("PredictRequest")."""
    return message_class("tensorflow.serving", name, MESSAGES)


def predict_request(model: str, signature: str, inputs: dict[str, NDArray[Any]]) -> Any:
    """A PredictRequest with its tensors as raw bytes."""
    request = message("PredictRequest")()
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    for name, array in inputs.items():
        fill(request.inputs[name], array)
    return request


def fill(tensor: Any, array: NDArray[Any]) -> None:
    """Put an array into a TensorProto."""
    name = "object" if array.dtype.kind in "OSU" else array.dtype.name
    if name not in DTYPES:
        raise ValueError(f"dtype {name!r} can't be sent to TensorFlow Serving; known: {', '.join(DTYPES)}")
    tensor.dtype = DTYPES[name][0]
    for size in array.shape:
        tensor.tensor_shape.dim.add(size=size)
    if name == "object":
        tensor.string_val.extend(
            v.encode() if isinstance(v, str) else bytes(v) for v in array.reshape(-1).tolist()
        )
    else:
        tensor.tensor_content = np.ascontiguousarray(array).tobytes()


def read(tensor: Any) -> NDArray[Any]:
    """The array in a TensorProto, in either of its two forms. ValueError where the sizes don't agree."""
    name = _NUMPY_OF.get(tensor.dtype)
    if name is None:
        raise ValueError(f"DataType {tensor.dtype} is not known here")
    shape = tuple(dim.size for dim in tensor.tensor_shape.dim)
    if tensor.tensor_content:
        return np.frombuffer(tensor.tensor_content, dtype=name).reshape(shape)
    values = list(getattr(tensor, DTYPES[name][1]))
    if name == "float16":
        array: NDArray[Any] = np.array(values, dtype=np.uint16).view(np.float16)
    else:
        array = np.array(values, dtype=np.object_ if name == "object" else name)
    if len(values) == 1 and math.prod(shape) > 1:
        # Protobuf's short form of a constant tensor: a view, which takes no memory however large its shape.
        return np.broadcast_to(array[0], shape)
    return array.reshape(shape)
