"""Style transfer by adaptive instance normalisation (Huang, Belongie, 2017): VGG-19's first layers and their mirror."""

from __future__ import annotations

from typing import Any

EPSILON = 1e-5
#: Channels of the encoder's convolutions; "pool": halves the image. The decoder's; "up": doubles it.
ENCODER: tuple[Any, ...] = (64, 64, "pool", 128, 128, "pool", 256, 256, 256, 256, "pool", 512)
DECODER: tuple[Any, ...] = (256, "up", 256, 256, 256, 128, "up", 128, 64, "up", 64)


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``content, style: n x 3 x 256 x 256`` -> an image of the same size."""
    from torch import Tensor, nn

    def conv(inputs: int, outputs: int) -> list[Any]:
        return [nn.ReflectionPad2d(1), nn.Conv2d(inputs, outputs, 3)]

    def chain(inputs: int, described: tuple[Any, ...]) -> list[Any]:
        layers: list[Any] = []
        for one in described:
            if one == "pool":
                layers.append(nn.MaxPool2d(2, ceil_mode=True))
            elif one == "up":
                layers.append(nn.Upsample(scale_factor=2.0, mode="nearest"))
            else:
                layers += [*conv(inputs, one), nn.ReLU()]
                inputs = one
        return layers

    class Transfer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Conv2d(3, 3, 1), *chain(3, ENCODER))
            self.decoder = nn.Sequential(*chain(512, DECODER), *conv(64, 3))

        def forward(self, content: Tensor, style: Tensor) -> Any:
            content, style = self.encoder(content), self.encoder(style)

            def moments(value: Tensor) -> tuple[Tensor, Tensor]:
                mean = value.mean((2, 3), keepdim=True)
                return mean, ((value - mean).square().mean((2, 3), keepdim=True) + EPSILON).sqrt()

            (mean, spread), (wanted_mean, wanted_spread) = moments(content), moments(style)
            return self.decoder((content - mean) / spread * wanted_spread + wanted_mean)

    return Transfer()
