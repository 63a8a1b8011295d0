"""How long a training is expected to hold its device: the scheduler's first guess, before a run of it was seen."""

from __future__ import annotations

import math

from inferbench_tasks.training import probes, ready
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.own_step import ENOUGH_S, LEAST_REPEATS, MOST_REPEATS

#: What the start of the processes, imports and the collection take, seconds.
AROUND_S = 20.0
#: A step of a small network, seconds.
STEP_S = 0.02


def expected_s(job: TrainingJob) -> float:
    """The steps of all epochs, those of the probes behind them, and what is around them."""
    epochs = len(job.epoch_kinds) * job.train.rounds * job.steps
    return AROUND_S + STEP_S * (epochs + probe_steps(job))


def probe_steps(job: TrainingJob) -> int:
    """As many steps as the probes of a rank take at most (``training.probes``), each work with all of its repeats;
    which of them the measured times make needless nobody knows before.
    """
    # The first one warms up.
    repeats = 1 + max(LEAST_REPEATS, min(MOST_REPEATS, math.ceil(ENOUGH_S / STEP_S)))
    train, devices, processes = job.train, job.devices, job.workers > 0
    by_itself = job.loads and not processes
    count = repeats if processes and job.data.read == "warm" else 0  # a batch made in the rank
    count += probes.BATCHES if by_itself else 0  # handed over
    count += repeats if devices.kind.kind == "gpu" and job.loads and not job.loader.pin_memory else 0
    count += 4 * repeats if train.benchmark == "train" else 0  # the optimiser, both ways twice
    if job.smooth or train.compile:
        return count
    works = 1 + by_itself  # alone, and beside a loader process
    works += devices.threads > 1 and devices.cores is None  # with as many threads as cores
    count += repeats * works
    if train.batch_size <= probes.LARGEST_BATCH:
        count += 2 * repeats  # another batch, and the larger one
        count += 2  # what a pass keeps
        count += 2 * ready.STEPS if processes else 0
    return count
