"""Boosted trees as ONNX answer as scikit-learn's, and are right on what they never saw."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.formats.onnx import open_session
from inferbench_tasks.modelrepo.zoo_trees import BreastCancerTrees
from inferbench_tasks.requests.breast_cancer import HELD_OUT, split


def test_the_graph_is_right_on_held_out_samples(tmp_path: Path) -> None:
    """More than 93% of 143, with probabilities that sum to one; 63% are of one class."""
    source = BreastCancerTrees("breast-cancer-trees")
    made = source.make(tmp_path, Watch())
    session = open_session(tmp_path / made.file)
    dataset = source.dataset()
    (scores,) = session.run(["probabilities"], dataset.inputs(np.arange(HELD_OUT)))
    np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-5)
    assert (scores.argmax(axis=1) == dataset.labels()).mean() > 0.93
    assert len(split().train) + HELD_OUT == 569
