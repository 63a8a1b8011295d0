"""Residual networks (He et al., 2016) and what was made of them: wide, grouped, thin, with squeeze-and-excitation.

The stride of a bottleneck is on its 3 x 3 convolution, the usual "v1.5".
"""

from __future__ import annotations

from typing import Any

#: Blocks of each stage; the first stage has 64 channels, each later one twice as many on half the size.
RESNET_18, RESNET_50 = (2, 2, 2, 2), (3, 4, 6, 3)
EXPANSION = 4


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 3 x 224 x 224`` -> the classes' scores; in Keras, ResNet-50 only, ``n x 224 x 224 x 3``.

    ``arguments`` as of ``in_torch``, with ``blocks`` for the stages; without any it is ResNet-50.
    """
    if framework == "tensorflow":
        import keras

        return keras.applications.ResNet50(weights=None, classifier_activation=None)
    given = {"blocks": RESNET_50, "bottleneck": True, **arguments}
    return in_torch(tuple(given.pop("blocks")), **given)


def in_torch(
    blocks_of_stages: tuple[int, ...], *, bottleneck: bool, width: int = 64, inner: int = 1, groups: int = 1,
    squeeze: int = 0, classes: int = 1000, colours: int = 3, small: bool = False,
) -> Any:  # fmt: skip
    """``n x colours x side x side`` -> ``n x classes``, of blocks with two 3 x 3 convolutions, or of bottlenecks.

    ``width``: the first stage's channels before expansion (32: thin, Open NSFW). ``inner``: how much wider a
    bottleneck's 3 x 3 convolution is (2: Wide ResNet-50-2, and with 32 ``groups`` ResNeXt 32x4d). ``squeeze``: by what
    a block's channels are reduced in its squeeze-and-excitation (Hu et al., 2018); 0: it has none. ``small``: it is for
    small images, and begins with one convolution of 3 x 3 to ``width`` channels on half the size.
    """
    from torch import Tensor, nn

    from inferbench_tasks.modelrepo.networks.excitation import squeeze_and_excitation

    def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[Any]:
        return [
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
        ]

    def body(inputs: int, width: int, stride: int) -> list[Any]:
        outputs = width * EXPANSION if bottleneck else width
        excited = [squeeze_and_excitation(outputs, squeeze)] if squeeze else []
        if not bottleneck:
            return [*conv(inputs, width, 3, stride), nn.ReLU(), *conv(width, width, 3), *excited]
        middle = width * inner
        return [
            *conv(inputs, middle, 1), nn.ReLU(), *conv(middle, middle, 3, stride, groups), nn.ReLU(),
            *conv(middle, outputs, 1), *excited,
        ]  # fmt: skip

    class Block(nn.Module):
        def __init__(self, inputs: int, width: int, stride: int) -> None:
            super().__init__()
            outputs = width * EXPANSION if bottleneck else width
            self.body = nn.Sequential(*body(inputs, width, stride))
            changes = stride != 1 or inputs != outputs
            self.shortcut = nn.Sequential(*conv(inputs, outputs, 1, stride)) if changes else nn.Identity()
            self.activation = nn.ReLU()

        def forward(self, value: Tensor) -> Any:
            return self.activation(self.body(value) + self.shortcut(value))

    if small:
        stem, inputs = [*conv(colours, width, 3, 2), nn.ReLU()], width
    else:
        stem, inputs = [*conv(colours, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    blocks: list[Any] = []
    for stage, count in enumerate(blocks_of_stages):
        wide = width << stage
        for index in range(count):
            blocks.append(Block(inputs, wide, 2 if stage and not index else 1))
            inputs = wide * EXPANSION if bottleneck else wide
    return nn.Sequential(
        *stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes),
    )  # fmt: skip
