"""A made-free batch is proved beyond the file's own, and among samples of every loudness; no sound model is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from inferbench_tasks.contracts.arrays import Array, Arrays
from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.formats.base import Predict
from inferbench_tasks.modelrepo import own_batch, proving

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
WEIGHTS = np.random.default_rng(5).normal(size=(3, 3)).astype(np.float32)


def proof(function: Callable[[Array], Array], batch: int = 4) -> str | None:
    """Of a model that is the same changed and as it came."""
    predict: Predict = lambda arrays: {"y": np.asarray(function(arrays["x"]))}  # noqa: E731
    return own_batch.proof(predict, predict, (TensorSpec(name="x", dtype="float32", shape=(3,)),), batch)


def needs_small(x: Array) -> Array:
    if np.abs(x).max() > 100:
        raise ValueError("no such index")
    return x


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x @ WEIGHTS + 1,
        np.exp,
        lambda x: x**20,
        lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True),
        lambda x: (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True),
        lambda x: np.sin(x @ WEIGHTS),
        lambda x: np.where(x > 0, x, -np.inf),
        lambda x: x.argmax(1),
        needs_small,
    ],
)
def test_sound_models_are_taken(function: Callable[[Array], Array]) -> None:
    """Those that overflow, answer NaN or minus infinity, turn little differences large or refuse large values, too."""
    assert proof(function) is None


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.maximum(x, x.max() - 8),
        lambda x: x + np.maximum(x.max(0, keepdims=True) - 6, 0),
        lambda x: x + np.float32(np.abs(x).max() > 1e5),
        lambda x: (x.max() > 100) + x.argmax(1),
    ],
)
def test_samples_that_influence_each_other_where_one_is_loud(function: Callable[[Array], Array]) -> None:
    """They answer random samples of one loudness as each alone."""
    assert "among louder and quieter ones output y differs" in str(proof(function))


def test_a_cut_at_the_own_batch_is_found() -> None:
    """It is right at every batch up to the file's."""
    assert "at batch 17 output y has shape [8, 3]" in str(proof(lambda x: x[:8], batch=8))


def test_what_the_note_says_is_what_was_asked() -> None:
    """Every batch that it names was asked for, and a file of one sample needs none beyond 7."""
    asked = []

    def predict(arrays: Arrays) -> Arrays:
        asked.append(len(arrays["x"]))
        return arrays

    assert own_batch.proof(predict, predict, (TensorSpec(name="x", dtype="float32", shape=(3,)),), 8) is None
    assert {1, 2, 7, 17} <= set(asked)
    assert proving.freed_note(8) == "the batch of 8 was made free, and proved at batch 1, 2, 7, 17"
    assert proving.batches(1) == proving.batches(3) == (1, 2, 7)


def test_a_large_batch_of_large_samples_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answers count, too; what is not proved is not made free, and the reason says so."""
    monkeypatch.setattr(proving, "MOST_VALUES", 1000)
    assert proof(lambda x: x, batch=8) is None
    reason = proof(lambda x: np.repeat(x, 30, axis=1), batch=8)
    assert reason == "a proof at batch 17, beyond it, would take 1,581 values; 1,000 are tried"


def test_half_precision_ends_before_a_million() -> None:
    """Its loudest samples are its largest numbers, and integers are left as they are."""
    inputs = (
        TensorSpec(name="x", dtype="float16", shape=(3,)),
        TensorSpec(name="i", dtype="int64", shape=(1,)),
    )
    seen: list[Arrays] = []

    def predict(arrays: Arrays) -> Arrays:
        seen.append(arrays)
        return {"y": arrays["x"] * np.float16(0.5) + arrays["i"].astype(np.float16)}

    assert own_batch.proof(predict, predict, inputs, 1) is None
    assert all(np.isfinite(arrays["x"]).all() and arrays["i"].max() < 2 for arrays in seen)
    assert max(float(np.abs(arrays["x"]).max()) for arrays in seen) == float(np.finfo(np.float16).max)
