"""Which samples an epoch took: whether all of them are distinct, as DistributedSampler promises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.training.job import TrainingJob


class Taken:
    """A sampler that keeps what it gave out last. They are drawn at once, as torch's own samplers do it."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self.indices: list[int] = []

    def __iter__(self) -> Iterator[int]:
        self.indices = list(self._sampler)
        return iter(self.indices)

    def __len__(self) -> int:
        return len(self._sampler)

    def set_epoch(self, epoch: int) -> None:
        """Of DistributedSampler: the order of the epoch."""
        self._sampler.set_epoch(epoch)


def times_taken(indices: list[int], job: TrainingJob, samples: int) -> NDArray[np.int64]:
    """How often a rank took each sample in the steps that it made; a loader draws ahead of them."""
    return np.bincount(indices[: job.steps * job.train.batch_size], minlength=samples)


def repeated(times: NDArray[np.int64]) -> int:
    """How many of the samples taken were taken before."""
    return int((times - 1).clip(0).sum())


def filled_up(samples: int, ranks: int) -> int:
    """So many samples DistributedSampler repeats until all ranks have as many."""
    return -samples % ranks
