"""Single-image depth perception in the wild (Chen, Fu, Yang, Deng, 2016): an hourglass of Inception modules."""

from __future__ import annotations

from typing import Any

#: Channels of the 1 x 1 branch, those before the other branches' kernels, and the kernels; each branch gives as many.
A, B = (64, 32, (3, 5, 7)), (64, 64, (3, 7, 11))
C, D = (32, 32, (3, 5, 7)), (32, 64, (3, 7, 11))
E, F = (32, 64, (3, 5, 7)), (16, 32, (3, 7, 11))
G, H = (16, 64, (3, 7, 11)), (64, 32, (3, 5, 7))
#: From the outside to the inside: before and after what lies within, and beside it.
LEVELS: tuple[Any, ...] = (
    ((C, C), (E, F), (G,)), ((C, H), (A, C), (C, D)), ((A, A), (A, B), (A, B)), ((A, A), (A,), (A, B)),
)  # fmt: skip


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 3 x 240 x 320`` -> ``n x 1 x 240 x 320``, relative depth."""
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import interpolate

    def conv(inputs: int, outputs: int, kernel: int) -> list[Any]:
        return [
            nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2), nn.BatchNorm2d(outputs), nn.ReLU()
        ]  # fmt: skip

    class Module(nn.Module):
        def __init__(self, inputs: int, outputs: int, narrow: int, kernels: tuple[int, ...]) -> None:
            super().__init__()
            self.branches = nn.ModuleList(
                [
                    nn.Sequential(*conv(inputs, outputs, 1)),
                    *(nn.Sequential(*conv(inputs, narrow, 1), *conv(narrow, outputs, k)) for k in kernels),
                ]
            )

        def forward(self, value: Tensor) -> Any:
            return torch.cat([branch(value) for branch in self.branches], 1)

    def modules(inputs: int, described: tuple[Any, ...]) -> tuple[list[Any], int]:
        made = []
        for outputs, narrow, kernels in described:
            made.append(Module(inputs, outputs, narrow, kernels))
            inputs = outputs * 4
        return made, inputs

    class Level(nn.Module):
        def __init__(self, number: int, inputs: int) -> None:
            super().__init__()
            before, after, beside = LEVELS[number]
            first, inner = modules(inputs, before)
            within: list[Any] = []
            if number + 1 < len(LEVELS):
                within = [Level(number + 1, inner)]
                inner = within[0].outputs
            last, self.outputs = modules(inner, after)
            self.low = nn.Sequential(nn.AvgPool2d(2), *first, *within, *last)
            self.beside = nn.Sequential(*modules(inputs, beside)[0])

        def forward(self, value: Tensor) -> Any:
            return interpolate(self.low(value), scale_factor=2.0, mode="nearest") + self.beside(value)

    return nn.Sequential(*conv(3, 128, 7), Level(0, 128), nn.Conv2d(64, 1, 3, padding=1))
