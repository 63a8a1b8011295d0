"""``fashion-mnist``: a CNN trained here on 60,000 labelled images, measured on 10,000 others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.contracts.models import Made, Signature, Watch
from inferbench_tasks.extras import require
from inferbench_tasks.modelrepo.one_framework import OneFramework
from inferbench_tasks.modelrepo.zoo_efficientnet import torch_version
from inferbench_tasks.requests import fashion

SEED = 7
EPOCHS = 3
BATCH_SIZE = 128
LEARNING_RATE = 2e-3


class FashionMnist(OneFramework):
    """Trained once per machine, then cached; on one thread, so that it comes out the same."""

    framework = "torch"
    only = "is only to be had in torch"
    task = "image-classification"
    licence = "data MIT; weights trained here"

    def settings(self) -> dict[str, Any]:
        fashion.require_installed(fashion.FOLDER)  # before anything is made, but not to be listed
        return {
            "zoo": self.name,
            "epochs": EPOCHS,
            "batch": BATCH_SIZE,
            "rate": LEARNING_RATE,
            "seed": SEED,
            "torch": torch_version(),
            "recipe": self.recipe,
        }

    def signature(self) -> Signature:
        return (
            (TensorSpec(name="input", dtype="float32", shape=(1, fashion.SIDE, fashion.SIDE)),),
            (TensorSpec(name="scores", dtype="float32", shape=(fashion.CLASSES,)),),
        )

    def dataset(self) -> fashion.Fashion:
        return fashion.Fashion()

    def make(self, folder: Path, watch: Watch) -> Made:
        require("torch")
        import torch

        from inferbench_tasks.formats.architectures import construct
        from inferbench_tasks.formats.torch import save

        torch.set_num_threads(1)
        torch.manual_seed(SEED)
        architecture = {"name": self.name, "arguments": {}}
        network = construct("torch", architecture).train()
        optimiser = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
        images, labels = (torch.from_numpy(array) for array in fashion.part("train", fashion.FOLDER))
        rng = np.random.default_rng(SEED)
        steps = len(images) // BATCH_SIZE
        for epoch in range(EPOCHS):
            order = rng.permutation(len(images))
            for step in range(steps):
                watch.step(epoch * steps + step, EPOCHS * steps, "training fashion-mnist")
                rows = torch.from_numpy(order[step * BATCH_SIZE : (step + 1) * BATCH_SIZE])
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(network(images[rows]), labels[rows]).backward()
                optimiser.step()
        network.eval()
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
