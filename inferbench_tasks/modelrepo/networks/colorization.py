"""Colours for grey images: Zhang, Isola, Efros, 2016 (colorful); Iizuka, Simo-Serra, Ishikawa, 2016 (global)."""

from __future__ import annotations

from typing import Any

#: Zhang et al.: channels, stride of the last, dilation of each stage's convolutions; all but the last end in a norm.
COLORFUL: tuple[Any, ...] = (
    ((64, 64), 2, 1), ((128, 128), 2, 1), ((256,) * 3, 2, 1), ((512,) * 3, 1, 1), ((512,) * 3, 1, 2),
    ((512,) * 3, 1, 2), ((512,) * 3, 1, 1),
)  # fmt: skip
BINS = 313


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 1 x 224 x 224``, lightness -> ``n x 2 x 224 x 224``, colour. ``arguments``: variant, colorful or global."""
    return _global() if arguments["variant"] == "global" else _colorful()


def _colorful() -> Any:
    from torch import nn

    layers: list[Any] = []
    inputs = 1
    for widths, stride, dilation in COLORFUL:
        for index, width in enumerate(widths):
            step = stride if index == len(widths) - 1 else 1
            layers += [nn.Conv2d(inputs, width, 3, step, dilation, dilation), nn.ReLU()]
            inputs = width
        layers.append(nn.BatchNorm2d(inputs))
    return nn.Sequential(
        *layers, nn.ConvTranspose2d(inputs, 256, 4, 2, 1), nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(),
        nn.Conv2d(256, BINS, 1), nn.Softmax(1), nn.Conv2d(BINS, 2, 1, bias=False),
        nn.Upsample(scale_factor=4.0, mode="bilinear"),
    )  # fmt: skip


def _global() -> Any:
    import torch
    from torch import Tensor, nn

    def conv(inputs: int, outputs: int, stride: int = 1) -> list[Any]:
        return [nn.Conv2d(inputs, outputs, 3, stride, 1), nn.BatchNorm2d(outputs), nn.ReLU()]

    def dense(inputs: int, outputs: int) -> list[Any]:
        return [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]

    def twice() -> Any:
        return nn.Upsample(scale_factor=2.0, mode="nearest")

    class Colours(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.low = nn.Sequential(
                *conv(1, 64, 2), *conv(64, 128), *conv(128, 128, 2), *conv(128, 256), *conv(256, 256, 2),
                *conv(256, 512),
            )  # fmt: skip
            self.whole = nn.Sequential(
                *conv(512, 512, 2), *conv(512, 512), *conv(512, 512, 2), *conv(512, 512), nn.Flatten(),
                *dense(512 * 7 * 7, 1024), *dense(1024, 512), *dense(512, 256),
            )  # fmt: skip
            self.middle = nn.Sequential(*conv(512, 512), *conv(512, 256))
            self.colours = nn.Sequential(
                nn.Conv2d(512, 256, 1), nn.ReLU(), *conv(256, 128), twice(), *conv(128, 64), *conv(64, 64),
                twice(), *conv(64, 32), nn.Conv2d(32, 2, 3, padding=1), nn.Sigmoid(), twice(),
            )  # fmt: skip

        def forward(self, value: Tensor) -> Any:
            low = self.low(value)
            middle = self.middle(low)
            whole = self.whole(low)[:, :, None, None].expand(-1, -1, middle.shape[2], middle.shape[3])
            return self.colours(torch.cat([middle, whole], 1))

    return Colours()
