"""The data sets as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.networks import CHANNELS

DUMMY_CLASSES = 10


def arrays(job: TrainingJob) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Images ``n x channels x side x side`` and labels ``n`` of the job's data set."""
    count, side, channels = job.data.count, job.data.image_size, CHANNELS[job.model.name]
    shape = (channels, side, side)
    if job.data.kind == "dummy":
        rng = np.random.default_rng(job.train.seed)
        noise: Any = rng.standard_normal((count, *shape), dtype=np.float32)
        return noise, rng.integers(0, DUMMY_CLASSES, count, dtype=np.int64)
    from inferbench_tasks.requests import digits

    split = digits.split()
    grey = digits.resize(split.train_images[:count], side, side)[:, None]
    images = np.ascontiguousarray(np.broadcast_to(grey, (len(grey), *shape)))
    return images, split.train_labels[:count]
