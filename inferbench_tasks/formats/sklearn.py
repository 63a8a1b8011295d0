"""Scikit-learn's perceptron as an ``.npz`` of weights: a source only, and safe to read (no pickle)."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.base import Format, Predict


class SklearnFormat(Format):
    """``w0 b0 w1 b1 ...``: ReLU between the layers, softmax at the end."""

    kind = "sklearn"
    title = "scikit-learn"
    packages = ("scikit-learn",)
    file = "model.npz"
    servable = False

    def open(self, model: ModelArtifact) -> Predict:
        estimator = classifier(Path(model.path))
        (features,), (output,) = model.inputs, model.outputs

        def predict(arrays: Arrays) -> Arrays:
            return {output.name: estimator.predict_proba(arrays[features.name]).astype(np.float32)}

        return predict


def classifier(path: Path) -> Any:
    """A fitted ``MLPClassifier`` with the weights of the file."""
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import LabelBinarizer

    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            count = len(archive.files) // 2
            weights = [archive[f"w{i}"] for i in range(count)]
            biases = [archive[f"b{i}"] for i in range(count)]
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise InputError(f"The model {path} can't be read: {error}") from error
    estimator = MLPClassifier(tuple(len(b) for b in biases[:-1]))
    classes = np.arange(len(biases[-1]))
    estimator.coefs_, estimator.intercepts_ = weights, biases
    estimator.n_layers_ = count + 1
    estimator.n_outputs_ = len(classes)
    estimator.out_activation_ = "softmax"
    estimator.n_features_in_ = len(weights[0])
    estimator.classes_ = classes
    estimator._label_binarizer = LabelBinarizer().fit(classes)
    return estimator
