"""Programs of ``torch.export``: run by PyTorch, or compiled ahead of time."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.servers.config import ServerConfig
from inferbench_tasks.servers.engines.torchscript import answers, device_of


class ExportedProgramEngine:
    """A ``.pt2``; one copy of the module per instance, the threads are the process's."""

    def __init__(self, config: ServerConfig) -> None:
        self._device = device_of(config)
        self._inputs = [spec.name for spec in config.inputs]
        self._outputs = [spec.name for spec in config.outputs]
        self._module = self._load(config)

    def _load(self, config: ServerConfig) -> Any:
        import torch

        return torch.export.load(config.model_path).module().to(self._device)

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
