"""Sizes of the canonical models are known before anything is built."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.canonical import training
from inferbench_tasks.modelrepo.canonical.base import family_module, size_of
from inferbench_tasks.modelrepo.canonical.source import CanonicalSource
from inferbench_tasks.submission.model import CanonicalModel

FAMILIES: list[dict[str, Any]] = [
    {"family": "mlp", "layers": 3, "input_size": 100, "neurons": 32},
    {"family": "cnn", "layers": 2, "image_size": 15, "channels": 8},
    {"family": "rnn", "layers": 2, "sequence_length": 8, "input_size": 12, "hidden_size": 16},
    {"family": "transformer", "layers": 2, "sequence_length": 8, "hidden_size": 16, "heads": 4},
]


def spec(**values: Any) -> Any:
    return TypeAdapter(CanonicalModel).validate_python({"kind": "canonical", **values})


@pytest.mark.parametrize("values", FAMILIES, ids=lambda v: v["family"])
def test_parameters_are_what_pytorch_counts(values: dict[str, Any]) -> None:
    """The closed form equals the built network."""
    pytest.importorskip("torch")
    described = spec(**values)
    module = family_module(described).torch_module(described)
    assert sum(p.numel() for p in module.parameters()) == size_of(described).parameters


@pytest.mark.parametrize("values", FAMILIES, ids=lambda v: v["family"])
def test_a_name_tells_its_sizes(values: dict[str, Any]) -> None:
    """Models of a grid have distinct names."""
    small, large = CanonicalSource(spec(**values)), CanonicalSource(spec(**{**values, "layers": 9}))
    assert small.name != large.name and small.name.startswith(values["family"])


def test_too_large_a_model_is_refused_at_once() -> None:
    """With the figure and what to change; nothing is allocated."""
    with pytest.raises(InputError, match="parameters, allowed are 500,000,000"):
        CanonicalSource(spec(family="mlp", neurons=65_536, layers=10))
    with pytest.raises(InputError, match="bytes of activations"):
        CanonicalSource(spec(family="cnn", image_size=1024, channels=4096, layers=1))


def test_training_is_bounded_by_work() -> None:
    """A large model trains for fewer steps, the same number on every machine."""
    small, large = spec(family="mlp"), spec(family="cnn", image_size=224, channels=64)
    steps = training.schedule(large).steps
    assert 1 <= steps < training.schedule(small).steps
    assert 6 * size_of(large).macs * steps * training.schedule(large).batch_size <= training.MAX_FLOP


def test_training_really_teaches() -> None:
    """Three epochs of a small network are far above chance, and the same twice."""
    torch = pytest.importorskip("torch")
    from inferbench_tasks.contracts.models import Watch
    from inferbench_tasks.requests import digits

    described = spec(family="mlp", training={"epochs": 3})
    first, again = (training.train_torch(described, Watch()) for _ in range(2))
    images = torch.from_numpy(digits.fit(digits.split().test, (64,)))
    with torch.inference_mode():
        right = first(images).argmax(1).numpy() == digits.split().test_labels
    assert right.mean() > 0.8
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
