"""MobileNetV2 (Sandler et al., 2018): inverted residuals with depth-wise convolutions."""

from __future__ import annotations

from typing import Any

#: Expansion, output channels, blocks, stride of the first.
STAGES = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 3 x 224 x 224`` -> 1000 scores; in Keras ``n x 224 x 224 x 3``.

    ``arguments``, in torch: ``stages`` (``STAGES``), ``first`` and ``last`` (32, 1280: channels before and after them),
    ``colours`` (3), ``classes`` (1000).
    """
    if framework == "tensorflow":
        import keras

        return keras.applications.MobileNetV2(weights=None, classifier_activation=None)
    from torch import Tensor, nn

    def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[Any]:
        return [
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
        ]

    class InvertedResidual(nn.Module):
        def __init__(self, inputs: int, outputs: int, expansion: int, stride: int) -> None:
            super().__init__()
            wide = inputs * expansion
            expand = [*conv(inputs, wide, 1), nn.ReLU6()] if expansion > 1 else []
            self.body = nn.Sequential(
                *expand, *conv(wide, wide, 3, stride, wide), nn.ReLU6(), *conv(wide, outputs, 1)
            )
            self.adds = stride == 1 and inputs == outputs

        def forward(self, value: Tensor) -> Any:
            return value + self.body(value) if self.adds else self.body(value)

    blocks: list[Any] = []
    first, last = arguments.get("first", 32), arguments.get("last", 1280)
    inputs = first
    for expansion, outputs, count, stride in arguments.get("stages", STAGES):
        for index in range(count):
            blocks.append(InvertedResidual(inputs, outputs, expansion, stride if index == 0 else 1))
            inputs = outputs
    return nn.Sequential(
        *conv(arguments.get("colours", 3), first, 3, 2), nn.ReLU6(), *blocks, *conv(inputs, last, 1), nn.ReLU6(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, arguments.get("classes", 1000)),
    )  # fmt: skip
