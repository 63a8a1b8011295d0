"""Epochs of ours and of a plain loop in turns, in one process:
``torchrun -m benchmarks.training.beside_plain ORDER MAKINGS PAIRS ours|plain``, which of them is made first at first.

The plain loop is what a script of one's own has: DataLoader, DistributedDataParallel, SGD, nothing else. Each has a
network, an optimiser and a loader of its own; both start from the same weights and read the same files. Both are made
anew for each ``PAIRS`` pairs of epochs, each of them first in turns: where memory lies makes one of two equal loops
faster for as long as it lives. Rank 0 prints a JSON line: seconds and CPU seconds of a step of each pair of epochs.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, DistributedSampler, SequentialSampler, TensorDataset

from inferbench_tasks.monitors.schedstat import ThreadWaits
from inferbench_tasks.training import networks
from inferbench_tasks.training.order import Order
from inferbench_tasks.training.rank import Rank

Epoch = Callable[[], tuple[float, float]]


def plain(order: Order, rank: int, world: int) -> Epoch:
    """An epoch of a script's own loop: seconds and CPU seconds of a step behind the warm-up; all batches are whole."""
    job = order.job
    torch.manual_seed(job.train.seed)
    module = networks.build(job)
    network: Any = torch.nn.parallel.DistributedDataParallel(module) if world > 1 else module
    optimiser = torch.optim.SGD(module.parameters(), lr=job.train.learning_rate, momentum=job.train.momentum)
    criterion = torch.nn.CrossEntropyLoss()
    data = TensorDataset(
        *(torch.from_numpy(np.load(path)) for path in (order.images_path, order.labels_path))
    )
    sampler: Any = (
        DistributedSampler(data, world, rank, shuffle=False) if world > 1 else SequentialSampler(data)
    )
    loader = DataLoader(data, job.train.batch_size, sampler=sampler)
    network.train()

    def epoch() -> tuple[float, float]:
        start_s = cpu_s = 0.0
        for step, (images, labels) in enumerate(loader):
            loss = criterion(network(images), labels)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            if step == job.train.warmup_steps - 1:
                start_s, cpu_s = time.monotonic(), time.process_time()
        return time.monotonic() - start_s, time.process_time() - cpu_s

    return epoch


def ours(order: Order, rank: int, world: int) -> Epoch:
    """A bare epoch of a training, by its own two readings of the clocks."""
    trained, waits, number = Rank(order, rank, world), ThreadWaits(), iter(range(1_000_000))

    def epoch() -> tuple[float, float]:
        result = trained.epoch("bare", next(number), waits)
        assert result.window_start_ns is not None and result.window_end_ns is not None
        assert result.cpu_s is not None
        return (result.window_end_ns - result.window_start_ns) / 1e9, result.cpu_s

    return epoch


MAKERS: dict[str, Callable[[Order, int, int], Epoch]] = {"ours": ours, "plain": plain}


def main() -> None:
    """All makings."""
    order = Order.read(Path(sys.argv[1]))
    makings, pairs, first = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    if world > 1:
        torch.distributed.init_process_group("gloo")
    rows = []
    for _ in range(makings):
        rows += made(order, rank, world, pairs, first)
        gc.collect()  # a network and its optimiser hold each other
        (first,) = MAKERS.keys() - {first}
    if rank == 0:
        print(json.dumps(rows))
    if world > 1:
        torch.distributed.destroy_process_group()


def made(order: Order, rank: int, world: int, pairs: int, first: str) -> list[dict[str, tuple[float, float]]]:
    """Both made, ``first`` first, and their pairs of epochs, each first in turns; one pair before them warms up."""
    both = {name: MAKERS[name](order, rank, world) for name in sorted(MAKERS, key=lambda name: name != first)}
    steps = order.job.samples_per_process // order.job.train.batch_size - order.job.train.warmup_steps
    rows = []
    for pair in range(pairs + 1):
        times = {}
        for name in sorted(both, reverse=bool(pair % 2)):
            if world > 1:
                torch.distributed.barrier()
            seconds, cpu_s = both[name]()
            times[name] = (seconds / steps, cpu_s / steps)
        rows.append(times)
    return rows[1:]


if __name__ == "__main__":
    main()
