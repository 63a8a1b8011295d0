"""What can only be told by another amount of the same work: measured by each rank by itself, behind the last epoch.

No figure of the epochs has them in it, and no rank waits for another meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from inferbench_tasks.training.items import collate

if TYPE_CHECKING:
    from inferbench_tasks.training.rank import Rank

#: Repeats of each amount; the first of them warms up.
REPEATS = 8
#: A step of so many samples is not worth a probe: what does not depend on their number is hidden.
LARGEST_BATCH = 64
#: Batches that are fetched from a loader process.
BATCHES = 12
#: A batch that has not come for so long is lost.
_PATIENCE_S = 60.0


def probe(rank: Rank) -> dict[str, float | None]:
    """``fixed_ms``: what forward and backward take beside what grows with the samples, by a batch and half of it (by
    twice as many for fewer than 4); None of large batches. ``hand_over_ms``: what it takes to get a batch that is
    made in no time from a loader process; None of a run that has such processes, or no loader. ``forward_flop``: of one
    sample's forward pass, counted, at least; None of a module of the user's. ``pinned_copy_ms``: copying a batch to a
    GPU from page-locked memory; None of a CPU, and of a run whose batches are there already.
    """
    return {
        "fixed_ms": _fixed_ms(rank),
        "hand_over_ms": _hand_over_ms(rank),
        "forward_flop": _forward_flop(rank),
        "pinned_copy_ms": _pinned_copy_ms(rank),
    }


def fixed_of(few: int, few_ms: float, many: int, many_ms: float) -> float:
    """What is left at no samples of a straight line through two batch sizes and their times, at least 0."""
    slope = (many_ms - few_ms) / (many - few)
    return max(0.0, min(few_ms, few_ms - slope * few))


def _fixed_ms(rank: Rank) -> float | None:
    job = rank.job
    size = job.train.batch_size
    if size > LARGEST_BATCH or job.smooth or job.train.compile:
        return None  # and another network than the compiled one would be timed
    # A network of its own: that of the training has hooks that exchange gradients, and weights that are compared.
    network = rank.build()
    network.train(job.train.benchmark == "train")
    few, many = (size, 2 * size) if size < 4 else (size // 2, size)
    first = _first_items(rank)
    times_ms = {}
    for count in (few, many):
        images, labels = rank.to_device(collate([first[at % len(first)] for at in range(count)]))
        times_ms[count] = _least_ms(rank, lambda i=images, n=labels: _pass(rank, network, i, n))  # type: ignore[misc]
    return fixed_of(few, times_ms[few], many, times_ms[many])


def _pass(rank: Rank, network: Any, images: Any, labels: Any) -> None:
    import torch

    if rank.job.train.benchmark != "train":
        with torch.inference_mode():
            with rank.computing.autocast():
                network(images)
        return
    with rank.computing.autocast():
        loss = rank.criterion(network(images), labels)
    rank.computing.backward(loss)
    network.zero_grad(set_to_none=True)


def _least_ms(rank: Rank, work: Callable[[], object]) -> float:
    """The shortest of some repeats: what else the machine does only makes them longer."""
    times_ns = []
    for _ in range(REPEATS):
        rank.synchronise()
        start_ns = time.monotonic_ns()
        work()
        rank.synchronise()
        times_ns.append(time.monotonic_ns() - start_ns)
    return min(times_ns[1:]) / 1e6


def _forward_flop(rank: Rank) -> float | None:
    """By torch's counter of products and convolutions (a multiply-add is two), which leaves out what is small beside
    them, and a fused LSTM.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    if rank.job.model.kind != "network":
        return None
    network = rank.build().eval()  # two samples are no batch to normalise by
    images, _ = rank.to_device(collate([rank.items[at][:2] for at in range(2)]))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(images)
    return counter.get_total_flops() / 2 or None


def _pinned_copy_ms(rank: Rank) -> float | None:
    if rank.device.type != "cuda" or not rank.job.loads or rank.job.loader.pin_memory:
        return None
    first = _first_items(rank)
    images, labels, *_ = collate([first[at % len(first)] for at in range(rank.job.train.batch_size)])
    batch = images.pin_memory(), labels.pin_memory(), None
    return _least_ms(rank, lambda: rank.to_device(batch))


def _hand_over_ms(rank: Rank) -> float | None:
    job = rank.job
    if not job.loads or job.loader.workers:
        return None
    from torch.utils.data import DataLoader

    size = job.train.batch_size
    first = _first_items(rank)
    items = [first[at % len(first)] for at in range(size * BATCHES)]
    batches = iter(DataLoader(items, size, num_workers=1, collate_fn=collate, timeout=_PATIENCE_S))
    times_ns = []
    for _ in range(BATCHES):
        start_ns = time.monotonic_ns()
        next(batches)
        times_ns.append(time.monotonic_ns() - start_ns)
    del batches  # its process ends
    # The first few lie ready once the process has started, or wait for its start.
    return float(np.median(times_ns[4:])) / 1e6


def _first_items(rank: Rank) -> list[tuple[Any, ...]]:
    """A batch's items, or all that there are."""
    return [rank.items[index][:2] for index in range(min(rank.job.train.batch_size, len(rank.items)))]
