"""SqueezeNet (Iandola et al., 2016): few channels before each pair of convolutions."""

from __future__ import annotations

from typing import Any

#: Before and within each fire module; "pool": halves the image.
FIRES: dict[str, Any] = {
    "1.0": ("pool", (16, 64), (16, 64), (32, 128), "pool",
            (32, 128), (48, 192), (48, 192), (64, 256), "pool", (64, 256)),
    "1.1": ("pool", (16, 64), (16, 64), "pool", (32, 128), (32, 128), "pool",
            (48, 192), (48, 192), (64, 256), (64, 256)),
}  # fmt: skip


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 3 x 224 x 224`` -> 1000 scores. ``arguments``: version, "1.0" or "1.1"."""
    import torch
    from torch import Tensor, nn

    class Fire(nn.Module):
        def __init__(self, inputs: int, narrow: int, wide: int) -> None:
            super().__init__()
            self.squeeze = nn.Sequential(nn.Conv2d(inputs, narrow, 1), nn.ReLU())
            self.one = nn.Sequential(nn.Conv2d(narrow, wide, 1), nn.ReLU())
            self.three = nn.Sequential(nn.Conv2d(narrow, wide, 3, padding=1), nn.ReLU())

        def forward(self, value: Tensor) -> Any:
            value = self.squeeze(value)
            return torch.cat([self.one(value), self.three(value)], 1)

    version = arguments["version"]
    inputs, kernel = (96, 7) if version == "1.0" else (64, 3)
    layers: list[Any] = [nn.Conv2d(3, inputs, kernel, 2), nn.ReLU()]
    for module in FIRES[version]:
        if module == "pool":
            layers.append(nn.MaxPool2d(3, 2, ceil_mode=True))
        else:
            narrow, wide = module
            layers.append(Fire(inputs, narrow, wide))
            inputs = wide * 2
    return nn.Sequential(
        *layers, nn.Dropout(), nn.Conv2d(inputs, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Softmax(1),
    )  # fmt: skip
