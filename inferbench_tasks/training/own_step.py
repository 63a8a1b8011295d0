"""A rank's step by itself: what a batch takes to be computed where nothing is loaded, exchanged or timed beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from inferbench_tasks.training.items import collate

if TYPE_CHECKING:
    from inferbench_tasks.training.rank import Rank

#: Repeats, behind the first one, which warms up; no more are begun after so long.
MOST_REPEATS, LEAST_REPEATS, ENOUGH_S = 12, 3, 1.0


class OwnStep:
    """Forward, loss and backward of a network of its own: the training's has hooks that exchange gradients, and weights
    that are compared. No optimiser: what it takes depends on the state that it has come to (numbers that have become
    too small for the processor's fast way), and not on the samples.
    """

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self._trains = rank.job.train.benchmark == "train"
        self._network = rank.build()
        self._network.train(self._trains)
        self._first = first_items(rank)

    def ms(self, samples: int, before: Callable[[], object] = lambda: None) -> float:
        """The median of some repeats with a batch of so many samples, after ``before``, which is not timed."""
        images, labels = self._batch(samples)
        return median_ms(self._rank, lambda: self._step(images, labels), before)

    def grown_bytes(self, few: int, many: int) -> float:
        """By how much more memory each sample's forward pass needs, at least: what it keeps for the way back; without
        one, the largest value among these, of which there are a few at a time. 0 where nothing grows.

        Told by passes of so few and so many samples; of what has no way back by one and two, for these keep what no
        step of it does.
        """
        if self._trains:
            return max(0, sum(self._kept_bytes(many)) - sum(self._kept_bytes(few))) / (many - few)
        kept = zip(self._kept_bytes(1), self._kept_bytes(2), strict=True)
        return float(max((of_two - of_one for of_one, of_two in kept), default=0))

    def _kept_bytes(self, samples: int) -> list[int]:
        """The sizes of what a forward pass keeps, weights among it, in the order in which it keeps them."""
        import torch

        sizes: dict[int, int] = {}

        def keep(tensor: Any) -> Any:
            storage = tensor.untyped_storage()
            sizes.setdefault(storage.data_ptr(), storage.nbytes())
            return tensor.detach()  # the graph would hold itself by the tensor

        images, _ = self._batch(samples)
        hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
        with hooks, self._rank.computing.autocast():
            scores = self._network(images)
        del scores  # held until here, so that no two storages had one address
        return list(sizes.values())

    def _batch(self, samples: int) -> tuple[Any, Any]:
        first = self._first
        return self._rank.to_device(collate([first[at % len(first)] for at in range(samples)]))

    def _step(self, images: Any, labels: Any) -> None:
        import torch

        rank = self._rank
        if not self._trains:
            with torch.inference_mode(), rank.computing.autocast():
                self._network(images)
            return
        with rank.computing.autocast():
            loss = rank.criterion(self._network(images), labels)
        rank.computing.backward(loss)
        self._network.zero_grad(set_to_none=True)


def median_ms(rank: Rank, work: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    """Of some repeats behind the first one; ``before`` each of them something that is not timed."""
    times_ns: list[int] = []
    began_s = time.monotonic()
    while len(times_ns) <= LEAST_REPEATS or (
        len(times_ns) <= MOST_REPEATS and time.monotonic() - began_s < ENOUGH_S
    ):
        before()
        rank.synchronise()
        start_ns = time.monotonic_ns()
        work()
        rank.synchronise()
        times_ns.append(time.monotonic_ns() - start_ns)
    return float(np.median(times_ns[1:])) / 1e6


def first_items(rank: Rank) -> list[tuple[Any, ...]]:
    """A batch's items, or all that there are."""
    return [rank.items[index][:2] for index in range(min(rank.job.train.batch_size, len(rank.items)))]
