"""Inception V4 (Szegedy, Ioffe, Vanhoucke, Alemi, 2016), without residual connections; its figures 3 to 9."""

from __future__ import annotations

from typing import Any

#: Output channels and kernel of each convolution of a branch, one after the other; an integer kernel is a square.
Branch = tuple[tuple[int, int | tuple[int, int]], ...]
A: tuple[Branch, ...] = (((96, 1),), ((64, 1), (96, 3)), ((64, 1), (96, 3), (96, 3)))
B: tuple[Branch, ...] = (
    ((384, 1),),
    ((192, 1), (224, (1, 7)), (256, (7, 1))),
    ((192, 1), (192, (7, 1)), (224, (1, 7)), (224, (7, 1)), (256, (1, 7))),
)


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 3 x 299 x 299`` -> ``n x classes``. ``arguments``: classes."""
    from torch import nn

    from inferbench_tasks.modelrepo.networks.inception import side_by_side

    branches = side_by_side()

    def conv(
        inputs: int, outputs: int, kernel: int | tuple[int, int], stride: int = 1, same: bool = True
    ) -> Any:
        high, wide = (kernel, kernel) if isinstance(kernel, int) else kernel
        pad = (high // 2, wide // 2) if same and stride == 1 else (0, 0)
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, (high, wide), stride, pad, bias=False),
            nn.BatchNorm2d(outputs, eps=1e-3),
            nn.ReLU(),
        )

    def chain(inputs: int, *convs: tuple[int, int | tuple[int, int]]) -> list[Any]:
        made = []
        for outputs, kernel in convs:
            made.append(conv(inputs, outputs, kernel))
            inputs = outputs
        return made

    def around(inputs: int, outputs: int) -> Any:
        """The mean of the neighbourhood, those beyond the edge left out."""
        return nn.Sequential(nn.AvgPool2d(3, 1, 1, count_include_pad=False), conv(inputs, outputs, 1))

    def module(inputs: int, parts: tuple[Branch, ...], pooled: int) -> Any:
        return branches(*(nn.Sequential(*chain(inputs, *part)) for part in parts), around(inputs, pooled))

    def last() -> Any:
        def split(inputs: int) -> Any:
            return branches(conv(inputs, 256, (1, 3)), conv(inputs, 256, (3, 1)))

        return branches(
            conv(1536, 256, 1),
            nn.Sequential(conv(1536, 384, 1), split(384)),
            nn.Sequential(*chain(1536, (384, 1), (448, (3, 1)), (512, (1, 3))), split(512)),
            around(1536, 256),
        )

    stem = [
        conv(3, 32, 3, 2),
        conv(32, 32, 3, same=False),
        conv(32, 64, 3),
        branches(nn.MaxPool2d(3, 2), conv(64, 96, 3, 2)),
        branches(
            nn.Sequential(conv(160, 64, 1), conv(64, 96, 3, same=False)),
            nn.Sequential(*chain(160, (64, 1), (64, (1, 7)), (64, (7, 1))), conv(64, 96, 3, same=False)),
        ),
        branches(conv(192, 192, 3, 2), nn.MaxPool2d(3, 2)),
    ]
    halves = branches(
        conv(384, 384, 3, 2),
        nn.Sequential(*chain(384, (192, 1), (224, 3)), conv(224, 256, 3, 2)),
        nn.MaxPool2d(3, 2),
    )
    halves_again = branches(
        nn.Sequential(conv(1024, 192, 1), conv(192, 192, 3, 2)),
        nn.Sequential(*chain(1024, (256, 1), (256, (1, 7)), (320, (7, 1))), conv(320, 320, 3, 2)),
        nn.MaxPool2d(3, 2),
    )
    return nn.Sequential(
        *stem, *(module(384, A, 96) for _ in range(4)), halves,
        *(module(1024, B, 128) for _ in range(7)), halves_again, *(last() for _ in range(3)),
        nn.AvgPool2d(8), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1536, arguments.get("classes", 1000)), nn.Softmax(1),
    )  # fmt: skip
