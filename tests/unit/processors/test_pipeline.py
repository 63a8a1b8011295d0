"""Processors in a row, and the storage of raw samples."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.contracts.arrays import Array
from inferbench_tasks.contracts.handles import ProcessorStep
from inferbench_tasks.errors import InputError
from inferbench_tasks.processors import base
from inferbench_tasks.processors.pipeline import Pipeline
from inferbench_tasks.registry import Registry
from inferbench_tasks.requests.ragged import objects, packed, unpacked


class Lengths:
    """A third party's processor: each sample's length."""

    kind = "lengths"

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    def __call__(self, samples: list[bytes]) -> Array:
        return np.array([[len(sample) * self.scale] for sample in samples], dtype=np.float32)


@pytest.fixture
def third_party(monkeypatch: pytest.MonkeyPatch) -> None:
    """``lengths`` as a distribution would bring it: by the entry-point group of processors."""
    entry = importlib.metadata.EntryPoint("lengths", f"{__name__}:Lengths", "inferbench.processors")
    registry = base.PROCESSORS
    fresh: Registry[object] = Registry(registry.what, registry.group, registry._built_in)
    fresh.__dict__["_plugins"] = {"lengths": entry}
    for module in ("base", "pipeline"):
        monkeypatch.setattr(f"inferbench_tasks.processors.{module}.PROCESSORS", fresh)


@pytest.mark.usefixtures("third_party")
def test_third_parties_extend_the_pipeline_and_each_step_is_timed() -> None:
    """A processor of an entry point runs beside ours, with its settings; names and scores come as tensors."""
    before = [ProcessorStep(kind="lengths", settings={"scale": 2.0})]
    after = [ProcessorStep(kind="labels", settings={"names": ["a", "b"], "top": 1})]
    pipeline = Pipeline(before, after, ["x"])
    arrays, spent = pipeline.before(objects([b"abc", b"z"]))
    assert arrays["x"].tolist() == [[6.0], [2.0]] and set(spent) == {"lengths"} and spent["lengths"] > 0
    answer, spent = pipeline.after({"scores": np.array([[0.1, 0.9], [0.8, 0.2]], np.float32)})
    assert answer["labels"].tolist() == [["b"], ["a"]] and set(spent) == {"labels"}
    np.testing.assert_allclose(answer["scores"], [[0.9], [0.8]])


@pytest.mark.usefixtures("third_party")
def test_what_does_not_fit_is_named() -> None:
    """A wrong setting, and inputs that the model does not have."""
    with pytest.raises(InputError, match=r"settings of lengths are wrong: .*size"):
        Pipeline([ProcessorStep(kind="lengths", settings={"size": 1})], [], ["x"])
    pipeline = Pipeline([ProcessorStep(kind="lengths")], [], ["ids", "mask"])
    with pytest.raises(InputError, match="the model takes ids, mask"):
        pipeline.before(objects([b"abc"]))


def test_boxes_go_over_the_wire_with_their_number() -> None:
    """Padded to the most that are allowed; ``count`` says how many are real."""
    raw = np.array([[[0, 0, 2, 2, 0.9], [0, 0, 2, 2, 0.8], [5, 5, 6, 6, 0.7]]], dtype=np.float32)
    step = ProcessorStep(kind="nms", settings={"max_detections": 4})
    answer, _ = Pipeline([], [step], ["x"]).after({"raw": raw})
    assert answer["count"].tolist() == [2] and answer["boxes"].shape == (1, 4, 4)
    np.testing.assert_allclose(answer["scores"][0], [0.9, 0.7, 0, 0])
    assert answer["classes"][0].tolist() == [0, 0, -1, -1]


def test_raw_samples_keep_every_byte(tmp_path: Path) -> None:
    """Zero bytes at an end, empty samples, equal lengths; tensors beside them stay as they are."""
    samples = [b"\0\0", b"", b"ab\0", b"xyz"]
    numbers = np.arange(4.0)
    np.savez(tmp_path / "x.npz", allow_pickle=False, **packed({"raw": objects(samples), "n": numbers}))
    with np.load(tmp_path / "x.npz", allow_pickle=False) as archive:
        found = unpacked(archive)
    assert found["raw"].tolist() == samples
    np.testing.assert_array_equal(found["n"], numbers)
    with pytest.raises(ValueError, match="end at 7 of 8 bytes"):
        unpacked({"raw": np.zeros(8, np.uint8), "raw:ends": np.array([7])})
