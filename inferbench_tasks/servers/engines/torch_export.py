"""Programs of ``torch.export``: run by PyTorch, or compiled ahead of time."""

from __future__ import annotations

from typing import Any, ClassVar

from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.servers.config import ServerConfig
from inferbench_tasks.servers.engines.torchscript import answers, device_of, profiler_of
from inferbench_tasks.servers.sources.torch_profiler import Operator, TorchProfiler


class ExportedProgramEngine:
    """A ``.pt2``; one copy of the module per instance, the threads are the process's."""

    run_name: ClassVar[str] = "module call"

    def __init__(self, config: ServerConfig) -> None:
        self._device = device_of(config)
        self._inputs = [spec.name for spec in config.inputs]
        self._outputs = [spec.name for spec in config.outputs]
        self._module = self._load(config)
        self.source = self._source(config)

    def _load(self, config: ServerConfig) -> Any:
        import torch

        return torch.export.load(config.model_path).module().to(self._device)

    def _source(self, config: ServerConfig) -> TorchProfiler | None:
        return profiler_of(config, operators_of(self._module))

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Inputs go by position, as the program takes them."""
        return answers(self._module, [inputs[name] for name in self._inputs], self._outputs, self._device)


class AotInductorEngine(ExportedProgramEngine):
    """An AOTInductor package: machine code, without Python between the operators."""

    def _load(self, config: ServerConfig) -> Any:
        import torch

        if self._device != "cpu":
            raise RuntimeError("the package was compiled for the CPU; use the format pt2 on a GPU")
        return torch._inductor.aoti_load_package(config.model_path)

    def _source(self, config: ServerConfig) -> None:
        """PyTorch's profiler sees nothing within the package's code."""


def operators_of(module: Any) -> list[Operator]:
    """The operators of an exported program in the order in which they run, with their modules and shapes."""
    found: list[Operator] = []
    for node in module.graph.nodes:
        operator = getattr(node.target, "_opname", None)
        if node.op != "call_function" or operator is None:  # not of PyTorch: an item of a tuple, a size
            continue
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        value = node.meta.get("val")
        shape = getattr(value, "shape", None)
        sizes = None if shape is None else [size if isinstance(size, int) else -1 for size in shape]
        found.append((operator, str(stack[-1][0]) if stack else "", sizes))
    return found
