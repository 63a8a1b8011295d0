"""ResNet-18 (He et al., 2016): basic blocks of two 3 x 3 convolutions."""

from __future__ import annotations

from typing import Any

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
BLOCKS = 2


def build() -> Any:
    """``n x 3 x side x side`` -> 1000 scores."""
    from torch import Tensor, nn

    def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[Any]:
        return [
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
            nn.BatchNorm2d(outputs),
        ]

    class Basic(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                *conv(inputs, outputs, 3, stride), nn.ReLU(), *conv(outputs, outputs, 3)
            )
            changes = stride != 1 or inputs != outputs
            self.shortcut = nn.Sequential(*conv(inputs, outputs, 1, stride)) if changes else nn.Identity()
            self.activation = nn.ReLU()

        def forward(self, value: Tensor) -> Any:
            return self.activation(self.body(value) + self.shortcut(value))

    blocks, inputs = [], 64
    for width, stride in STAGES:
        for index in range(BLOCKS):
            blocks.append(Basic(inputs, width, stride if index == 0 else 1))
            inputs = width
    return nn.Sequential(
        *conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000),
    )  # fmt: skip
