"""Well-known networks with seeded random weights: for performance, where only the arithmetic counts.

Their answers mean nothing, so they have no accuracy; their requests are seeded noise.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.contracts.models import RANDOM_WEIGHTS, Made, ModelSource, Signature, Watch
from inferbench_tasks.extras import require, version_for_key
from inferbench_tasks.modelrepo.one_framework import chosen_framework
from inferbench_tasks.modelrepo.zoo_networks import NETWORKS, VOCABULARY

SEED = 7


class RandomWeights(ModelSource):
    """A network of ``NETWORKS`` with random weights."""

    licence = "weights are random"
    weights = "random"
    takes_pictures = True
    accuracy_reason = RANDOM_WEIGHTS

    def __init__(self, name: str, framework: str | None = None) -> None:
        self.name = name
        self.network = NETWORKS[name]
        shapes = {"torch": self.network.shape, "tensorflow": self.network.tensorflow_shape}
        had = {name: shape for name, shape in shapes.items() if shape is not None}
        self.framework = chosen_framework(name, framework, list(had))
        self.task = self.network.task
        self.shape = had[self.framework]

    def settings(self) -> dict[str, Any]:
        package = "torch" if self.framework == "torch" else "tensorflow"
        return {
            "zoo": self.name,
            "framework": self.framework,
            "arguments": self.network.arguments,
            "seed": SEED,
            "version": version_for_key(package),
            "recipe": self.recipe,
        }

    def inputs(self) -> tuple[TensorSpec, ...]:
        """Text models take ids and a mask, the others float tensors."""
        if self.task == "text-embedding":
            return tuple(
                TensorSpec(name=name, dtype="int64", shape=self.shape)
                for name in ("input_ids", "attention_mask")
            )
        return tuple(TensorSpec(name=name, dtype="float32", shape=self.shape) for name in self.network.inputs)

    def signature(self) -> Signature:
        return self.inputs(), (self.network.output,)

    def noise(self, inputs: tuple[TensorSpec, ...], count: int, rng: np.random.Generator) -> Arrays:
        """Token ids over the whole vocabulary, nothing masked."""
        if self.task != "text-embedding":
            return super().noise(inputs, count, rng)
        ids = rng.integers(0, VOCABULARY, (count, *self.shape))
        return {"input_ids": ids, "attention_mask": np.ones_like(ids)}

    def make(self, folder: Path, watch: Watch) -> Made:
        require(self.framework)
        watch.step(0, None, f"building {self.name}")
        (folder / "model").mkdir()
        build, save, count = _tools(self.framework)
        architecture = {
            "name": self.network.architecture or self.name,
            "arguments": self.network.arguments,
        }
        network = build(architecture)
        save(network, architecture, folder / "model")
        return Made(
            format="torch" if self.framework == "torch" else "keras",
            file="model",
            inputs=self.inputs(),
            outputs=(self.network.output,),
            parameters=count(network),
        )


def _tools(
    framework: str,
) -> tuple[Callable[[dict[str, Any]], Any], Callable[..., None], Callable[[Any], int]]:
    from inferbench_tasks.formats.architectures import construct

    if framework == "torch":
        import torch

        from inferbench_tasks.formats.torch import save

        torch.set_num_threads(1)
        torch.manual_seed(SEED)
        return (
            lambda described: construct("torch", described).eval(),
            save,
            lambda network: sum(p.numel() for p in network.parameters()),
        )
    import keras

    from inferbench_tasks.formats.keras import save as save_keras

    keras.utils.set_random_seed(SEED)
    return (
        lambda described: construct("tensorflow", described),
        save_keras,
        lambda network: int(sum(int(np.prod(w.shape)) for w in network.trainable_variables)),
    )
