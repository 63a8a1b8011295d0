"""Which samples ranks took."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.taken import Taken, filled_up, repeated, times_taken

torch = pytest.importorskip("torch")


def job(samples: int, ranks: int, batch: int, **train: Any) -> TrainingJob:
    return TrainingJob.model_validate(
        {
            "kind": "training",
            "name": "n",
            "data": {"kind": "digits", "samples": samples},
            "train": {"batch_size": batch, **train},
            "devices": {"processes": ranks, "strategy": "ddp"},
        }
    )


def taken(of: TrainingJob, number: int, sampler: Any = None) -> Any:
    """How often a rank took each sample of an epoch, through torch's own loader and a shuffling sampler."""
    data = list(range(of.data.count))
    distributed = torch.utils.data.DistributedSampler(data, of.devices.ranks, number, shuffle=True)
    kept = Taken(sampler or distributed)
    kept.set_epoch(3)
    batches = list(torch.utils.data.DataLoader(data, of.train.batch_size, sampler=kept))
    assert sum(len(batch) for batch in batches) == len(kept.indices) == len(kept)
    return times_taken(kept.indices, of, of.data.count)


def test_ranks_share_the_samples_and_repeat_only_what_fills_them_up() -> None:
    """Of 10 samples 4 ranks take 3 each: 12, two of them twice; of 12 none."""
    ten = job(10, 4, 2)
    assert repeated(sum(taken(ten, rank) for rank in range(4))) == filled_up(10, 4) == 2
    twelve = job(12, 4, 2)
    assert repeated(sum(taken(twelve, rank) for rank in range(4))) == filled_up(12, 4) == 0


def test_ranks_that_take_the_same_samples_are_seen() -> None:
    """Two ranks with the sampler of rank 0 take each of its 6 samples twice."""
    of = job(12, 2, 3)
    assert repeated(taken(of, 0) + taken(of, 0)) == 6


def test_what_was_drawn_but_not_trained_on_does_not_count() -> None:
    """Two steps of three samples: the first six of those that were drawn."""
    of = job(12, 1, 3, max_steps=2)
    assert taken(of, 0).sum() == 6
    assert repeated(times_taken([0, 1, 2, 0, 4, 5, 0, 0, 0], of, 12)) == 1
