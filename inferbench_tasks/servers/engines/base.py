"""What runs a model inside our server; one file per runtime."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.registry import Registry
from inferbench_tasks.servers.config import ServerConfig
from inferbench_tasks.servers.sources.base import LayerSource


class Engine(Protocol):
    """A loaded model. One engine per instance; ``run`` is called by one thread at a time.

    ``run_name`` of its class, where it has one, is what its runtime calls a run: the name of the span of each in a
    trace, else "run".
    """

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Outputs by name for inputs by name; first axis = batch."""
        ...


@runtime_checkable
class TellsLayers(Protocol):
    """An engine whose runtime can tell what it did, layer by layer, where ``ServerConfig.tracing`` asks for that."""

    #: None where nobody asked, and of a model of which the runtime tells nothing.
    source: LayerSource | None


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
        "tflite": "inferbench_tasks.servers.engines.tflite:TfliteEngine",
        "openvino": "inferbench_tasks.servers.engines.openvino:OpenVinoEngine",
    },
)
