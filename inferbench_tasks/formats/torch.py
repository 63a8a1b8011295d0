"""PyTorch weights (safetensors) with the name of the network that takes them: a source only.

The network takes its inputs in the order of the model's signature and returns a tensor, or several in
the order of the outputs.
"""

from __future__ import annotations

import math
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require
from inferbench_tasks.formats import architectures, module_file
from inferbench_tasks.formats.base import Format, Predict
from inferbench_tasks.formats.stored_precision import of_dtypes

WEIGHTS = "model.safetensors"
_OF_SAFETENSORS = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "I8": "int8", "U8": "uint8", "I32": "int32", "U32": "uint32",
}  # fmt: skip


class TorchFormat(Format):
    """PyTorch networks, run eagerly."""

    kind = "torch"
    title = "PyTorch"
    extra = "torch"
    packages = ("torch",)
    file = "model"
    servable = False

    def open(self, model: ModelArtifact) -> Predict:
        return predictor(load(Path(model.path)), model)


def save(module: Any, architecture: dict[str, Any], folder: Path) -> None:
    """Write the weights and what they belong to."""
    from safetensors.torch import save_file

    # Tied weights are one tensor under two names, which safetensors refuses; a copy each is the same model.
    state = {name: tensor.detach().clone().contiguous() for name, tensor in module.state_dict().items()}
    save_file(state, folder / WEIGHTS)
    architectures.write(folder, architecture)


def load(folder: Path) -> Any:
    """The network with its weights, in evaluation mode. InputError where the file is damaged."""
    require("torch")
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    torch.set_num_threads(1)
    module = architectures.build(folder, "torch")
    try:
        module.load_state_dict(load_file(folder / WEIGHTS))
    except (SafetensorError, OSError, RuntimeError) as error:
        raise InputError(f"The weights {folder / WEIGHTS} can't be read: {error}") from error
    return module.eval()


def keep_with_module(weights: Path, module: Path, factory: str, folder: Path) -> None:
    """Copy both into a new folder, with what is needed to build the network again."""
    folder.mkdir()
    shutil.copyfile(weights, folder / WEIGHTS)
    shutil.copyfile(module, folder / module_file.FILE)
    architectures.write(folder, {"name": architectures.USER_MODULE, "arguments": {"factory": factory}})


def weights_of(folder: Path) -> tuple[int, str]:
    """Build the network and load its weights: how many there are, and in which precision the network keeps them, which
    need not be that of their file. InputError, with what is wrong, where they don't fit.
    """
    network = load(folder)
    counts: Counter[str] = Counter()
    for tensor in (*network.parameters(), *network.buffers()):
        counts[_name(tensor.dtype)] += tensor.numel()
    return sum(parameter.numel() for parameter in network.parameters()), of_dtypes(counts)


def file_precision(path: Path) -> str:
    """In which precision a safetensors file keeps its weights; of its head alone."""
    require("torch")
    from safetensors import safe_open

    counts: Counter[str] = Counter()
    with safe_open(path, "np") as file:
        for name in file.keys():  # noqa: SIM118 - it is no mapping
            part = file.get_slice(name)
            counts[_OF_SAFETENSORS.get(part.get_dtype(), "other")] += math.prod(part.get_shape())
    return of_dtypes(counts)


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def predictor(module: Any, model: ModelArtifact) -> Predict:
    """Run any callable of tensors: a network, a TorchScript or an exported program."""
    import torch

    def predict(arrays: Arrays) -> Arrays:
        inputs = [torch.from_numpy(np.ascontiguousarray(arrays[spec.name])) for spec in model.inputs]
        with torch.inference_mode():
            answer = module(*inputs)
        if isinstance(answer, dict):
            answer = tuple(answer.values())
        parts = answer if isinstance(answer, (tuple, list)) else (answer,)
        if len(parts) != len(model.outputs):
            raise InputError(
                f"The model {model.name} gives {len(parts)} outputs, its signature has {len(model.outputs)}"
            )
        return {spec.name: part.numpy() for spec, part in zip(model.outputs, parts, strict=True)}

    return predict


def examples(model: ModelArtifact) -> tuple[Any, ...]:
    """Tensors to trace with: seeded, two samples or as many as the model takes, 16 where a size is dynamic."""
    import torch

    from inferbench_tasks.contracts.models import noise_like

    rng = np.random.default_rng(0)
    return tuple(torch.from_numpy(noise_like(spec, model.batch_size or 2, rng)) for spec in model.inputs)
