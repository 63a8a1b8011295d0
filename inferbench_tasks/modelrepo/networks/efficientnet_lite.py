"""EfficientNet-Lite0 (Tan, Le, 2019; Google's "lite" variant: no squeeze-and-excitation, ReLU6).

The larger ones are built here too (``efficientnet_lite_larger``). Modules carry the names of the published PyTorch
weights. Convolutions pad as TensorFlow's "SAME" does, which for a stride of 2 on an even image is one pixel more at
the far side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

#: Kernel, stride of the first, expansion, output channels, blocks.
STAGES = (
    (3, 1, 1, 16, 1), (3, 2, 6, 24, 2), (5, 2, 6, 40, 2), (3, 2, 6, 80, 3), (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4), (3, 1, 6, 320, 1),
)  # fmt: skip
NORM_EPSILON = 1e-3


@dataclass(frozen=True)
class Size:
    """``side`` of the images, pixels; ``width``, ``depth``: times the channels and blocks of Lite0."""

    side: int
    width: float
    depth: float

    def stages(self) -> tuple[tuple[int, int, int, int, int], ...]:
        """Rows as of ``STAGES``. Channels are multiples of 8; the first and the last stage have their one block each,
        and stem and head their channels, in every size."""
        return tuple(
            (
                kernel,
                stride,
                expansion,
                int(outputs * self.width + 4) // 8 * 8,
                blocks if at in (0, len(STAGES) - 1) else math.ceil(blocks * self.depth),
            )
            for at, (kernel, stride, expansion, outputs, blocks) in enumerate(STAGES)
        )


SIZES = {
    "efficientnet-lite0": Size(224, 1.0, 1.0),
    "efficientnet-lite1": Size(240, 1.0, 1.1),
    "efficientnet-lite2": Size(260, 1.1, 1.2),
}


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 3 x side x side``, (pixel - 127) / 128 -> 1000 scores."""
    from torch import Tensor, nn
    from torch.nn import functional

    size = SIZES[name]

    class Same(nn.Conv2d):
        def __init__(
            self, side: int, inputs: int, outputs: int, kernel: int, stride: int, groups: int
        ) -> None:
            super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=False)
            total = max((halved(side, stride) - 1) * stride + kernel - side, 0)
            low = total // 2
            self.pads = (low, total - low, low, total - low)

        def forward(self, value: Tensor) -> Any:
            return super().forward(functional.pad(value, self.pads))

    def norm(channels: int) -> Any:
        return nn.BatchNorm2d(channels, eps=NORM_EPSILON)

    class Block(nn.Module):
        def __init__(
            self, side: int, inputs: int, outputs: int, kernel: int, stride: int, expansion: int
        ) -> None:
            super().__init__()
            wide = inputs * expansion
            self.expands = expansion > 1
            if self.expands:
                self._expand_conv = nn.Conv2d(inputs, wide, 1, bias=False)
                self._bn0 = norm(wide)
            self._depthwise_conv = Same(side, wide, wide, kernel, stride, wide)
            self._bn1 = norm(wide)
            self._project_conv = nn.Conv2d(wide, outputs, 1, bias=False)
            self._bn2 = norm(outputs)
            self.adds = stride == 1 and inputs == outputs

        def forward(self, inputs: Tensor) -> Any:
            value = inputs
            if self.expands:
                value = functional.relu6(self._bn0(self._expand_conv(value)))
            value = functional.relu6(self._bn1(self._depthwise_conv(value)))
            value = self._bn2(self._project_conv(value))
            return value + inputs if self.adds else value

    class Lite(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self._conv_stem = Same(size.side, 3, 32, 3, 2, 1)
            self._bn0 = norm(32)
            blocks, inputs, side = [], 32, halved(size.side, 2)
            for kernel, first_stride, expansion, outputs, count in size.stages():
                for stride in (first_stride, *(1 for _ in range(count - 1))):
                    blocks.append(Block(side, inputs, outputs, kernel, stride, expansion))
                    inputs, side = outputs, halved(side, stride)
            self._blocks = nn.ModuleList(blocks)
            self._conv_head = nn.Conv2d(inputs, 1280, 1, bias=False)
            self._bn1 = norm(1280)
            self._fc = nn.Linear(1280, 1000)

        def forward(self, value: Tensor) -> Any:
            value = functional.relu6(self._bn0(self._conv_stem(value)))
            for block in self._blocks:
                value = block(value)
            value = functional.relu6(self._bn1(self._conv_head(value)))
            return self._fc(value.mean((2, 3)))

    return Lite()


def halved(side: int, stride: int) -> int:
    """Of what is convolved with that stride."""
    return -(-side // stride)
