"""Residual networks (He et al., 2016); the stride of a bottleneck is on its 3 x 3 convolution, the usual "v1.5"."""

from __future__ import annotations

from typing import Any

#: Blocks of each stage; the first stage has 64 channels, each later one twice as many on half the size.
RESNET_18, RESNET_50 = (2, 2, 2, 2), (3, 4, 6, 3)
EXPANSION = 4


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """ResNet-50: ``n x 3 x 224 x 224`` -> 1000 scores; in Keras ``n x 224 x 224 x 3``."""
    if framework == "tensorflow":
        import keras

        return keras.applications.ResNet50(weights=None, classifier_activation=None)
    return in_torch(RESNET_50, bottleneck=True)


def in_torch(blocks_of_stages: tuple[int, ...], *, bottleneck: bool) -> Any:
    """``n x 3 x side x side`` -> 1000 scores, of blocks with two 3 x 3 convolutions, or of bottlenecks."""
    from torch import Tensor, nn

    def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[Any]:
        return [
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
            nn.BatchNorm2d(outputs),
        ]

    def body(inputs: int, width: int, stride: int) -> list[Any]:
        if not bottleneck:
            return [*conv(inputs, width, 3, stride), nn.ReLU(), *conv(width, width, 3)]
        return [
            *conv(inputs, width, 1), nn.ReLU(), *conv(width, width, 3, stride), nn.ReLU(),
            *conv(width, width * EXPANSION, 1),
        ]  # fmt: skip

    class Block(nn.Module):
        def __init__(self, inputs: int, width: int, stride: int) -> None:
            super().__init__()
            outputs = width * EXPANSION if bottleneck else width
            self.body = nn.Sequential(*body(inputs, width, stride))
            changes = stride != 1 or inputs != outputs
            self.shortcut = nn.Sequential(*conv(inputs, outputs, 1, stride)) if changes else nn.Identity()
            self.activation = nn.ReLU()

        def forward(self, value: Tensor) -> Any:
            return self.activation(self.body(value) + self.shortcut(value))

    blocks, inputs = [], 64
    for stage, count in enumerate(blocks_of_stages):
        width = 64 << stage
        for index in range(count):
            blocks.append(Block(inputs, width, 2 if stage and not index else 1))
            inputs = width * EXPANSION if bottleneck else width
    return nn.Sequential(
        *conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000),
    )  # fmt: skip
