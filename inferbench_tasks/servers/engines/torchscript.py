"""TorchScript models by PyTorch."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.servers.config import ServerConfig
from inferbench_tasks.servers.datatypes import Array


class TorchScriptEngine:
    """One copy of the module. The intra-op threads are the process's: PyTorch has one pool for all."""

    def __init__(self, config: ServerConfig) -> None:
        import torch

        torch.set_num_threads(config.threads)
        if config.device != "cpu" and not torch.cuda.is_available():
            raise RuntimeError(f"device {config.device} was asked for, but PyTorch sees no GPU")
        self._device = "cpu" if config.device == "cpu" else "cuda"
        self._module: Any = torch.jit.load(config.model_path, map_location=self._device).eval()
        self._inputs = [spec.name for spec in config.inputs]
        self._outputs = [spec.name for spec in config.outputs]

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Inputs go by position, as the module's ``forward`` takes them."""
        import torch

        # A copy: a module may work in place, and the arrays are views of the request's bytes.
        given = [torch.tensor(inputs[name], device=self._device) for name in self._inputs]
        with torch.inference_mode():
            answer = self._module(*given)
        if isinstance(answer, dict):
            values = [answer[name] for name in self._outputs]
        else:
            values = list(answer) if isinstance(answer, (tuple, list)) else [answer]
        if len(values) < len(self._outputs):
            raise RuntimeError(f"the module gives {len(values)} outputs, {len(self._outputs)} are expected")
        return {name: value.cpu().numpy() for name, value in zip(self._outputs, values, strict=False)}
