"""TorchScript models by PyTorch, and what all of PyTorch's engines share."""

from __future__ import annotations

from typing import Any, ClassVar

from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.servers.config import ServerConfig
from inferbench_tasks.servers.sources.torch_profiler import TorchProfiler
from inferbench_tasks.servers.sources.torch_program import Operators, nothing_known


class TorchScriptEngine:
    """One copy of the module. The intra-op threads are the process's: PyTorch has one pool for all."""

    run_name: ClassVar[str] = "module call"

    def __init__(self, config: ServerConfig) -> None:
        import torch

        self._device = device_of(config)
        self._module: Any = torch.jit.load(config.model_path, map_location=self._device).eval()
        self._inputs = [spec.name for spec in config.inputs]
        self._outputs = [spec.name for spec in config.outputs]
        self.source = profiler_of(config)

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Inputs go by position, as the module's ``forward`` takes them."""
        return answers(self._module, [inputs[name] for name in self._inputs], self._outputs, self._device)


def profiler_of(config: ServerConfig, program: Operators = nothing_known) -> TorchProfiler | None:
    """What tells of the layers, where the configuration asks for them; RuntimeError where it can't of the device."""
    if config.tracing is None or not config.tracing.layers:
        return None
    return TorchProfiler(
        config.tracing.path, program, library=config.tracing.library, gpu=config.device != "cpu"
    )


def device_of(config: ServerConfig) -> str:
    """PyTorch's name of the configured device; sets the process's threads. RuntimeError without that device."""
    import torch

    torch.set_num_threads(config.threads)
    if config.device != "cpu" and not torch.cuda.is_available():
        raise RuntimeError(f"device {config.device} was asked for, but PyTorch sees no GPU")
    return "cpu" if config.device == "cpu" else "cuda"


def answers(module: Any, arrays: list[Array], outputs: list[str], device: str) -> dict[str, Array]:
    """What a module gives for inputs in order, by the outputs' names."""
    import torch

    # A copy: a module may work in place, and the arrays are views of the request's bytes.
    tensors = [torch.tensor(array, device=device) for array in arrays]
    with torch.inference_mode():
        answer = module(*tensors)
    if isinstance(answer, dict):
        values = [answer[name] for name in outputs] if outputs[0] in answer else list(answer.values())
    else:
        values = list(answer) if isinstance(answer, (tuple, list)) else [answer]
    if len(values) < len(outputs):
        raise RuntimeError(f"the module gives {len(values)} outputs, {len(outputs)} are expected")
    return {name: value.cpu().numpy() for name, value in zip(outputs, values, strict=False)}
