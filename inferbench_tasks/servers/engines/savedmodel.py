"""The engine that serves SavedModels with TensorFlow itself."""

from __future__ import annotations

from typing import Any, ClassVar

from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.servers.config import ServerConfig
from inferbench_tasks.servers.sources.tensorflow import TensorFlowProfiler


class SavedModelEngine:
    """The ``serving_default`` signature of a SavedModel."""

    run_name: ClassVar[str] = "signature call"

    def __init__(self, config: ServerConfig) -> None:
        import tensorflow as tf

        if not tf.config.list_physical_devices("GPU") and config.device != "cpu":
            raise RuntimeError(f"device {config.device} was asked for, but TensorFlow sees no GPU")
        _set_threads(tf, config.threads)
        self._tf = tf
        # Kept: a signature holds its variables only weakly.
        self._model: Any = tf.saved_model.load(config.model_path)
        if "serving_default" not in self._model.signatures:
            known = ", ".join(self._model.signatures) or "none"
            raise RuntimeError(f"the SavedModel has no signature serving_default; it has {known}")
        self._call: Any = self._model.signatures["serving_default"]
        accepted = list(self._call.structured_input_signature[1])
        names = [spec.name for spec in config.inputs]
        if set(names) != set(accepted):
            raise RuntimeError(f"the signature takes {accepted}, the configuration says {names}")
        self._outputs = [spec.name for spec in config.outputs]
        tracing = config.tracing
        self.source = TensorFlowProfiler(tracing.path) if tracing is not None and tracing.layers else None

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Run the signature once; the outputs come by name."""
        answer = self._call(**{name: self._tf.constant(array) for name, array in inputs.items()})
        return {name: answer[name].numpy() for name in self._outputs}


def _set_threads(tf: Any, threads: int) -> None:
    """Once per process, before its first operation; further instances share them."""
    if tf.config.threading.get_intra_op_parallelism_threads() != threads:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
