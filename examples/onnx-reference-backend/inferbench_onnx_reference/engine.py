"""Runs a model inside InferBench's server process."""

from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.servers.config import ServerConfig


class OnnxReferenceEngine:
    """ONNX's reference evaluator: numpy, slow and exact. One per instance."""

    def __init__(self, config: ServerConfig) -> None:
        from onnx.reference import ReferenceEvaluator

        self._model = ReferenceEvaluator(config.model_path)
        self._outputs = [spec.name for spec in config.outputs]

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Outputs by name for inputs by name; the first axis is the batch."""
        return dict(zip(self._outputs, self._model.run(self._outputs, inputs), strict=True))
