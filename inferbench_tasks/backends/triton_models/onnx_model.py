"""Runs inside Triton's python backend, in Triton's own environment: an ONNX model by ONNX Runtime.

The requests of one call are a batch that Triton's dynamic batcher made: they are joined, run once, split.
"""

import json
from typing import Any

import numpy as np
import onnxruntime as ort
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]


class TritonPythonModel:
    """One instance of the model, as Triton's Python backend runs it."""

    def initialize(self, args):  # type: ignore[no-untyped-def]
        """Load the model that the configuration's parameters name."""
        config = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in config["parameters"].items()}
        options = ort.SessionOptions()
        options.intra_op_num_threads = int(parameters["threads"])
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = ort.InferenceSession(
            parameters["model_path"], options, providers=["CPUExecutionProvider"]
        )
        self.inputs = [item["name"] for item in config["input"]]
        self.texts = {one.name for one in self.session.get_inputs() if one.type == "tensor(string)"}
        self.outputs = [item["name"] for item in config["output"]]

    def execute(self, requests):  # type: ignore[no-untyped-def]
        """One run of the model for all requests."""
        feeds = [
            {
                name: self._read(name, pb_utils.get_input_tensor_by_name(request, name).as_numpy())
                for name in self.inputs
            }
            for request in requests
        ]
        try:
            if len(feeds) == 1:
                inputs = feeds[0]
            else:
                inputs = {name: np.concatenate([item[name] for item in feeds]) for name in self.inputs}
            values = dict(zip(self.outputs, self.session.run(self.outputs, inputs), strict=True))
        except Exception as error:  # noqa: BLE001 - whatever the runtime raises is the requests' answer
            failure = pb_utils.TritonError(f"inference failed: {type(error).__name__}: {error}")
            return [pb_utils.InferenceResponse(error=failure) for _ in requests]
        responses = []
        at = 0
        for item in feeds:
            rows = len(item[self.inputs[0]])
            tensors = [pb_utils.Tensor(name, value[at : at + rows]) for name, value in values.items()]
            responses.append(pb_utils.InferenceResponse(output_tensors=tensors))
            at += rows
        return responses

    def _read(self, name: str, array: Any) -> Any:
        """Texts come as bytes, which ONNX Runtime would take as the text "b'...'"."""
        if name not in self.texts:
            return array
        texts = [one.decode() if isinstance(one, bytes) else str(one) for one in array.reshape(-1)]
        return np.array(texts, dtype=object).reshape(array.shape)
