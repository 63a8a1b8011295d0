"""Very deep super-resolution (Kim, Lee, Lee, 2016): twenty convolutions find what an enlarged image lacks."""

from __future__ import annotations

from typing import Any


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 1 x h x w`` -> the same. ``arguments``: layers (20), width (64)."""
    from torch import Tensor, nn

    layers, width = arguments.get("layers", 20), arguments.get("width", 64)

    class SuperResolution(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            inner: list[Any] = []
            for _ in range(layers - 2):
                inner += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
            self.body = nn.Sequential(
                nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), *inner, nn.Conv2d(width, 1, 3, padding=1)
            )

        def forward(self, value: Tensor) -> Any:
            return value + self.body(value)

    return SuperResolution()
