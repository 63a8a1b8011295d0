"""TensorFlow Serving's Predict over gRPC as bytes: requests built before the load, answers read back."""

from __future__ import annotations

import numpy as np

from inferbench_tasks.clients.answers import BadAnswer, Outputs
from inferbench_tasks.clients.grpc_message import frame, unframe
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.protocols.tfs_proto import message, predict_request, read

SIGNATURE = "serving_default"


def encode_request(endpoint: Endpoint, inputs: Outputs) -> bytes:
    """A framed ``PredictRequest`` on the default signature."""
    arrays = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
    request = predict_request(endpoint.model_name, SIGNATURE, arrays)
    if endpoint.model_version:
        request.model_spec.version.value = int(endpoint.model_version)
    return frame(request.SerializeToString())


def decode_answer(data: bytes) -> Outputs:
    """The outputs of a framed ``PredictResponse``; BadAnswer says what is wrong."""
    from google.protobuf.message import DecodeError

    try:
        answer = message("PredictResponse").FromString(unframe(data))
        return {name: read(tensor) for name, tensor in answer.outputs.items()}
    except (DecodeError, ValueError) as error:
        raise BadAnswer(f"not a PredictResponse: {error}") from error
