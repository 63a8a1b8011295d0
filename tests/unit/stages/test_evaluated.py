"""The samples that a model is evaluated on, written for the stages that ask and judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.zoo_digits import Digits
from inferbench_tasks.requests.digits import Digits as OwnDigits
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


def made(folder: Path, seed: int = 1, facts: dict[str, Any] | None = None, **evaluate: Any) -> Path:
    """The folder that was written (its facts go into ``facts``), of an ``.npz`` in which a sample's largest number is
    its target and its place.
    """
    places = np.arange(SAMPLES, dtype=np.float32)
    rows = np.random.default_rng(1).random((SAMPLES, 64)).astype(np.float32)
    rows[:, 5] = places + 1
    np.savez(folder / "mine.npz", input=rows, target_numbers=places + 1)
    job = JobSpec.model_validate(
        {
            "name": "mine",
            "model": {"kind": "zoo", "name": "digits"},
            "serve": {"backend": "onnxruntime"},
            "load": {"arrivals": {"kind": "poisson", "rate_rps": 1}, "duration_s": 1, "seed": seed},
            "evaluate": {"dataset": "arrays", "path": "mine.npz", **evaluate},
        }
    )
    out = folder / "out"
    out.mkdir(exist_ok=True)
    inp = StageInput(run_id="r", job_id="j", job=job)
    known = evaluated.make(out, inp, Digits("digits"), largest(folder), Watch(), folder)
    if facts is not None:
        facts.update(known)
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


def digests(folder: Path, seed: int, **evaluate: Any) -> tuple[str, str, list[int]]:
    """Of the data, of the samples asked, and their ids."""
    facts: dict[str, Any] = {}
    out = made(folder, seed, facts, **evaluate)
    data = json.loads((out / evaluated.DATASET_FILE).read_text())["digest"]
    return data, facts["samples_digest"], np.load(out / evaluated.IDS_FILE).tolist()


def test_the_digest_of_the_samples_tells_which_of_them_are_asked(tmp_path: Path) -> None:
    """Equal for equal ids and content alone: another seed draws others, and all are all whatever the seed."""
    data, first, ids = digests(tmp_path, 1, samples=7)
    assert digests(tmp_path, 1, samples=7) == (data, first, ids)
    _, second, others = digests(tmp_path, 2, samples=7)
    assert others != ids and second not in (first, data)
    for seed, wanted in ((1, {}), (2, {}), (2, {"samples": SAMPLES})):
        assert digests(tmp_path, seed, **wanted)[:2] == (data, data)


class Relabelled(OwnDigits):
    """The digits with one label changed."""

    def labels(self) -> NDArray[np.int64]:
        changed: NDArray[np.int64] = super().labels().copy()
        changed[0] += 1
        return changed


def test_a_models_own_data_is_told_by_its_content_in_whatever_form_a_model_takes_it() -> None:
    """The digits as 64 numbers or as 28 x 28 pixels are the same samples; with another label they are not."""
    flat, pixels = OwnDigits("input", (64,)), OwnDigits("input", (1, 28, 28))
    assert evaluated.own_digest(flat) == evaluated.own_digest(pixels)
    assert evaluated.own_digest(Relabelled("input", (64,))) != evaluated.own_digest(flat)
