"""The samples that a model is evaluated on, written for the stages that ask and judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.zoo_digits import Digits
from inferbench_tasks.stages import evaluated
from inferbench_tasks.stages.base import StageInput
from inferbench_tasks.submission.schema import JobSpec

SAMPLES = 40


def largest(folder: Path) -> ModelArtifact:
    """A model whose answer is the largest number of its input."""
    graph = helper.make_graph(
        [helper.make_node("ReduceMax", ["input", "axes"], ["y"], keepdims=1)],
        "largest",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1])],
        [helper.make_tensor("axes", TensorProto.INT64, [1], [1])],
    )
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return ModelArtifact(
        name="largest", framework="onnx", format="onnx", path=str(path), digest="1",
        inputs=(TensorSpec(name="input", dtype="float32", shape=(64,)),),
        outputs=(TensorSpec(name="y", dtype="float32", shape=(1,)),),
    )  # fmt: skip


def made(folder: Path, **evaluate: Any) -> Path:
    """The folder that was written, of an ``.npz`` in which a sample's largest number is its target and its place."""
    places = np.arange(SAMPLES, dtype=np.float32)
    rows = np.random.default_rng(1).random((SAMPLES, 64)).astype(np.float32)
    rows[:, 5] = places + 1
    np.savez(folder / "mine.npz", input=rows, target_numbers=places + 1)
    job = JobSpec.model_validate(
        {
            "name": "mine",
            "model": {"kind": "zoo", "name": "digits"},
            "serve": {"backend": "onnxruntime"},
            "load": {"arrivals": {"kind": "poisson", "rate_rps": 1}, "duration_s": 1},
            "evaluate": {"dataset": "arrays", "path": "mine.npz", **evaluate},
        }
    )
    out = folder / "out"
    out.mkdir()
    inp = StageInput(run_id="r", job_id="j", job=job)
    evaluated.make(out, inp, Digits("digits"), largest(folder), Watch(), folder)
    return out


def test_targets_are_those_of_the_samples_that_are_asked(tmp_path: Path) -> None:
    """Seven of forty by chance: each has the target of its own place, not of its number among the seven."""
    out = made(tmp_path, samples=7, measures=["target_spearman"])
    ids = np.load(out / evaluated.IDS_FILE)
    with np.load(out / evaluated.TARGETS_FILE) as targets:
        assert targets["numbers"].tolist() == (ids + 1).tolist()
    assert len(ids) == 7 and ids.max() > 6


def test_a_measure_that_does_not_fit_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    """With its reason, and those that fit."""
    with pytest.raises(
        InputError, match=r"mean_iou can't be had on mine .*target_masks.*fit: .*target_spearman"
    ):
        made(tmp_path, measures=["mean_iou"])
