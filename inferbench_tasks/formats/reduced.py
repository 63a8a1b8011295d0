"""A PyTorch network in half precision that still takes and gives what the full one does."""

from __future__ import annotations

from typing import Any

DTYPES = {"fp16": "float16", "bf16": "bfloat16"}


def at_precision(module: Any, precision: str) -> Any:
    """The network itself for fp32; else a wrapper that rounds inputs and weights, and widens the outputs."""
    if precision == "fp32":
        return module
    import torch

    dtype = getattr(torch, DTYPES[precision])

    class Reduced(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module.to(dtype)

        def forward(self, *inputs: Any) -> Any:
            answer = self.module(*(v.to(dtype) if v.is_floating_point() else v for v in inputs))
            if isinstance(answer, dict):
                answer = tuple(answer.values())
            if isinstance(answer, (tuple, list)):
                return tuple(_widened(part) for part in answer)
            return _widened(answer)

    def _widened(part: Any) -> Any:
        return part.to(torch.float32) if part.is_floating_point() else part

    return Reduced().eval()
