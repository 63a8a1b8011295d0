"""What runs a model inside our server; one file per runtime."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.registry import Registry
from inferbench_tasks.servers.config import ServerConfig


class Engine(Protocol):
    """A loaded model. One engine per instance; ``run`` is called by one thread at a time."""

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Outputs by name for inputs by name; first axis = batch."""
        ...


@runtime_checkable
class TellsLayers(Protocol):
    """An engine that can tell what its runtime did, layer by layer, where ``ServerConfig.tracing`` asks for that."""

    def layers(self) -> list[dict[str, Any]]:
        """{name, type, start_ns, end_ns, attributes} of every layer that ran, in Unix time; told once."""
        ...


class EngineFactory(Protocol):
    """Loads the model of a configuration; raises what the runtime raises on a broken model."""

    def __call__(self, config: ServerConfig) -> Engine: ...


ENGINES: Registry[EngineFactory] = Registry(
    "inference engine",
    "inferbench.engines",
    {
        "onnxruntime": "inferbench_tasks.servers.engines.onnxruntime:OnnxRuntimeEngine",
        "torchscript": "inferbench_tasks.servers.engines.torchscript:TorchScriptEngine",
        "pt2": "inferbench_tasks.servers.engines.torch_export:ExportedProgramEngine",
        "aotinductor": "inferbench_tasks.servers.engines.torch_export:AotInductorEngine",
        "tensorrt": "inferbench_tasks.servers.engines.tensorrt:TensorRtEngine",
        "savedmodel": "inferbench_tasks.servers.engines.savedmodel:SavedModelEngine",
        "openvino": "inferbench_tasks.servers.engines.openvino:OpenVinoEngine",
    },
)
