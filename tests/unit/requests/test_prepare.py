"""Requests are seeded, distinct, and come with answers that mean something."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.contracts.arrays import accuracy_ratio
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.errors import InputError, StageError
from inferbench_tasks.modelrepo.zoo_digits import Digits
from inferbench_tasks.requests import digits, prepare
from inferbench_tasks.requests.files import Files
from inferbench_tasks.requests.sentences import sentences
from inferbench_tasks.submission.schema import RequestsSpec

MODEL = ModelArtifact(
    name="m",
    framework="onnx",
    format="onnx",
    path="",
    digest="",
    inputs=(TensorSpec(name="input", dtype="float32", shape=(64,)),),
    outputs=(TensorSpec(name="y", dtype="float32", shape=(10,)),),
)
SOURCE = Digits("digits")


def test_the_seed_decides() -> None:
    """The same seed gives the same samples, another seed others."""
    spec = RequestsSpec(samples=50)
    first, labels = prepare.sample(spec, SOURCE, MODEL, SOURCE.dataset(), 1)
    again, _ = prepare.sample(spec, SOURCE, MODEL, SOURCE.dataset(), 1)
    other, _ = prepare.sample(spec, SOURCE, MODEL, SOURCE.dataset(), 2)
    assert np.array_equal(first["input"], again["input"])
    assert not np.array_equal(first["input"], other["input"])
    assert labels is not None and len(labels) == 50


@pytest.mark.parametrize("kind", ["dataset", "random"])
def test_all_requests_are_distinct(kind: str) -> None:
    """A server that caches answers can't be helped by a repeated request within the set."""
    spec = RequestsSpec.model_validate({"kind": kind, "samples": 256})
    dataset = SOURCE.dataset() if kind == "dataset" else None
    arrays, _ = prepare.sample(spec, SOURCE, MODEL, dataset, 1)
    assert len(np.unique(arrays["input"], axis=0)) == 256


def test_equal_samples_of_a_user_are_left_out() -> None:
    """Only the first of equal files is asked."""
    array = np.repeat(np.eye(64, dtype=np.float32)[:3], 2, axis=0)
    dataset = Files({"input": array}, np.array([0, 0, 1, 1, 2, 2]))
    spec = RequestsSpec(kind="files", path="x.npz")
    arrays, labels = prepare.sample(spec, SOURCE, MODEL, dataset, 1)
    assert len(arrays["input"]) == 3
    assert labels is not None and sorted(labels) == [0, 1, 2]


def test_more_than_there_are_is_refused() -> None:
    """Samples are never repeated to reach a number."""
    with pytest.raises(InputError, match=r"requests\.samples: 451 are asked for, digits has 450"):
        prepare.sample(RequestsSpec(samples=451), SOURCE, MODEL, SOURCE.dataset(), 1)


def test_more_than_fits_is_refused() -> None:
    """The message says how many do fit."""
    large = MODEL.model_copy(update={"inputs": (TensorSpec(name="i", dtype="float32", shape=(1 << 20,)),)})
    with pytest.raises(InputError, match=r"2 GiB.*allowed for this model: 512"):
        prepare.sample(RequestsSpec(kind="random", samples=1000), SOURCE, large, None, 1)


def test_a_source_that_answers_nan_is_refused() -> None:
    """Nothing that is compared with NaN means anything."""
    with pytest.raises(StageError, match=r"NaN in output y for 1 of 4 samples"):
        prepare.answers(
            lambda given: {"y": np.where(given["x"] == 2, np.nan, given["x"])},
            {"x": np.arange(4, dtype=np.float32)[:, None]},
            Watch(),
        )


def test_nan_in_the_requests_is_not_the_models_fault() -> None:
    """The message names the input."""
    x = np.arange(4, dtype=np.float32)[:, None]
    x[2] = np.nan
    with pytest.raises(
        StageError, match=r"requests themselves have NaN in input x.*send samples without NaN"
    ):
        prepare.answers(lambda given: {"y": given["x"]}, {"x": x}, Watch())


def test_held_out_digits_were_not_trained_on() -> None:
    """No held-out image is among the training images."""
    split = digits.split()
    train = {image.tobytes() for image in split.train}
    assert len(split.test) == digits.HELD_OUT
    assert not any(image.tobytes() in train for image in split.test)


@pytest.mark.parametrize("shape", [(10,), (64,), (300,), (32, 64), (1, 1), (3, 8, 8), (3, 33, 33)])
def test_digits_fit_any_input(shape: tuple[int, ...]) -> None:
    """Resized images have the model's shape and stay within [0, 1]."""
    fitted = digits.fit(digits.split().test[:5], shape)
    assert fitted.shape == (5, *shape) and fitted.dtype == np.float32
    assert fitted.min() >= 0 and fitted.max() <= 1 + 1e-6


def test_nan_scores_are_wrong_answers() -> None:
    """argmax of NaN is a class id; it must not count as right."""
    scores = np.array([[np.nan, 0.0], [1.0, 0.0]])
    assert accuracy_ratio(scores, np.array([0, 0])) == 0.5


def test_there_are_enough_real_sentences() -> None:
    """Distinct and plenty."""
    assert len(sentences()) > 1000 and len(set(sentences())) == len(sentences())


def test_labels_that_are_no_class_of_the_model_are_refused() -> None:
    """The first of them is named with its sample; it could never be right."""
    model = ModelArtifact(
        name="m", framework="onnx", format="onnx", path="m", digest="d",
        inputs=(), outputs=(TensorSpec(name="scores", dtype="float32", shape=(3,)),),
    )  # fmt: skip
    assert prepare.usable_labels(np.array([0, 2]), model, "requests") is not None
    with pytest.raises(InputError, match="1 of 2 labels .* has 3 from 0 on; the first is 3 of sample 1"):
        prepare.usable_labels(np.array([0, 3]), model, "requests")
    assert (
        prepare.usable_labels(np.array([7]), model.model_copy(update={"accuracy_reason": "x"}), "r") is None
    )
