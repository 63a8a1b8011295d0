"""What can be trained."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.training import networks
from inferbench_tasks.training.datasets import arrays
from inferbench_tasks.training.findings import findings
from inferbench_tasks.training.job import TrainingJob
from tests.training_jobs import NETWORKS, small_job


@pytest.mark.parametrize("name", NETWORKS)
def test_each_network_learns_what_it_is_shown(name: str) -> None:
    """A few steps on the same eight real digits: the loss falls, and every weight has a gradient."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    job = small_job(name)
    assert findings(job) == []
    samples, labels = (torch.from_numpy(of.copy()) for of in arrays(job, Path()))
    assert tuple(samples.shape[1:]) == networks.takes(job)
    torch.manual_seed(0)
    network = networks.build(job).train()
    optimiser = torch.optim.Adam(network.parameters(), lr=2e-3)
    losses = []
    for _ in range(8):
        loss = torch.nn.functional.cross_entropy(network(samples), labels)
        loss.backward()
        assert all(p.grad is not None for p in network.parameters())
        optimiser.step()
        optimiser.zero_grad()
        losses.append(float(loss.detach()))
    assert min(losses[4:]) < losses[0] - 0.02, losses


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_with_running_statistics_say_so(name: str) -> None:
    """Their ranks wait for each other before each forward pass, which is then no time of one rank's own."""
    pytest.importorskip("torch")
    job = small_job(name)
    assert networks.of(job).has_statistics is bool(list(networks.build(job).buffers()))


def test_tokens_are_grey_pixels_in_reading_order() -> None:
    """Digits of 8 x 8 pixels with 17 greys become 64 tokens; noise has all of the vocabulary."""
    job = small_job("bert-base")
    tokens, _ = arrays(job, Path())
    assert tokens.shape == (8, 64) and tokens.dtype == "int64"
    assert tokens.min() == 0 and tokens.max() == 255
    dummy = TrainingJob.model_validate(
        {
            **job.model_dump(mode="json"),
            "data": {"kind": "dummy", "samples": 400},
            "timing": ("synchronised",),
        }
    )
    noise, labels = arrays(dummy, Path())
    assert (
        noise.shape == (400, 64) and set(noise.ravel()) == set(range(256)) and set(labels) == set(range(10))
    )


def test_arguments_that_a_network_lacks_are_refused() -> None:
    """With what it has, what is allowed, and what does not divide."""
    bert = networks.NETWORKS.load("bert-base")
    assert "it has: layers, hidden" in dict(bert.problems({"wings": 2}))["wings"]
    assert "from 1 to 48; got 99" in dict(bert.problems({"layers": 99}))["layers"]
    assert "no multiple of heads, 12" in dict(bert.problems({"hidden": 100}))["hidden"]
    assert "none" in dict(networks.NETWORKS.load("resnet-18").problems({"layers": 2}))["layers"]


def test_a_label_tells_networks_apart() -> None:
    """Of other sizes it has them in it: runs of another network are other work."""
    assert small_job("lstm").model.label == "lstm"
    assert small_job("canonical-cnn").model.label == "canonical-cnn(channels=8, layers=1)"
