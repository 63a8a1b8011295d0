"""ONNX models by ONNX Runtime."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.servers.config import ServerConfig
from inferbench_tasks.servers.sources.onnxruntime import OnnxRuntimeProfile


class OnnxRuntimeEngine:
    """One session with its own intra-op threads, which wait instead of spinning between inferences."""

    run_name: ClassVar[str] = "session.run"

    def __init__(self, config: ServerConfig) -> None:
        import onnxruntime as ort

        options: Any = ort.SessionOptions()
        options.intra_op_num_threads = config.threads
        options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.source: OnnxRuntimeProfile | None = None
        if config.tracing is not None and config.tracing.layers:
            self.source = OnnxRuntimeProfile(
                config.tracing.path, options, library=config.tracing.library, gpu=config.device != "cpu"
            )
        providers = ["CPUExecutionProvider"]
        if config.device != "cpu":
            providers.insert(0, "CUDAExecutionProvider")
        self._session: Any = ort.InferenceSession(config.model_path, options, providers=providers)
        if self.source is not None:
            self.source.session = self._session
        if config.device != "cpu" and "CUDAExecutionProvider" not in self._session.get_providers():
            raise RuntimeError(f"device {config.device} was asked for, but ONNX Runtime runs on the CPU here")
        self._strings = {i.name for i in self._session.get_inputs() if i.type == "tensor(string)"}
        self._names = [output.name for output in self._session.get_outputs()]
        missing = {spec.name for spec in config.outputs} - set(self._names)
        if missing:
            raise RuntimeError(f"the model has no output {', '.join(sorted(missing))}; it has {self._names}")

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        if self._strings:
            inputs = {n: _decoded(a) if n in self._strings else a for n, a in inputs.items()}
        values = self._session.run(self._names, inputs)
        return dict(zip(self._names, values, strict=True))


def _decoded(array: Array) -> Array:
    out = np.empty(array.size, dtype=np.object_)
    out[:] = [v.decode() if isinstance(v, bytes) else v for v in array.reshape(-1)]
    return out.reshape(array.shape)
