"""The messages by which TensorFlow Serving tells of a model's signatures (``get_model_metadata.proto``)."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.protocols.proto_table import message_class
from inferbench_tasks.protocols.tfs_proto import DTYPES

#: Messages of other packages stand in ours: on the wire that is the same.
_PACKAGE = "inferbench.tfs_metadata"
_MESSAGES: dict[str, tuple[tuple[str, int, str], ...]] = {
    "Dim": (("size", 1, "int64"), ("name", 2, "string")),
    "Shape": (("dim", 2, "[Dim]"), ("unknown_rank", 3, "bool")),
    "ModelSpec": (("name", 1, "string"), ("signature_name", 3, "string")),
    "Request": (("model_spec", 1, "ModelSpec"), ("metadata_field", 2, "[string]")),
    "Any": (("type_url", 1, "string"), ("value", 2, "bytes")),
    "Response": (("model_spec", 1, "ModelSpec"), ("metadata", 2, "map Any")),
    "TensorInfo": (("name", 1, "string"), ("dtype", 2, "int32"), ("tensor_shape", 3, "Shape")),
    "SignatureDef": (("inputs", 1, "map TensorInfo"), ("outputs", 2, "map TensorInfo")),
    "SignatureDefMap": (("signature_def", 1, "map SignatureDef"),),
}
METHOD = "/tensorflow.serving.PredictionService/GetModelMetadata"
#: DataType -> numpy's name
NAMES = {number: name for name, (number, _) in DTYPES.items()}


def message(name: str) -> Any:
    """The class of the message of this name."""
    return message_class(_PACKAGE, name, _MESSAGES)
