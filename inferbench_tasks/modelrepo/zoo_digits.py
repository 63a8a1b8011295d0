"""``digits``: a small image classifier, trained in seconds by scikit-learn on its own digits data set."""

from __future__ import annotations

import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.blas import one_thread
from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.contracts.models import Made, Signature, Watch
from inferbench_tasks.modelrepo.one_framework import OneFramework
from inferbench_tasks.requests import digits

HIDDEN = (256, 128)
EPOCHS = 20
SEED = 7


class Digits(OneFramework):
    """A multi-layer perceptron 64-256-128-10; its held-out accuracy is measured, not quoted."""

    framework = "sklearn"
    only = "is trained by scikit-learn; leave framework out"
    task = "image-classification"
    licence = "data CC BY 4.0; weights trained here"
    weights = "trained_here"

    def settings(self) -> dict[str, Any]:
        """The recipe and the library that follows it."""
        return {
            "zoo": self.name,
            "hidden": HIDDEN,
            "epochs": EPOCHS,
            "seed": SEED,
            "scikit-learn": version("scikit-learn"),
            "recipe": self.recipe,
        }

    def signature(self) -> Signature:
        return (
            (TensorSpec(name="input", dtype="float32", shape=(64,)),),
            (TensorSpec(name="probabilities", dtype="float32", shape=(10,)),),
        )

    def dataset(self) -> digits.Digits:
        return digits.Digits("input", (64,))

    def make(self, folder: Path, watch: Watch) -> Made:
        """Train; the weights go into an ``.npz``, since a pickled estimator could not be read safely."""
        from sklearn.neural_network import MLPClassifier

        split = digits.split()
        model = MLPClassifier(
            HIDDEN, random_state=SEED, max_iter=EPOCHS, batch_size=32, learning_rate_init=1e-3
        )
        with one_thread(), warnings.catch_warnings():
            # Twenty epochs are the recipe; that the loss could still fall is no news.
            warnings.filterwarnings("ignore", "Stochastic Optimizer", category=UserWarning)
            watch.step(0, None, "training digits")
            model.fit(digits.fit(split.train, (64,)), split.train_labels)
        arrays = {f"w{i}": w.astype(np.float32) for i, w in enumerate(model.coefs_)}
        arrays |= {f"b{i}": b.astype(np.float32) for i, b in enumerate(model.intercepts_)}
        np.savez(folder / "model.npz", allow_pickle=False, **arrays)
        inputs, outputs = self.signature()
        return Made(
            format="sklearn",
            file="model.npz",
            inputs=inputs,
            outputs=outputs,
            parameters=sum(a.size for a in arrays.values()),
        )
