"""What is trained here on Fashion-MNIST: one small network of each of five architectures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from inferbench_tasks.submission.model import Framework

_SMALL = {"colours": 1, "classes": 10}


@dataclass(frozen=True)
class Network:
    """``architecture``: what builds it (``inferbench.architectures``), of which ``arguments``. ``epochs`` over the
    60,000 images at that rate of Adam's. ``frameworks``: in which it is to be had, its usual one first.
    """

    architecture: str
    arguments: dict[str, Any] = field(default_factory=dict)
    epochs: int = 3
    rate: float = 2e-3
    frameworks: tuple[Framework, ...] = ("torch",)


NETWORKS = {
    "fashion-mnist": Network("fashion-mnist", frameworks=("torch", "tensorflow")),
    "fashion-mnist-resnet": Network(
        "resnet50", {**_SMALL, "blocks": (1, 1, 1), "bottleneck": False, "width": 16, "small": True}
    ),
    "fashion-mnist-mobilenet": Network(
        "mobilenet_v2",
        {**_SMALL, "first": 16, "stages": ((1, 16, 1, 1), (4, 24, 2, 2), (4, 32, 2, 2)), "last": 128},
        epochs=2,
    ),
    "fashion-mnist-mixer": Network(
        "mixer",
        {**_SMALL, "hidden": 64, "layers": 4, "tokens": 64, "channels": 256, "patch": 7, "side": 28},
        rate=1e-3,
    ),
    "fashion-mnist-vit": Network(
        "vit",
        {**_SMALL, "hidden": 64, "layers": 3, "heads": 4, "patch": 7, "side": 28},
        rate=1e-3,
    ),
}
