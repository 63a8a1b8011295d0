"""Keras weights (HDF5) with the name of the network that takes them: a source only.

Keras' own archive (``.keras``) may carry code; weights alone can't.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require
from inferbench_tasks.formats import architectures
from inferbench_tasks.formats.base import Format, Predict

WEIGHTS = "model.weights.h5"


class KerasFormat(Format):
    """Keras models, run eagerly by TensorFlow."""

    kind = "keras"
    title = "Keras (TensorFlow)"
    extra = "tensorflow"
    packages = ("tensorflow", "keras")
    file = "model"
    servable = False

    def open(self, model: ModelArtifact) -> Predict:
        network = load(Path(model.path))

        def predict(arrays: Arrays) -> Arrays:
            inputs = [arrays[spec.name] for spec in model.inputs]
            answer = network(inputs[0] if len(inputs) == 1 else inputs, training=False)
            parts = answer if isinstance(answer, (list, tuple)) else [answer]
            return {spec.name: part.numpy() for spec, part in zip(model.outputs, parts, strict=True)}

        return predict


def save(network: Any, architecture: dict[str, Any], folder: Path) -> None:
    """Write the weights and what they belong to."""
    network.save_weights(folder / WEIGHTS)
    architectures.write(folder, architecture)


def load(folder: Path) -> Any:
    """The network with its weights. InputError where the file is damaged."""
    require("tensorflow")
    network = architectures.build(folder, "tensorflow")
    try:
        network.load_weights(folder / WEIGHTS)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"The weights {folder / WEIGHTS} can't be read: {error}") from error
    return network
