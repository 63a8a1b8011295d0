"""Inception V1 (Szegedy et al., 2015) and its successor with batch normalisation (Ioffe, Szegedy, 2015)."""

from __future__ import annotations

from typing import Any

#: 1 x 1; before 3 x 3, 3 x 3; before 5 x 5, 5 x 5; after pooling. "pool": halves the image.
V1: tuple[Any, ...] = (
    (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), "pool",
    (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64),
    (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128), "pool",
    (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128),
)  # fmt: skip
#: 1 x 1; before 3 x 3, 3 x 3; before twice 3 x 3, those; after pooling. No 1 x 1: the module halves the image.
NORMALISED = (
    (64, 64, 64, 64, 96, 32), (64, 64, 96, 64, 96, 64), (0, 128, 160, 64, 96, 0),
    (224, 64, 96, 96, 128, 128), (192, 96, 128, 96, 128, 128), (160, 128, 160, 128, 160, 128),
    (96, 128, 192, 160, 192, 128), (0, 128, 192, 192, 256, 0),
    (352, 192, 320, 160, 224, 128), (352, 192, 320, 192, 224, 128),
)  # fmt: skip


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 3 x 224 x 224`` -> ``n x classes``. ``arguments``: classes, normalised (False)."""
    classes = arguments.get("classes", 1000)
    return _normalised(classes) if arguments.get("normalised") else _first(classes)


def side_by_side() -> Any:
    """The class of modules that show one value to several branches."""
    import torch
    from torch import Tensor, nn

    class Branches(nn.Module):
        """All of them over the same value, their channels one after the other."""

        def __init__(self, *branches: Any) -> None:
            super().__init__()
            self.branches = nn.ModuleList(branches)

        def forward(self, value: Tensor) -> Any:
            return torch.cat([branch(value) for branch in self.branches], 1)

    return Branches


def _first(classes: int) -> Any:
    from torch import nn

    from inferbench_tasks.modelrepo.networks.response_norm import response_norm

    branches = side_by_side()

    def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[Any]:
        return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2), nn.ReLU()]

    def pool() -> Any:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    layers = [
        *conv(3, 64, 7, 2),
        pool(),
        response_norm(),
        *conv(64, 64, 1),
        *conv(64, 192, 3),
        response_norm(),
        pool(),
    ]
    inputs = 192
    for module in V1:
        if module == "pool":
            layers.append(pool())
            continue
        a, b3, b, c5, c, d = module
        layers.append(
            branches(
                nn.Sequential(*conv(inputs, a, 1)),
                nn.Sequential(*conv(inputs, b3, 1), *conv(b3, b, 3)),
                nn.Sequential(*conv(inputs, c5, 1), *conv(c5, c, 5)),
                nn.Sequential(nn.MaxPool2d(3, 1, 1), *conv(inputs, d, 1)),
            )
        )
        inputs = a + b + c + d
    return nn.Sequential(
        *layers, nn.AvgPool2d(7), nn.Flatten(), nn.Dropout(0.4), nn.Linear(inputs, classes), nn.Softmax(1)
    )


def _normalised(classes: int) -> Any:
    from torch import nn

    branches = side_by_side()

    def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[Any]:
        return [
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2), nn.BatchNorm2d(outputs), nn.ReLU()
        ]  # fmt: skip

    def pool() -> Any:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    layers: list[Any] = [*conv(3, 64, 7, 2), pool(), *conv(64, 64, 1), *conv(64, 192, 3), pool()]
    inputs = 192
    for index, (a, b3, b, c3, c, d) in enumerate(NORMALISED):
        stride = 1 if a else 2
        parts = [
            nn.Sequential(*conv(inputs, b3, 1), *conv(b3, b, 3, stride)),
            nn.Sequential(*conv(inputs, c3, 1), *conv(c3, c, 3), *conv(c, c, 3, stride)),
        ]
        if a:
            last = index == len(NORMALISED) - 1
            around = nn.MaxPool2d(3, 1, 1) if last else nn.AvgPool2d(3, 1, 1)
            parts = [
                nn.Sequential(*conv(inputs, a, 1)), *parts, nn.Sequential(around, *conv(inputs, d, 1))
            ]  # fmt: skip
        else:
            parts.append(nn.MaxPool2d(3, 2, 1))
        layers.append(branches(*parts))
        inputs = a + b + c + d if a else inputs + b + c
    return nn.Sequential(*layers, nn.AvgPool2d(7), nn.Flatten(), nn.Linear(inputs, classes), nn.Softmax(1))
