"""AlexNet (Krizhevsky, Sutskever, Hinton, 2012), as Caffe's reference trains it: two groups, response normalisation."""

from __future__ import annotations

from typing import Any


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 3 x 227 x 227`` -> ``n x classes``. ``arguments``: classes."""
    from torch import nn

    from inferbench_tasks.modelrepo.networks.response_norm import response_norm

    def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[Any]:
        pad = 0 if stride > 1 else kernel // 2
        return [nn.Conv2d(inputs, outputs, kernel, stride, pad, groups=groups), nn.ReLU()]

    return nn.Sequential(
        *conv(3, 96, 11, 4), response_norm(), nn.MaxPool2d(3, 2),
        *conv(96, 256, 5, groups=2), response_norm(), nn.MaxPool2d(3, 2),
        *conv(256, 384, 3), *conv(384, 384, 3, groups=2), *conv(384, 256, 3, groups=2), nn.MaxPool2d(3, 2),
        nn.Flatten(), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(), nn.Dropout(),
        nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(),
        nn.Linear(4096, arguments.get("classes", 1000)), nn.Softmax(1),
    )  # fmt: skip
