"""The whole way on a real, small model: cut, timed, constructed, kept."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from inferbench_tasks.bricks.measure.method import Method
from inferbench_tasks.bricks.measure.session import cores_for, setting
from inferbench_tasks.bricks.predict import Prediction, predict_model
from inferbench_tasks.bricks.results import Results
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.errors import StageError
from tests.unit.bricks.graphs import image, residual, save

METHOD = Method(runs=15, rounds=3, budget_s=0.2)


def predicted(model: Path, feeds: Arrays, folder: Path, results: Results) -> Prediction:
    folder.mkdir()
    return predict_model(
        model, feeds, folder, results, METHOD, granularity="1", whole=True, again=False, constructor="sequential",
        progress=lambda what, done, of: None,
    )  # fmt: skip


def test_a_model_is_predicted_and_measured_once(tmp_path: Path) -> None:
    """Each unique brick has times in both states, and the sum is theirs; the second time nothing is measured that the
    machine let us keep."""
    results = Results(tmp_path / "data", setting(cores_for(1), 1))
    model = residual(tmp_path / "model.onnx")
    first = predicted(model, image(), tmp_path / "one", results)
    assert (first.measured_now, first.coverage_ratio) == (first.unique, 1.0) and first.unique < first.bricks
    assert first.measured is not None and first.measured.ns > 0
    total = math.fsum(row["ms"] for row in first.by_operators)
    assert first.constructed["warm"].ns / 1e6 == pytest.approx(total)
    assert first.constructed["streamed"].ns > 0 and first.calibrated is None
    assert first.row()["predicted_over_measured"] == first.constructed["warm"].ns / first.measured.ns
    if first.disturbed:  # other work on this machine: then nothing may have been kept
        assert not list((tmp_path / "data").rglob("*.json"))
        return
    again = predicted(model, image(), tmp_path / "two", results)
    assert again.measured_now == 0
    assert again.constructed == first.constructed and again.measured == first.measured


def test_a_brick_that_answers_with_nan_fails_by_its_name(tmp_path: Path) -> None:
    """The square root of a negative number: no figure, the layer and why."""
    nodes = [helper.make_node("Sqrt", ["x"], ["y"], name="the-root")]
    path = save(tmp_path / "nan.onnx", nodes, {}, {"x": (TensorProto.FLOAT, (1, 4))})
    results = Results(tmp_path / "data", setting(cores_for(1), 1))
    with pytest.raises(StageError, match=r"the brick of .*can't be timed: it answers with NaN"):
        predicted(path, {"x": np.full((1, 4), -1.0, np.float32)}, tmp_path / "one", results)
