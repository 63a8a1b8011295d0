"""Batches and the memory that they need."""

from __future__ import annotations

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.memory import check, least_bytes


def test_samples_of_all_ranks_count_with_those_that_are_ready_ahead() -> None:
    """2 ranks: a batch, 3 loader processes with 2 batches each, and all 100 samples, of 3 x 64 x 64 float32."""
    job = TrainingJob.model_validate(
        {
            "kind": "training",
            "name": "x",
            "model": {"name": "resnet-18"},
            "data": {"kind": "dummy", "samples": 100, "image_size": 64, "where": "memory"},
            "loader": {"workers": 3},
            "train": {"batch_size": 10},
            "devices": {"processes": 2, "strategy": "ddp"},
        }
    )
    needed = 2 * 3 * 64 * 64 * 4 * (10 * 7 + 100)
    assert least_bytes(job) == needed
    check(job, needed)
    with pytest.raises(InputError, match=f"take {needed:,} bytes at least; a run may have {needed - 1:,}"):
        check(job, needed - 1)
