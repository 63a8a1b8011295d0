"""Trains the small network on digits and counts what it gets right of those that it has not seen.

``python -m tests.training_accuracy FOLDER``, alone or by torchrun: reads ``order-WORLD.json``, writes
``right-WORLD.npy``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import torch

from inferbench_tasks.monitors.schedstat import ThreadWaits
from inferbench_tasks.requests import digits
from inferbench_tasks.training import networks
from inferbench_tasks.training.order import Order
from inferbench_tasks.training.rank import Rank

EPOCHS = 4


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
        held_out = digits.split()
        images = torch.from_numpy(digits.fit(held_out.test, networks.takes(order.job)))
        with torch.inference_mode():
            answers = rank.module.eval()(images).argmax(1).numpy()
        np.save(folder / f"right-{world}.npy", answers == held_out.test_labels)
    if world > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
