"""``breast-cancer-trees``: gradient-boosted trees, trained in a second by scikit-learn, served as ONNX."""

from __future__ import annotations

import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.contracts.models import Made, Signature, Watch
from inferbench_tasks.modelrepo.one_framework import OneFramework
from inferbench_tasks.requests.breast_cancer import FEATURES, BreastCancer, split

TREES, LEAVES = 100, 15
SEED = 7
OUTPUT = "probabilities"


class BreastCancerTrees(OneFramework):
    """A hundred trees of histograms; the held-out accuracy of the ONNX graph is measured, not quoted."""

    framework = "sklearn"
    only = "is trained by scikit-learn; leave framework out"
    task = "tabular-classification"
    licence = "data CC BY 4.0; trees trained here"
    weights = "trained_here"

    def settings(self) -> dict[str, Any]:
        """The recipe and the libraries that follow it."""
        return {
            "zoo": self.name,
            "trees": TREES,
            "leaves": LEAVES,
            "seed": SEED,
            "scikit-learn": version("scikit-learn"),
            "skl2onnx": version("skl2onnx"),
            "recipe": self.recipe,
        }

    def signature(self) -> Signature:
        return (
            (TensorSpec(name="input", dtype="float32", shape=(FEATURES,)),),
            (TensorSpec(name=OUTPUT, dtype="float32", shape=(2,)),),
        )

    def dataset(self) -> BreastCancer:
        return BreastCancer("input")

    def make(self, folder: Path, watch: Watch) -> Made:
        """Train and write ONNX at once: a pickled estimator could not be read safely."""
        from skl2onnx import to_onnx
        from skl2onnx.common.data_types import FloatTensorType
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits

        from inferbench_tasks.formats.onnx import OPSET, keep_outputs

        data = split()
        trees = HistGradientBoostingClassifier(max_iter=TREES, max_leaf_nodes=LEAVES, random_state=SEED)
        with threadpool_limits(1):  # OpenMP's threads spin while they wait for one another
            watch.step(0, None, "training breast-cancer-trees")
            trees.fit(data.train, data.train_labels)
        with warnings.catch_warnings():
            # skl2onnx hands numpy's booleans to protobuf, which takes them and warns.
            warnings.simplefilter("ignore", DeprecationWarning)
            model = to_onnx(
                trees,
                initial_types=[("input", FloatTensorType([None, FEATURES]))],
                options={"zipmap": False},
                target_opset={"": OPSET, "ai.onnx.ml": 3},
            )
        keep_outputs(model.graph, (OUTPUT,))
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        inputs, outputs = self.signature()
        return Made("onnx", "model.onnx", inputs, outputs)
