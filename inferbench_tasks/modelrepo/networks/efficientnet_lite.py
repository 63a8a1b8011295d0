"""EfficientNet-Lite0 (Tan, Le, 2019; Google's "lite" variant: no squeeze-and-excitation, ReLU6).

Modules carry the names of the published PyTorch weights. Convolutions pad as TensorFlow's "SAME" does,
which for a stride of 2 on an even image is one pixel more at the far side.
"""

from __future__ import annotations

from typing import Any

#: Kernel, stride of the first, expansion, output channels, blocks.
STAGES = (
    (3, 1, 1, 16, 1), (3, 2, 6, 24, 2), (5, 2, 6, 40, 2), (3, 2, 6, 80, 3), (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4), (3, 1, 6, 320, 1),
)  # fmt: skip
NORM_EPSILON = 1e-3


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 3 x 224 x 224``, (pixel - 127) / 128 -> 1000 scores."""
    from torch import Tensor, nn
    from torch.nn import functional

    class Same(nn.Conv2d):
        def forward(self, value: Tensor) -> Any:
            kernel, stride = self.kernel_size[0], self.stride[0]
            total = max(kernel - stride, 0)
            low = total // 2
            return super().forward(functional.pad(value, (low, total - low, low, total - low)))

    def norm(channels: int) -> Any:
        return nn.BatchNorm2d(channels, eps=NORM_EPSILON)

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
            super().__init__()
            wide = inputs * expansion
            self.expands = expansion > 1
            if self.expands:
                self._expand_conv = nn.Conv2d(inputs, wide, 1, bias=False)
                self._bn0 = norm(wide)
            self._depthwise_conv = Same(wide, wide, kernel, stride, groups=wide, bias=False)
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
            self._conv_stem = Same(3, 32, 3, 2, bias=False)
            self._bn0 = norm(32)
            blocks, inputs = [], 32
            for kernel, stride, expansion, outputs, count in STAGES:
                for index in range(count):
                    blocks.append(Block(inputs, outputs, kernel, stride if index == 0 else 1, expansion))
                    inputs = outputs
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
