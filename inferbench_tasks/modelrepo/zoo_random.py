"""Well-known networks with seeded random weights: for performance, where only the arithmetic counts.

Their answers mean nothing, so they have no accuracy; their requests are seeded noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.contracts.models import Made, ModelSource, Watch
from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require

SEED = 7
VOCABULARY = 30_522


@dataclass(frozen=True)
class Network:
    """One network's signature. ``tensorflow_shape`` None: not to be had in TensorFlow."""

    task: str
    shape: tuple[int, ...]
    output: TensorSpec
    tensorflow_shape: tuple[int, ...] | None = None
    arguments: dict[str, Any] = field(default_factory=dict)


def _scores(count: int) -> TensorSpec:
    return TensorSpec(name="scores", dtype="float32", shape=(count,))


BERT_BASE = {
    "vocabulary": VOCABULARY, "hidden": 768, "layers": 12, "heads": 12, "intermediate": 3072,
    "positions": 512, "pool": "first",
}  # fmt: skip
NETWORKS = {
    "resnet50": Network("image-classification", (3, 224, 224), _scores(1000), (224, 224, 3)),
    "mobilenet_v2": Network("image-classification", (3, 224, 224), _scores(1000), (224, 224, 3)),
    "bert-base": Network(
        "text-embedding", (128,), TensorSpec(name="pooled", dtype="float32", shape=(768,)),
        arguments=BERT_BASE,
    ),
    "lstm": Network(
        "sequence-modelling", (64, 256), TensorSpec(name="state", dtype="float32", shape=(512,)), (64, 256)
    ),
    "cyclegan": Network(
        "image-generation", (3, 256, 256), TensorSpec(name="image", dtype="float32", shape=(3, 256, 256))
    ),
    "detector": Network(
        "object-detection", (3, 320, 320), TensorSpec(name="detections", dtype="float32", shape=(2100, 24))
    ),
}  # fmt: skip


class RandomWeights(ModelSource):
    """A network of ``NETWORKS`` with random weights."""

    licence = "weights are random"

    def __init__(self, name: str, framework: str | None = None) -> None:
        self.name = name
        self.network = NETWORKS[name]
        self.framework = framework or "torch"
        self.task = self.network.task
        if self.framework == "tensorflow" and self.network.tensorflow_shape is None:
            raise InputError(f"the zoo model {name!r} is only to be had in torch", field="model.framework")

    def settings(self) -> dict[str, Any]:
        package = "torch" if self.framework == "torch" else "tensorflow"
        try:
            installed = version(package)
        except PackageNotFoundError:
            installed = "missing"
        return {
            "zoo": self.name,
            "framework": self.framework,
            "arguments": self.network.arguments,
            "seed": SEED,
            "version": installed,
            "recipe": 1,
        }

    def inputs(self) -> tuple[TensorSpec, ...]:
        """Text models take ids and a mask, the others one float tensor."""
        if self.task == "text-embedding":
            return tuple(
                TensorSpec(name=name, dtype="int64", shape=self.network.shape)
                for name in ("input_ids", "attention_mask")
            )
        tensorflow = self.framework == "tensorflow" and self.network.tensorflow_shape
        shape = self.network.tensorflow_shape if tensorflow else self.network.shape
        return (TensorSpec(name="input", dtype="float32", shape=shape or self.network.shape),)

    def noise(self, inputs: tuple[TensorSpec, ...], count: int, rng: np.random.Generator) -> Arrays:
        """Token ids over the whole vocabulary, nothing masked."""
        if self.task != "text-embedding":
            return super().noise(inputs, count, rng)
        ids = rng.integers(0, VOCABULARY, (count, *self.network.shape))
        return {"input_ids": ids, "attention_mask": np.ones_like(ids)}

    def make(self, folder: Path, watch: Watch) -> Made:
        require(self.framework)
        watch.step(0, None, f"building {self.name}")
        (folder / "model").mkdir()
        build, save, count = _tools(self.framework)
        architecture = {"name": self.name, "arguments": self.network.arguments}
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
