"""A program for tests: one step of one rank for each order in a folder, whose gradients rank 0 writes down.

``python -m tests.training_gradients FOLDER``, by torchrun or by itself: for each ``NAME.order-PROCESSES.json``
``NAME.gradients-PROCESSES.npy``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import torch

from inferbench_tasks.training.order import Order
from inferbench_tasks.training.rank import Rank


def main(folder: Path) -> None:
    """Forward and backward of the first batch, as an epoch does them.

    Batch normalisation keeps the statistics that it started with: in training each process has those of its own
    batch, which are not those of the batches of all processes together.
    """
    torch.set_num_threads(1)
    number, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        torch.distributed.init_process_group("gloo")
    for path in sorted(folder.glob(f"*.order-{world}.json")):
        rank = Rank(Order.read(path), number, world)
        rank.network.eval()
        images, labels = rank.to_device(next(rank.batches("bare")))
        rank.criterion(rank.network(images), labels).backward()
        if number == 0:
            gradients = np.concatenate([p.grad.numpy().ravel() for p in rank.module.parameters()])
            np.save(folder / f"{path.name.partition('.')[0]}.gradients-{world}.npy", gradients)
    if world > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
