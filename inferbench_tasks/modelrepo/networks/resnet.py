"""ResNet-50 (He et al., 2016; the stride is on the 3 x 3 convolution, as in the usual "v1.5")."""

from __future__ import annotations

from typing import Any

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
EXPANSION = 4


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 3 x 224 x 224`` -> 1000 scores; in Keras ``n x 224 x 224 x 3``."""
    if framework == "tensorflow":
        import keras

        return keras.applications.ResNet50(weights=None, classifier_activation=None)
    from torch import Tensor, nn

    def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[Any]:
        return [
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
            nn.BatchNorm2d(outputs),
        ]

    class Bottleneck(nn.Module):
        def __init__(self, inputs: int, width: int, stride: int) -> None:
            super().__init__()
            outputs = width * EXPANSION
            self.body = nn.Sequential(
                *conv(inputs, width, 1), nn.ReLU(), *conv(width, width, 3, stride), nn.ReLU(),
                *conv(width, outputs, 1),
            )  # fmt: skip
            changes = stride != 1 or inputs != outputs
            self.shortcut = nn.Sequential(*conv(inputs, outputs, 1, stride)) if changes else nn.Identity()
            self.activation = nn.ReLU()

        def forward(self, value: Tensor) -> Any:
            return self.activation(self.body(value) + self.shortcut(value))

    blocks, inputs = [], 64
    for width, count, stride in STAGES:
        for index in range(count):
            blocks.append(Bottleneck(inputs, width, stride if index == 0 else 1))
            inputs = width * EXPANSION
    return nn.Sequential(
        *conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000),
    )  # fmt: skip
