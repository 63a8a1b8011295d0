"""``fashion-mnist``, ``fashion-mnist-resnet``, ...: trained here on 60,000 labelled images, measured on 10,000."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.contracts.models import Made, ModelSource, Signature, Watch
from inferbench_tasks.extras import require, version_for_key
from inferbench_tasks.modelrepo.fitting import fit_keras, fit_torch
from inferbench_tasks.modelrepo.one_framework import chosen_framework
from inferbench_tasks.modelrepo.zoo_fashion_networks import NETWORKS
from inferbench_tasks.requests import fashion

SEED = 7
BATCH_SIZE = 128


class FashionMnist(ModelSource):
    """Trained once per machine, then cached; PyTorch on one thread, so that it comes out the same."""

    task = "image-classification"
    licence = "data MIT; weights trained here"
    weights = "trained_here"
    takes_pictures = True

    def __init__(self, name: str, framework: str | None = None) -> None:
        """InputError where it is not to be had in that framework."""
        self.name, self.network = name, NETWORKS[name]
        self.framework = chosen_framework(name, framework, self.network.frameworks)

    def settings(self) -> dict[str, Any]:
        fashion.require_installed(fashion.FOLDER)  # before anything is made, but not to be listed
        return {
            "zoo": self.name,
            "epochs": self.network.epochs,
            "batch": BATCH_SIZE,
            "rate": self.network.rate,
            "seed": SEED,
            self.framework: version_for_key(self.framework),
            "recipe": self.recipe,
            **({"arguments": self.network.arguments} if self.network.arguments else {}),
        }

    def signature(self) -> Signature:
        return (
            (TensorSpec(name="input", dtype="float32", shape=(1, fashion.SIDE, fashion.SIDE)),),
            (TensorSpec(name="scores", dtype="float32", shape=(fashion.CLASSES,)),),
        )

    def dataset(self) -> fashion.Fashion:
        return fashion.Fashion()

    def make(self, folder: Path, watch: Watch) -> Made:
        require(self.framework)
        (folder / "model").mkdir()
        made = self._in_torch if self.framework == "torch" else self._in_keras
        parameters = made(folder / "model", watch)
        inputs, outputs = self.signature()
        return Made(
            format="torch" if self.framework == "torch" else "keras",
            file="model",
            inputs=inputs,
            outputs=outputs,
            parameters=parameters,
        )

    @property
    def _architecture(self) -> dict[str, Any]:
        return {"name": self.network.architecture, "arguments": self.network.arguments}

    def _in_torch(self, folder: Path, watch: Watch) -> int:
        import torch

        from inferbench_tasks.formats.architectures import construct
        from inferbench_tasks.formats.torch import save

        torch.set_num_threads(1)
        torch.manual_seed(SEED)
        module = construct("torch", self._architecture)
        save(fit_torch(module, self._batches(watch), self.network.rate), self._architecture, folder)
        return sum(parameter.numel() for parameter in module.parameters())

    def _in_keras(self, folder: Path, watch: Watch) -> int:
        import keras
        import tensorflow as tf

        from inferbench_tasks.formats.architectures import construct
        from inferbench_tasks.formats.keras import save

        tf.config.experimental.enable_op_determinism()
        keras.utils.set_random_seed(SEED)
        model = construct("tensorflow", self._architecture)
        save(fit_keras(model, self._batches(watch), self.network.rate), self._architecture, folder)
        return sum(int(np.prod(weight.shape)) for weight in model.trainable_variables)

    def _batches(self, watch: Watch) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        """Every epoch in another order, by a seed; whole batches only."""
        images, labels = fashion.part("train", fashion.FOLDER)
        rng = np.random.default_rng(SEED)
        steps, epochs = len(images) // BATCH_SIZE, self.network.epochs
        for epoch in range(epochs):
            order = rng.permutation(len(images))
            for step in range(steps):
                watch.step(epoch * steps + step, epochs * steps, f"training {self.name}")
                rows = order[step * BATCH_SIZE : (step + 1) * BATCH_SIZE]
                yield images[rows], labels[rows]
