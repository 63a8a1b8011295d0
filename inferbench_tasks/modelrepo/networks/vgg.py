"""VGG (Simonyan, Zisserman, 2015): 3 x 3 convolutions in five stages, then three dense layers."""

from __future__ import annotations

from typing import Any

WIDTHS = (64, 128, 256, 512, 512)
#: Convolutions of each stage.
VGG_16, VGG_19 = (2, 2, 3, 3, 3), (2, 2, 4, 4, 4)


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 3 x 224 x 224`` -> ``n x classes``. ``arguments``: blocks of the five stages, classes, hidden."""
    from torch import nn

    classes, hidden = arguments.get("classes", 1000), arguments.get("hidden", 4096)
    layers: list[Any] = []
    inputs = 3
    for count, width in zip(arguments.get("blocks", VGG_16), WIDTHS, strict=True):
        for _ in range(count):
            layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU()]
            inputs = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(
        *layers, nn.Flatten(), nn.Linear(512 * 7 * 7, hidden), nn.ReLU(), nn.Dropout(),
        nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(), nn.Linear(hidden, classes), nn.Softmax(1),
    )  # fmt: skip
