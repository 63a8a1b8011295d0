"""Models A and A1 of "Wider or deeper" (Wu, Shen, van den Hengel, 2016): 38 layers, few of them and wide."""

from __future__ import annotations

from typing import Any

#: Widths of the two convolutions of each stage's units, and how many units.
STAGES = ((128, 128, 3), (256, 256, 3), (512, 512, 6), (512, 1024, 3))
#: Widths of the two bottlenecks' three convolutions.
BOTTLENECKS = ((512, 1024, 2048), (1024, 2048, 4096))
#: Stride of each of the six stages, and the dilation of its 3 x 3 convolutions: to classify, and to label each place.
CLASSIFIES = ((2, 2, 2, 2, 2, 1), (1, 1, 1, 1, 1, 1))
LABELS = ((2, 2, 2, 1, 1, 1), (1, 1, 1, 2, 4, 4))


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 3 x side x side`` -> ``n x classes``, or with ``labels`` ``n x classes x side/8 x side/8``."""
    from torch import Tensor, nn

    from inferbench_tasks.modelrepo.networks.norms import told_apart

    labels, classes = arguments.get("labels", False), arguments["classes"]
    strides, dilations = LABELS if labels else CLASSIFIES

    def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, dilation: int = 1) -> Any:
        padding = kernel // 2 * dilation
        return nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, bias=False)

    class Unit(nn.Module):
        """Normalised and activated before each convolution; the shortcut too where it changes the shape."""

        def __init__(self, inputs: int, steps: list[Any], changed: Any) -> None:
            super().__init__()
            self.start = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU())
            self.body, self.changed = nn.Sequential(*steps), changed

        def forward(self, value: Tensor) -> Any:
            start = self.start(value)
            return self.body(start) + (value if self.changed is None else self.changed(start))

    def between(width: int) -> list[Any]:
        return [nn.BatchNorm2d(width), nn.ReLU()]

    units, inputs = [], 64
    for (first, second, count), stride, dilation in zip(STAGES, strides, dilations, strict=False):
        for index in range(count):
            step = stride if index == 0 else 1
            # A stage's first convolution is dilated as the stage before.
            before = 1 if index == 0 else dilation
            body = [
                conv(inputs, first, 3, step, before), *between(first), conv(first, second, 3, 1, dilation)
            ]  # fmt: skip
            changes = step != 1 or inputs != second
            units.append(Unit(inputs, body, conv(inputs, second, 1, step) if changes else None))
            inputs = second
    for (a, b, c), stride, dilation in zip(BOTTLENECKS, strides[4:], dilations[4:], strict=True):
        body = [
            conv(inputs, a, 1, stride), *between(a), nn.Dropout(), conv(a, b, 3, 1, dilation), *between(b),
            nn.Dropout(), conv(b, c, 1),
        ]  # fmt: skip
        units.append(Unit(inputs, body, conv(inputs, c, 1, stride)))
        inputs = c
    head = (
        [conv(inputs, 512, 3, 1, 12), nn.ReLU(), conv(512, classes, 3, 1, 12), nn.Softmax(1)]
        if labels
        else [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes), nn.Softmax(1)]
    )
    return told_apart(nn.Sequential(conv(3, 64, 3), *units, nn.BatchNorm2d(inputs), nn.ReLU(), *head))
