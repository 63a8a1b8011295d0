"""U-Nets: down to few pixels and up again, each level beside what came down; Pix2pix (Isola et al., 2017)."""

from __future__ import annotations

from typing import Any


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 3 x 256 x 256`` in [-1, 1] -> the same, as in evaluation: without dropout.

    ``arguments``: levels (8: down to one pixel), width (64), channels of the image (3).
    """
    import torch
    from torch import Tensor, nn

    levels, width = arguments.get("levels", 8), arguments.get("width", 64)
    channels = arguments.get("channels", 3)
    widths = [min(width << level, width * 8) for level in range(levels)]

    class Level(nn.Module):
        """What lies below a level, on half its size; its answer beside what it was fed with."""

        def __init__(self, level: int) -> None:
            super().__init__()
            inputs, inner = widths[level - 1], widths[level]
            innermost = level == levels - 1
            down = [nn.LeakyReLU(0.2), nn.Conv2d(inputs, inner, 4, 2, 1)]
            below = [] if innermost else [nn.BatchNorm2d(inner), Level(level + 1)]
            taken = inner if innermost else inner * 2
            up = [nn.ReLU(), nn.ConvTranspose2d(taken, inputs, 4, 2, 1), nn.BatchNorm2d(inputs)]
            self.body = nn.Sequential(*down, *below, *up)

        def forward(self, value: Tensor) -> Any:
            return torch.cat([value, self.body(value)], 1)

    return nn.Sequential(
        nn.Conv2d(channels, width, 4, 2, 1), Level(1), nn.ReLU(),
        nn.ConvTranspose2d(width * 2, channels, 4, 2, 1), nn.Tanh(),
    )  # fmt: skip
