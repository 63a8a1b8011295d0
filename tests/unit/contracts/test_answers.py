"""What answers are decides which figure may be made of them."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.contracts.answers import meaning_of, meaning_of_specs
from inferbench_tasks.contracts.handles import TensorSpec


@pytest.mark.parametrize(
    ("task", "shape", "labelled", "meaning"),
    [
        ("image-classification", (10,), True, "classes"),
        ("image-classification", (1, 1, 1000), False, "classes"),
        ("image-classification", (1,), True, "values"),
        ("token-classification", (16, 9), True, "values"),
        ("text-embedding", (384,), False, "vectors"),
        ("object-detection", (100, 6), False, "values"),
        (None, (10,), True, "classes"),
        (None, (10,), False, "values"),
    ],
)
def test_meanings(task: str | None, shape: tuple[int, ...], labelled: bool, meaning: str) -> None:
    """One score a sample names no class, a score a word is none of the sample, and an embedding is a vector."""
    assert meaning_of(task, {"a": np.zeros((3, *shape), np.float32)}, labelled=labelled) == meaning
    if task is not None:
        assert meaning_of_specs(task, [TensorSpec(name="a", dtype="float32", shape=shape)]) == meaning


def test_a_number_names_a_class() -> None:
    """A classifier that answers one whole number names its class, whatever stands beside."""
    specs = [
        TensorSpec(name="label", dtype="int64", shape=()),
        TensorSpec(name="p", dtype="float32", shape=(2, 5)),
    ]
    assert meaning_of_specs("classification", specs) == "classes"
