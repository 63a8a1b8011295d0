"""Whether the batches of a training fit into the machine's memory, before anything of them is made."""

from __future__ import annotations

import math

from inferbench_tasks.errors import InputError
from inferbench_tasks.training import networks
from inferbench_tasks.training.job import TrainingJob

#: Batches that torch's loader processes prepare ahead, each, where nothing else is said.
PREFETCH = 2


def least_bytes(job: TrainingJob) -> int:
    """What the samples alone take in all ranks: a batch, those that are ready ahead, and all of them where they are
    held in memory. Weights, gradients and activations come on top.
    """
    sample = math.prod(networks.takes(job)) * (8 if networks.of(job).tokens else 4)
    ahead = job.workers * (job.loader.prefetch or PREFETCH)
    held = job.data.count if job.data.where == "memory" else 0
    return job.devices.ranks_of_host * sample * (job.train.batch_size * (1 + ahead) + held)


def check(job: TrainingJob, allowed_bytes: int) -> None:
    """InputError for batches that need more than a training may have here."""
    needed = least_bytes(job)
    if needed > allowed_bytes:
        shape = " x ".join(map(str, networks.takes(job)))
        raise InputError(
            f"batches of {job.train.batch_size:,} samples of {shape} in {job.devices.ranks_of_host} process(es), "
            f"with those that {job.workers} loader process(es) prepare and what lies in memory, take "
            f"{needed:,} bytes at least; a run may have {allowed_bytes:,} here: give a smaller batch_size or "
            "image_size, or fewer processes",
            field="train.batch_size",
        )
