"""A one-stage detector with raw heads; non-maximum suppression stays outside, in ``processors``."""

from __future__ import annotations

from typing import Any

SIDE, CLASSES = 320, 20
#: Channels of the backbone's stages; each halves the image.
CHANNELS = (24, 48, 96, 192, 256)


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 3 x 320 x 320`` -> ``n x 2100 x 24``: x1 y1 x2 y2 in pixels, then 20 class scores.

    A box for each of 40^2 + 20^2 + 10^2 cells.
    """
    import torch
    from torch import Tensor, nn

    def conv(inputs: int, outputs: int, stride: int) -> Any:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.SiLU()
        )

    class Detector(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = (3, *CHANNELS)
            self.stages = nn.ModuleList(
                nn.Sequential(conv(a, b, 2), conv(b, b, 1)) for a, b in zip(widths, CHANNELS, strict=False)
            )
            self.heads = nn.ModuleList(nn.Conv2d(c, 4 + CLASSES, 1) for c in CHANNELS[2:])
            for level, side in enumerate((40, 20, 10)):
                step = SIDE // side
                at = (torch.arange(side, dtype=torch.float32) + 0.5) * step
                grid = torch.stack(torch.meshgrid(at, at, indexing="xy"), -1).reshape(1, -1, 2)
                self.register_buffer(f"grid_{level}", grid)
                self.register_buffer(f"step_{level}", torch.tensor(float(step)))

        def forward(self, value: Tensor) -> Any:
            detections = []
            for index, stage in enumerate(self.stages):
                value = stage(value)
                if index < 2:
                    continue
                raw = self.heads[index - 2](value).flatten(2).transpose(1, 2)
                grid, step = getattr(self, f"grid_{index - 2}"), getattr(self, f"step_{index - 2}")
                # Distances from the cell's centre to the four sides, never negative.
                sides = nn.functional.softplus(raw[..., :4]) * step
                boxes = torch.cat([grid - sides[..., :2], grid + sides[..., 2:]], -1)
                detections.append(torch.cat([boxes, raw[..., 4:].sigmoid()], -1))
            return torch.cat(detections, 1)

    return Detector()
