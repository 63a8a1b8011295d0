"""YOLO V2 (Redmon, Farhadi, 2017): Darknet-19, and the finer map beside the coarser one."""

from __future__ import annotations

from typing import Any

#: Channels and kernel of Darknet-19's layers up to the finer map, and after it; "pool": halves the image.
FINE: tuple[Any, ...] = (
    (32, 3), "pool", (64, 3), "pool", (128, 3), (64, 1), (128, 3), "pool", (256, 3), (128, 1), (256, 3), "pool",
    (512, 3), (256, 1), (512, 3), (256, 1), (512, 3),
)  # fmt: skip
COARSE: tuple[Any, ...] = (
    "pool", (1024, 3), (512, 1), (1024, 3), (512, 1), (1024, 3), (1024, 3), (1024, 3)
)  # fmt: skip
BOXES = 5


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 3 x 416 x 416`` -> ``n x 5 (5 + classes) x 13 x 13``, raw. ``arguments``: classes (80)."""
    import torch
    from torch import Tensor, nn

    def conv(inputs: int, outputs: int, kernel: int) -> list[Any]:
        return [
            nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False), nn.BatchNorm2d(outputs),
            nn.LeakyReLU(0.1),
        ]  # fmt: skip

    def chain(inputs: int, described: tuple[Any, ...]) -> Any:
        layers: list[Any] = []
        for one in described:
            if one == "pool":
                layers.append(nn.MaxPool2d(2))
            else:
                layers += conv(inputs, *one)
                inputs = one[0]
        return nn.Sequential(*layers)

    class Yolo(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fine, self.coarse = chain(3, FINE), chain(512, COARSE)
            self.passed = nn.Sequential(*conv(512, 64, 1), nn.PixelUnshuffle(2))
            outputs = BOXES * (5 + arguments.get("classes", 80))
            self.head = nn.Sequential(*conv(1024 + 256, 1024, 3), nn.Conv2d(1024, outputs, 1))

        def forward(self, value: Tensor) -> Any:
            fine = self.fine(value)
            return self.head(torch.cat([self.passed(fine), self.coarse(fine)], 1))

    return Yolo()
