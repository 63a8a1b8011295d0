"""Runs inside MLServer, in MLServer's own environment: an ONNX model by ONNX Runtime."""

from typing import Any

import mlserver  # type: ignore[import-not-found]
import numpy as np
import onnxruntime as ort
from mlserver.codecs import NumpyCodec, StringCodec  # type: ignore[import-not-found]
from mlserver.types import InferenceResponse  # type: ignore[import-not-found]
from prometheus_client import Histogram

EXECUTED_ROWS = "inferbench_executed_rows"


class OnnxModel(mlserver.MLModel):  # type: ignore[misc]
    """MLServer's adaptive batching joins the requests before ``predict``."""

    async def load(self) -> bool:
        """One session, its threads waiting instead of spinning."""
        # Not mlserver.register: without worker processes its registry is not the one that is exported.
        self._executed_rows = Histogram(EXECUTED_ROWS, "Rows of each run of the model")
        parameters = self.settings.parameters
        options = ort.SessionOptions()
        options.intra_op_num_threads = int(parameters.extra["threads"])
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = ort.InferenceSession(parameters.uri, options, providers=["CPUExecutionProvider"])
        self._outputs = parameters.extra["outputs"]
        self._texts = {one.name for one in self._session.get_inputs() if one.type == "tensor(string)"}
        return True

    async def predict(self, payload):  # type: ignore[no-untyped-def]
        """Run the model once, for one request or one batch."""
        inputs = {item.name: self._read(item) for item in payload.inputs}
        values = self._session.run(self._outputs, inputs)
        self._executed_rows.observe(len(values[0]))
        outputs = [
            NumpyCodec.encode_output(name, value) for name, value in zip(self._outputs, values, strict=True)
        ]
        return InferenceResponse(model_name=self.name, model_version=self.version, outputs=outputs)

    def _read(self, item: Any) -> Any:
        """Texts are decoded by a codec of their own: numpy's takes their bytes for as many values."""
        if item.name not in self._texts:
            return NumpyCodec.decode_input(item)
        return np.array(StringCodec.decode_input(item), dtype=object).reshape(item.shape)
