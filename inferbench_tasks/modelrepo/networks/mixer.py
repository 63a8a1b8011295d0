"""MLP-Mixer (Tolstikhin et al., 2021): dense layers over the patches and over the channels by turns."""

from __future__ import annotations

from typing import Any


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x colours x side x side`` -> a score for each class.

    ``arguments``: hidden, layers, tokens, channels, patch (16), side (224), colours (3), classes (1000).
    """
    from torch import Tensor, nn

    hidden, patch, side = arguments["hidden"], arguments.get("patch", 16), arguments.get("side", 224)
    patches = (side // patch) ** 2

    def dense(size: int, wide: int) -> Any:
        return nn.Sequential(nn.Linear(size, wide), nn.GELU(), nn.Linear(wide, size))

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(hidden, 1e-6), nn.LayerNorm(hidden, 1e-6)
            self.tokens = dense(patches, arguments["tokens"])
            self.channels = dense(hidden, arguments["channels"])

        def forward(self, value: Tensor) -> Any:
            value = value + self.tokens(self.first(value).transpose(1, 2)).transpose(1, 2)
            return value + self.channels(self.second(value))

    class Mixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(arguments.get("colours", 3), hidden, patch, patch)
            self.layers = nn.Sequential(*(Layer() for _ in range(arguments["layers"])))
            self.norm = nn.LayerNorm(hidden, 1e-6)
            self.head = nn.Linear(hidden, arguments.get("classes", 1000))

        def forward(self, value: Tensor) -> Any:
            value = self.layers(self.patches(value).flatten(2).transpose(1, 2))
            return self.head(self.norm(value).mean(1))

    return Mixer()
