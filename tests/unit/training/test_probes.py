"""What is told by another amount of the same work."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.training.datasets import arrays
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import Order
from inferbench_tasks.training.probes import fixed_of, probe


@pytest.mark.parametrize(
    ("few", "many", "fixed_ms"),
    [
        ((8, 6.0), (16, 10.0), 2.0),
        ((1, 5.0), (2, 5.1), 4.9),
        ((8, 6.0), (16, 12.0), 0.0),
        ((8, 6.0), (16, 13.0), 0.0),
    ],
)
def test_what_does_not_grow_with_the_samples_is_left_of_a_straight_line(
    few: tuple[int, float], many: tuple[int, float], fixed_ms: float
) -> None:
    """8 samples in 6 ms and 16 in 10 are half a millisecond each and 2 ms for none; never less than 0."""
    assert fixed_of(*few, *many) == pytest.approx(fixed_ms)


def test_a_rank_probes_without_touching_its_weights(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Both probes of a small training give times, and the weights stay as they were."""
    torch = pytest.importorskip("torch")
    from inferbench_tasks.training.rank import Rank

    job = TrainingJob.model_validate(
        {
            "kind": "training",
            "name": "x",
            "data": {"kind": "digits", "samples": 16},
            "train": {"batch_size": 4},
        }
    )
    images, labels = arrays(job, tmp_path)
    paths = {"images_path": str(tmp_path / "images.npy"), "labels_path": str(tmp_path / "labels.npy")}
    np.save(paths["images_path"], images)
    np.save(paths["labels_path"], labels)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in a training; more of them spin on a busy machine
    request.addfinalizer(lambda: torch.set_num_threads(threads))
    rank = Rank(Order(job=job, **paths), 0, 1)
    before = [weights.detach().clone() for weights in rank.module.parameters()]
    times_ms = probe(rank)
    assert set(times_ms) == {"fixed_ms", "hand_over_ms", "forward_flop", "pinned_copy_ms"}
    assert times_ms["pinned_copy_ms"] is None, "of a GPU"
    assert times_ms["forward_flop"] is not None and times_ms["forward_flop"] > 1e5
    assert times_ms["hand_over_ms"] is not None and times_ms["hand_over_ms"] > 0
    assert times_ms["fixed_ms"] is not None and times_ms["fixed_ms"] >= 0
    assert all(bool((old == new).all()) for old, new in zip(before, rank.module.parameters(), strict=True))
