"""OpenVINO models by the OpenVINO runtime."""

from __future__ import annotations

from typing import Any, ClassVar

from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.servers.config import ServerConfig
from inferbench_tasks.servers.sources.openvino import OpenVinoCounters


class OpenVinoEngine:
    """One compiled model with one inference request, tuned for latency."""

    run_name: ClassVar[str] = "request.infer"

    def __init__(self, config: ServerConfig) -> None:
        import openvino

        core: Any = openvino.Core()
        settings: dict[str, Any] = {
            "INFERENCE_NUM_THREADS": config.threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            # The job chose the precision; the runtime must not change it behind its back.
            "INFERENCE_PRECISION_HINT": config.engine_settings.get("inference_precision", "f32"),
        }
        self.source: OpenVinoCounters | None = None
        if config.tracing is not None and config.tracing.layers:
            self.source = OpenVinoCounters(settings, library=config.tracing.library)
        device = "CPU" if config.device == "cpu" else "GPU"
        compiled = core.compile_model(core.read_model(config.model_path), device, settings)
        self._request: Any = compiled.create_infer_request()
        if self.source is not None:
            self.source.compiled(compiled, self._request)
        self._outputs = [spec.name for spec in config.outputs]
        names = [set(port.get_names()) for port in compiled.outputs]
        positions = [next((i for i, n in enumerate(names) if name in n), None) for name in self._outputs]
        if None not in positions:
            self._at = [int(i) for i in positions if i is not None]
        elif len(names) == len(self._outputs):
            self._at = list(range(len(names)))  # a conversion may lose the names; the first answer is checked
        else:
            raise RuntimeError(f"the model gives {names}, expected are {self._outputs}")
        ports = [set(port.get_names()) for port in compiled.inputs]
        self._by_name = all(any(spec.name in names_ for names_ in ports) for spec in config.inputs)
        self._inputs = [spec.name for spec in config.inputs]

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """By name; by position where the conversion lost the names."""
        arguments: Any = inputs if self._by_name else [inputs[name] for name in self._inputs]
        self._request.infer(arguments, share_inputs=True)
        if self.source is not None:
            self.source.count += 1
        # Copies: the output tensors are written again by the next inference.
        return {
            name: self._request.get_output_tensor(at).data.copy()
            for name, at in zip(self._outputs, self._at, strict=True)
        }
