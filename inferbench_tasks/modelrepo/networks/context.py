"""Multi-scale context aggregation (Yu, Koltun, 2016): VGG-16 with dilations, then convolutions of growing dilation."""

from __future__ import annotations

from typing import Any

#: Dilations of the context module's 3 x 3 convolutions.
DILATIONS = (1, 1, 2, 4, 8, 16, 1)
ENLARGED = 8


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 3 x h x w`` -> ``n x classes x h x w``, scores. ``arguments``: classes (11: CamVid)."""
    from torch import nn

    classes = arguments.get("classes", 11)

    def stage(inputs: int, outputs: int, count: int, dilation: int = 1) -> list[Any]:
        layers: list[Any] = []
        for index in range(count):
            taken = inputs if index == 0 else outputs
            layers += [nn.Conv2d(taken, outputs, 3, padding=dilation, dilation=dilation), nn.ReLU()]
        return layers

    context: list[Any] = []
    for dilation in DILATIONS:
        context += stage(classes, classes, 1, dilation)
    return nn.Sequential(
        *stage(3, 64, 2), nn.MaxPool2d(2), *stage(64, 128, 2), nn.MaxPool2d(2), *stage(128, 256, 3),
        nn.MaxPool2d(2), *stage(256, 512, 3), *stage(512, 512, 3, 2),
        nn.Conv2d(512, 4096, 7, padding=12, dilation=4), nn.ReLU(), nn.Dropout(),
        nn.Conv2d(4096, 4096, 1), nn.ReLU(), nn.Dropout(), nn.Conv2d(4096, classes, 1),
        *context, nn.Conv2d(classes, classes, 1),
        nn.ConvTranspose2d(classes, classes, 16, ENLARGED, 4, groups=classes, bias=False), nn.Softmax(1),
    )  # fmt: skip
