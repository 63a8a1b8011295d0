"""Programs of ``torch.export``: run by PyTorch, or compiled ahead of time."""

from __future__ import annotations

from typing import Any, ClassVar

from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.servers.config import ServerConfig
from inferbench_tasks.servers.engines.torchscript import answers, device_of, profiler_of
from inferbench_tasks.servers.sources.torch_profiler import TorchProfiler
from inferbench_tasks.servers.sources.torch_program import Program


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
        traced = config.tracing is not None and config.tracing.layers
        return profiler_of(config, Program(self._module)) if traced else None

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Inputs go by position, as the program takes them."""
        arrays = [inputs[name] for name in self._inputs]
        if self.source is not None:
            self.source.shapes = tuple(array.shape for array in arrays)
        return answers(self._module, arrays, self._outputs, self._device)


class AotInductorEngine(ExportedProgramEngine):
    """An AOTInductor package: machine code, without Python between the operators."""

    def _load(self, config: ServerConfig) -> Any:
        import torch

        if self._device != "cpu":
            raise RuntimeError("the package was compiled for the CPU; use the format pt2 on a GPU")
        return torch._inductor.aoti_load_package(config.model_path)

    def _source(self, config: ServerConfig) -> None:
        """PyTorch's profiler sees nothing within the package's code."""
