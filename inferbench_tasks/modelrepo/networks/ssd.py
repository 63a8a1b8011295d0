"""SSD (Liu et al., 2016) on VGG-16: boxes and classes from six or seven maps; default boxes are no part of it."""

from __future__ import annotations

from typing import Any

#: Side -> default boxes per place of each map, and the layers after fc7: narrow, wide, kernel, stride, padding.
SIZES: dict[int, Any] = {
    300: ((4, 6, 6, 6, 4, 4), ((256, 512, 3, 2, 1), (128, 256, 3, 2, 1), (128, 256, 3, 1, 0), (128, 256, 3, 1, 0))),
    512: (
        (4, 6, 6, 6, 6, 4, 4),
        ((256, 512, 3, 2, 1), (128, 256, 3, 2, 1), (128, 256, 3, 2, 1), (128, 256, 3, 2, 1), (128, 256, 4, 1, 1)),
    ),
}  # fmt: skip


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 3 x side x side`` -> ``n x boxes x (4 + classes)``, offsets and the classes' probabilities.

    ``arguments``: side (300: 8732 boxes, 512: 24564), classes with the background.
    """
    import torch
    from torch import Tensor, nn

    classes = arguments["classes"]
    boxes, extras = SIZES[arguments["side"]]

    def stage(inputs: int, outputs: int, count: int) -> list[Any]:
        layers: list[Any] = []
        for index in range(count):
            layers += [nn.Conv2d(inputs if index == 0 else outputs, outputs, 3, padding=1), nn.ReLU()]
        return layers

    class Normalised(nn.Module):
        """Each place's channels of length 1, times a learned scale."""

        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.full((1, 512, 1, 1), 20.0))

        def forward(self, value: Tensor) -> Any:
            return nn.functional.normalize(value) * self.scale

    class Ssd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.low = nn.Sequential(
                *stage(3, 64, 2), nn.MaxPool2d(2), *stage(64, 128, 2), nn.MaxPool2d(2), *stage(128, 256, 3),
                nn.MaxPool2d(2, ceil_mode=True), *stage(256, 512, 3),
            )  # fmt: skip
            self.normalised = Normalised()
            high = nn.Sequential(
                nn.MaxPool2d(2), *stage(512, 512, 3), nn.MaxPool2d(3, 1, 1),
                nn.Conv2d(512, 1024, 3, padding=6, dilation=6), nn.ReLU(), nn.Conv2d(1024, 1024, 1), nn.ReLU(),
            )  # fmt: skip
            steps, inputs, widths = [high], 1024, [512, 1024]
            for narrow, wide, kernel, stride, padding in extras:
                steps.append(
                    nn.Sequential(
                        nn.Conv2d(inputs, narrow, 1), nn.ReLU(),
                        nn.Conv2d(narrow, wide, kernel, stride, padding), nn.ReLU(),
                    )
                )  # fmt: skip
                inputs = wide
                widths.append(wide)
            self.steps = nn.ModuleList(steps)
            self.places = nn.ModuleList(
                nn.Conv2d(w, n * 4, 3, padding=1) for w, n in zip(widths, boxes, strict=True)
            )
            self.scores = nn.ModuleList(
                nn.Conv2d(w, n * classes, 3, padding=1) for w, n in zip(widths, boxes, strict=True)
            )

        def forward(self, value: Tensor) -> Any:
            value = self.low(value)
            maps = [self.normalised(value)]
            for step in self.steps:
                value = step(value)
                maps.append(value)

            def flat(heads: Any, size: int) -> Tensor:
                rows = [
                    head(one).permute(0, 2, 3, 1).flatten(1) for head, one in zip(heads, maps, strict=True)
                ]
                return torch.cat(rows, 1).unflatten(1, (-1, size))

            return torch.cat([flat(self.places, 4), flat(self.scores, classes).softmax(-1)], -1)

    return Ssd()
