"""Trains the small network on digits or Fashion-MNIST and counts what it gets right of those that it has not seen.

``python -m tests.training_accuracy FOLDER``, alone or by torchrun: reads ``order-WORLD.json``, writes
``right-WORLD.npy``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from inferbench_tasks.monitors.schedstat import ThreadWaits
from inferbench_tasks.requests import digits, fashion
from inferbench_tasks.training import networks
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import Order
from inferbench_tasks.training.rank import Rank

EPOCHS = 4
#: Of Fashion-MNIST's 10,000.
CLOTHES = 2000


def held_out(job: TrainingJob) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Samples that the job's data set keeps for this, as the network takes them, and their labels."""
    if job.data.kind == "fashion-mnist":
        images, labels = fashion.part("t10k", fashion.FOLDER)
        images, labels = images[:CLOTHES, 0], labels[:CLOTHES]
    else:
        split = digits.split()
        images, labels = split.test, split.test_labels
    return digits.fit(images, networks.takes(job)), labels


def main(folder: Path) -> None:
    """Rank 0 writes, by sample, whether its network is right."""
    number, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    torch.set_num_threads(1)
    if world > 1:
        torch.distributed.init_process_group("gloo")
    order = Order.read(folder / f"order-{world}.json")
    rank, waits = Rank(order, number, world), ThreadWaits()
    for round_ in range(EPOCHS):
        rank.epoch("bare", round_, waits)
    if number == 0:
        images, labels = held_out(order.job)
        with torch.inference_mode():
            answers = rank.module.eval()(torch.from_numpy(images)).argmax(1).numpy()
        np.save(folder / f"right-{world}.npy", answers == labels)
    if world > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
