"""SENet-154 (Hu, Shen, Sun, 2018): grouped bottlenecks with squeeze-and-excitation and a stem of three convolutions."""

from __future__ import annotations

from typing import Any

BLOCKS = (3, 8, 36, 3)
GROUPS, REDUCTION = 64, 16


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 3 x 224 x 224`` -> 1000 scores. ``arguments``: blocks of the four stages."""
    from torch import Tensor, nn

    from inferbench_tasks.modelrepo.networks.excitation import squeeze_and_excitation

    def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[Any]:
        return [
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
        ]

    class Block(nn.Module):
        def __init__(self, inputs: int, width: int, stride: int, kernel: int) -> None:
            super().__init__()
            outputs = width * 4
            self.body = nn.Sequential(
                *conv(inputs, width * 2, 1), nn.ReLU(),
                *conv(width * 2, outputs, 3, stride, GROUPS), nn.ReLU(),
                *conv(outputs, outputs, 1), squeeze_and_excitation(outputs, REDUCTION),
            )  # fmt: skip
            changes = inputs != outputs
            self.shortcut = (
                nn.Sequential(*conv(inputs, outputs, kernel, stride)) if changes else nn.Identity()
            )
            self.activation = nn.ReLU()

        def forward(self, value: Tensor) -> Any:
            return self.activation(self.body(value) + self.shortcut(value))

    blocks, inputs = [], 128
    for stage, count in enumerate(arguments.get("blocks", BLOCKS)):
        width = 64 << stage
        for index in range(count):
            # The first stage's shortcut is 1 x 1, the later ones' 3 x 3.
            blocks.append(Block(inputs, width, 2 if stage and not index else 1, 3 if stage else 1))
            inputs = width * 4
    return nn.Sequential(
        *conv(3, 64, 3, 2), nn.ReLU(), *conv(64, 64, 3), nn.ReLU(), *conv(64, 128, 3), nn.ReLU(),
        nn.MaxPool2d(3, 2, ceil_mode=True), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(inputs, 1000),
    )  # fmt: skip
