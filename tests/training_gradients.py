"""A program for tests: one step of one rank, whose gradients rank 0 writes down.

``python -m tests.training_gradients ORDER OUTPUT``, by torchrun or by itself.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import torch

from inferbench_tasks.training.order import Order
from inferbench_tasks.training.rank import Rank


def main(order_path: Path, output: Path) -> None:
    """Forward and backward of the first batch, as an epoch does them."""
    torch.set_num_threads(1)
    order = Order.read(order_path)
    number, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        torch.distributed.init_process_group("gloo")
    rank = Rank(order, number, world)
    images, labels = rank.to_device(next(iter(rank.loader)))
    rank.criterion(rank.network(images), labels).backward()
    if number == 0:
        np.save(output, np.concatenate([p.grad.numpy().ravel() for p in rank.module.parameters()]))
    if world > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
