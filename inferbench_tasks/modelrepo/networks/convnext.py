"""ConvNeXt (Liu et al., A ConvNet for the 2020s, 2022): 7 x 7 depth-wise convolutions, then dense layers per place."""

from __future__ import annotations

from typing import Any

#: Blocks and channels of the tiny one's four stages.
BLOCKS, WIDTHS = (3, 3, 9, 3), (96, 192, 384, 768)


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 3 x 224 x 224`` -> 1000 scores. ``arguments``: blocks, widths of the four stages."""
    import torch
    from torch import Tensor, nn

    blocks, widths = arguments.get("blocks", BLOCKS), arguments.get("widths", WIDTHS)

    class Norm(nn.LayerNorm):
        """Over the channels of each place."""

        def forward(self, value: Tensor) -> Any:
            return super().forward(value.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.spatial = nn.Conv2d(width, width, 7, padding=3, groups=width)
            self.dense = nn.Sequential(
                nn.LayerNorm(width, 1e-6), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )
            self.scale = nn.Parameter(torch.full((width,), 0.1))

        def forward(self, value: Tensor) -> Any:
            dense = self.dense(self.spatial(value).permute(0, 2, 3, 1)) * self.scale
            return value + dense.permute(0, 3, 1, 2)

    layers: list[Any] = [nn.Conv2d(3, widths[0], 4, 4), Norm(widths[0], 1e-6)]
    for index, (count, width) in enumerate(zip(blocks, widths, strict=True)):
        if index:
            layers += [Norm(widths[index - 1], 1e-6), nn.Conv2d(widths[index - 1], width, 2, 2)]
        layers += [Block(width) for _ in range(count)]
    return nn.Sequential(
        *layers,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.LayerNorm(widths[-1], 1e-6),
        nn.Linear(widths[-1], 1000),
    )
