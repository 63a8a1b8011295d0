"""Hourglass networks of hierarchical blocks: face alignment (Bulat, Tzimiropoulos, 2017), volumetric regression."""

from __future__ import annotations

from typing import Any


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 3 x side x side`` -> ``n x stacks x outputs x side/4 x side/4``, the heat maps of every stack.

    ``arguments``: stacks (4), depth (4), outputs (68), last_only (False: else ``n x outputs x side/4 x side/4``).
    """
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import interpolate

    from inferbench_tasks.modelrepo.networks.norms import told_apart

    stacks, depth, outputs = (
        arguments.get("stacks", 4),
        arguments.get("depth", 4),
        arguments.get("outputs", 68),
    )

    def conv(inputs: int, outputs: int, kernel: int = 3) -> Any:
        return nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(),
            nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False),
        )

    class Block(nn.Module):
        """Half, a quarter and a quarter of the channels, each of the one before, beside each other."""

        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.parts = nn.ModuleList(
                [
                    conv(inputs, outputs // 2),
                    conv(outputs // 2, outputs // 4),
                    conv(outputs // 4, outputs // 4),
                ]
            )
            self.shortcut = conv(inputs, outputs, 1) if inputs != outputs else nn.Identity()

        def forward(self, value: Tensor) -> Any:
            parts, part = [], value
            for step in self.parts:
                part = step(part)
                parts.append(part)
            return torch.cat(parts, 1) + self.shortcut(value)

    class Hourglass(nn.Module):
        def __init__(self, depth: int) -> None:
            super().__init__()
            self.beside, self.before, self.after = (Block(256, 256) for _ in range(3))
            self.inner: Any = Hourglass(depth - 1) if depth > 1 else Block(256, 256)
            self.pool = nn.AvgPool2d(2)

        def forward(self, value: Tensor) -> Any:
            low = self.after(self.inner(self.before(self.pool(value))))
            return self.beside(value) + interpolate(low, scale_factor=2.0, mode="nearest")

    class Stack(nn.Module):
        def __init__(self, last: bool) -> None:
            super().__init__()
            self.features = nn.Sequential(
                Hourglass(depth), Block(256, 256), nn.Conv2d(256, 256, 1), nn.BatchNorm2d(256), nn.ReLU()
            )
            self.heat = nn.Conv2d(256, outputs, 1)
            self.last = last
            if not last:
                self.of_features, self.of_heat = nn.Conv2d(256, 256, 1), nn.Conv2d(outputs, 256, 1)

        def forward(self, value: Tensor) -> Any:
            features = self.features(value)
            heat = self.heat(features)
            return heat, heat if self.last else value + self.of_features(features) + self.of_heat(heat)

    class Stacked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(
                nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.ReLU(), Block(64, 128), nn.AvgPool2d(2),
                Block(128, 128), Block(128, 256),
            )  # fmt: skip
            self.stacks = nn.ModuleList(Stack(index == stacks - 1) for index in range(stacks))

        def forward(self, value: Tensor) -> Any:
            value, heats = self.stem(value), []
            for stack in self.stacks:
                heat, value = stack(value)
                heats.append(heat)
            return heats[-1] if arguments.get("last_only") else torch.stack(heats, 1)

    return told_apart(Stacked())
