"""CycleGAN's generator (Zhu et al., 2017) with nine residual blocks."""

from __future__ import annotations

from typing import Any

BLOCKS = 9


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 3 x 256 x 256`` in [-1, 1] -> the same."""
    from torch import Tensor, nn

    def norm(channels: int) -> Any:
        return nn.InstanceNorm2d(channels)

    class Residual(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            half = [nn.ReflectionPad2d(1), nn.Conv2d(channels, channels, 3), norm(channels)]
            other = [nn.ReflectionPad2d(1), nn.Conv2d(channels, channels, 3), norm(channels)]
            self.body = nn.Sequential(*half, nn.ReLU(), *other)

        def forward(self, value: Tensor) -> Any:
            return value + self.body(value)

    return nn.Sequential(
        nn.ReflectionPad2d(3), nn.Conv2d(3, 64, 7), norm(64), nn.ReLU(),
        nn.Conv2d(64, 128, 3, 2, 1), norm(128), nn.ReLU(),
        nn.Conv2d(128, 256, 3, 2, 1), norm(256), nn.ReLU(),
        *(Residual(256) for _ in range(BLOCKS)),
        nn.ConvTranspose2d(256, 128, 3, 2, 1, 1), norm(128), nn.ReLU(),
        nn.ConvTranspose2d(128, 64, 3, 2, 1, 1), norm(64), nn.ReLU(),
        nn.ReflectionPad2d(3), nn.Conv2d(64, 3, 7), nn.Tanh(),
    )  # fmt: skip
