"""ONNX models by ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson

from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.servers.config import ServerConfig


class OnnxRuntimeEngine:
    """One session with its own intra-op threads, which wait instead of spinning between inferences."""

    def __init__(self, config: ServerConfig) -> None:
        import onnxruntime as ort

        options: Any = ort.SessionOptions()
        options.intra_op_num_threads = config.threads
        options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._profiled = config.tracing is not None and config.tracing.layers
        if self._profiled:
            assert config.tracing is not None
            options.enable_profiling = True
            options.profile_file_prefix = f"{config.tracing.path}.onnxruntime"
        providers = ["CPUExecutionProvider"]
        if config.device != "cpu":
            providers.insert(0, "CUDAExecutionProvider")
        self._session: Any = ort.InferenceSession(config.model_path, options, providers=providers)
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

    def layers(self) -> list[dict[str, Any]]:
        """Each node that ran, by the session's own profile; [] where it was not asked for one.

        The profile counts microseconds from a start that it tells in Unix time. It ends silently at a million events.
        """
        if not self._profiled:
            return []
        self._profiled = False
        began_ns = int(self._session.get_profiling_start_time_ns())
        path = Path(self._session.end_profiling())
        events = orjson.loads(path.read_bytes())
        path.unlink()
        return [_layer(event, began_ns) for event in events if event.get("cat") == "Node"]


def _layer(event: dict[str, Any], began_ns: int) -> dict[str, Any]:
    args = event["args"]
    start_ns = began_ns + round(event["ts"] * 1000)
    return {
        "name": event["name"].removesuffix("_kernel_time"),
        "type": args.get("op_name", ""),
        "start_ns": start_ns,
        "end_ns": start_ns + round(event["dur"] * 1000),
        "attributes": {
            "node_index": int(args["node_index"]) if "node_index" in args else None,
            "provider": args.get("provider"),
            "output_bytes": int(args["output_size"]) if "output_size" in args else None,
            "parameter_bytes": int(args["parameter_size"]) if "parameter_size" in args else None,
            "output_shapes": [
                list(shape) for of in args.get("output_type_shape", []) for shape in of.values()
            ],
        },
    }


def _decoded(array: Array) -> Array:
    out = np.empty(array.size, dtype=np.object_)
    out[:] = [v.decode() if isinstance(v, bytes) else v for v in array.reshape(-1)]
    return out.reshape(array.shape)
