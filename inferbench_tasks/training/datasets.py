"""The data sets as arrays, in the shape that the network takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.errors import InputError
from inferbench_tasks.training import networks
from inferbench_tasks.training.job import TrainingJob

DUMMY_CLASSES = 10


def arrays(job: TrainingJob, base_dir: Path) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Samples ``n x shape`` of the job's data set, float32, or int64 tokens; labels ``n``.

    A token is a pixel's grey, in reading order: a sequence of pixels to be classified, after the task *Image* of Long
    Range Arena (Tay et al., 2021). Raises InputError for a data set with fewer samples than asked for.
    """
    network, count, shape = networks.of(job), job.data.count, networks.takes(job)
    if job.data.kind == "dummy":
        rng = np.random.default_rng(job.train.seed)
        noise: Any
        if network.tokens is None:
            noise = rng.standard_normal((count, *shape), dtype=np.float32)
        else:
            noise = rng.integers(0, network.all_of(job.model.arguments)[network.tokens], (count, *shape))
        return noise, rng.integers(0, DUMMY_CLASSES, count, dtype=np.int64)
    from inferbench_tasks.requests import digits

    images, labels = _images(job, base_dir)
    if len(images) < count:
        message = f"{job.data.kind} has {len(images):,} samples here; {count:,} were asked for"
        raise InputError(message, field="data.samples")
    samples = digits.fit(images[:count], shape)
    if network.tokens is not None:
        return np.rint(samples * (networks.GREYS - 1)).astype(np.int64), labels[:count]
    return samples, labels[:count]


def _images(job: TrainingJob, base_dir: Path) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Grey images ``n x side x side`` from 0 to 1 to train on, and their labels."""
    if job.data.kind == "fashion-mnist":
        from inferbench_tasks.artifacts.safe_files import inside
        from inferbench_tasks.requests import fashion

        if job.data.path is None:
            images, labels = fashion.part("train", fashion.FOLDER)
        else:
            images, labels = fashion.read("train", inside(base_dir, job.data.path, "data.path"))
        return images[:, 0], labels
    from inferbench_tasks.requests import digits

    split = digits.split()
    return split.train, split.train_labels
