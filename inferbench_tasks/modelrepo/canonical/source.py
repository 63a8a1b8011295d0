"""A canonical model as a source: its family, its sizes, its short training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.contracts.models import RANDOM_WEIGHTS, Made, ModelSource, Signature, Watch, Weights
from inferbench_tasks.extras import require, version_for_key
from inferbench_tasks.modelrepo.canonical import training
from inferbench_tasks.modelrepo.canonical.base import (
    CLASSES,
    INPUT,
    OUTPUT,
    CanonicalSpec,
    family_module,
    size_of,
)
from inferbench_tasks.requests.digits import Digits


class CanonicalSource(ModelSource):
    """Classifies digits that were resized to the model's input."""

    task = "image-classification"
    licence = "data CC BY 4.0; weights trained here"
    weights: Weights | None = "trained_here"
    takes_pictures = True
    recipe = 3

    def __init__(self, spec: CanonicalSpec) -> None:
        self.spec = spec
        self.framework = spec.framework
        sizes = spec.model_dump(exclude={"kind", "family", "framework", "training"})
        self.name = "-".join(
            [spec.family, *(f"{_short(k)}{v}" for k, v in sizes.items()), f"e{spec.training.epochs}"]
        )
        self.size = size_of(spec)
        if not spec.training.epochs:
            self.weights, self.accuracy_reason = "random", RANDOM_WEIGHTS

    def settings(self) -> dict[str, Any]:
        return {
            "canonical": self.spec.model_dump(mode="json"),
            "seed": training.SEED,
            "flop": training.MAX_FLOP,
            "version": version_for_key("torch" if self.framework == "torch" else "tensorflow"),
            "recipe": self.recipe,
        }

    def signature(self) -> Signature:
        shape = family_module(self.spec).input_shape(self.spec)
        return (
            (TensorSpec(name=INPUT, dtype="float32", shape=shape),),
            (TensorSpec(name=OUTPUT, dtype="float32", shape=(CLASSES,)),),
        )

    def dataset(self) -> Digits:
        return Digits(INPUT, family_module(self.spec).input_shape(self.spec))

    def make(self, folder: Path, watch: Watch) -> Made:
        """Train, and write the weights beside the description that the network is built again from."""
        require(self.framework)
        file = "model"
        (folder / file).mkdir()
        architecture = {
            "name": f"canonical-{self.spec.family}",
            "arguments": self.spec.model_dump(mode="json"),
        }
        if self.framework == "torch":
            from inferbench_tasks.formats.torch import save as save_torch

            module = training.train_torch(self.spec, watch)
            parameters = sum(p.numel() for p in module.parameters())
            save_torch(module, architecture, folder / file)
        else:
            from inferbench_tasks.formats.keras import save as save_keras

            module = training.train_keras(self.spec, watch)
            parameters = sum(int(w.shape.num_elements() or 0) for w in module.trainable_variables)
            save_keras(module, architecture, folder / file)
        inputs, outputs = self.signature()
        return Made(
            format="torch" if self.framework == "torch" else "keras",
            file=file,
            inputs=inputs,
            outputs=outputs,
            parameters=parameters,
        )


def _short(field: str) -> str:
    return "".join(part[0] for part in field.split("_"))
