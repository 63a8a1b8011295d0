"""Squeeze-and-excitation (Hu, Shen, Sun, 2018): each channel weighed by what the whole image shows."""

from __future__ import annotations

from typing import Any


def squeeze_and_excitation(channels: int, reduction: int) -> Any:
    """``n x channels x h x w`` -> the same, times a weight in (0, 1) per channel."""
    from torch import Tensor, nn

    class Excitation(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weigh = nn.Sequential(
                nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, channels // reduction, 1), nn.ReLU(),
                nn.Conv2d(channels // reduction, channels, 1), nn.Sigmoid(),
            )  # fmt: skip

        def forward(self, value: Tensor) -> Any:
            return value * self.weigh(value)

    return Excitation()
