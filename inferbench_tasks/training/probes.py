"""What can only be told by the same work done otherwise: measured by each rank by itself, behind the last epoch.

No figure of the epochs has them in it, and no rank waits for another meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from inferbench_tasks.cores import usable_cores
from inferbench_tasks.memory import left_bytes
from inferbench_tasks.training import denormal
from inferbench_tasks.training.items import collate
from inferbench_tasks.training.own_step import MOST_REPEATS, OwnStep, first_items, median_ms
from inferbench_tasks.training.phases import CLOCKS, MEASURED
from inferbench_tasks.training.ready import ready_ms

if TYPE_CHECKING:
    from inferbench_tasks.training.job import TrainingJob
    from inferbench_tasks.training.order import Epoch
    from inferbench_tasks.training.rank import Rank

log = logging.getLogger(__name__)

#: A step of so many samples is not worth a larger one: what does not depend on their number is hidden.
LARGEST_BATCH = 64
#: A larger batch is tried where so much of a step without loading is likely to be the same for any number of samples:
#: what a batch and half of it have in common, the optimiser, and the time between phases.
_LIKELY_SHARE = 0.4
#: It needs memory that the job did not ask for, and is tried where it needs at most so much of what is free by what its
#: samples keep: gradients on their way, copies, and the batches of a loader process come on top.
_MEMORY_SHARE = 0.25
#: Of fewer samples several times as many are timed beside, and not half: one sample is no batch to normalise by, and
#: one more changes the way in which a product is computed, by up to as much as it takes.
_FEWEST_HALVED, _TINY_TIMES = 4, 4
#: Phases whose time a step by itself has, or that grow with the samples.
_BEFORE = ("loading", "to_device", "forward", "loss", "backward")
_OF_STEPS = (
    "alone_ms", "beside_ms", "fewer_threads_ms", "fewer_threads", "larger_ms", "larger_batch", "ready_ms",
    "larger_ready_ms",
)  # fmt: skip
#: Batches that are fetched from a loader process.
BATCHES = 12
#: A batch that has not come for so long is lost.
_PATIENCE_S = 60.0


def probe(rank: Rank, epochs: Sequence[Epoch]) -> dict[str, float | None]:
    """``alone_ms``: forward, loss and backward of a batch by themselves; of them ``beside_ms``, with a loader
    process that makes batches beside them (None of a run that has such processes, or no loader);
    ``fewer_threads_ms``, with ``fewer_threads`` of torch, those that a rank has cores for (None where it has no more);
    ``larger_ms``, with ``larger_batch`` samples (None of large batches, where time grows with the samples, and without
    memory for them); there, of a run with loader processes, too: ``ready_ms`` and ``larger_ready_ms``, getting a batch,
    and one of as many samples, that lies ready. All None of smooth inference and of a compiled network.

    ``own_making_ms``: making a batch in the rank itself; None of a run without loader processes, and of cold reads.
    ``hand_over_ms``: what it takes to get a batch that is made in no time from a loader process; None of a run that has
    such processes, or no loader. ``denormal_ratio`` and the optimiser's times: see ``training.denormal``, None of what
    is not told there. ``forward_flop``: of one sample's forward pass, counted, at least; None of a module of
    the user's. ``pinned_copy_ms``: copying a batch to a GPU from page-locked memory; None of a CPU, and of a run whose
    batches are there already. Whatever can't be probed is None, with the reason in the log. ``epochs``: what the rank
    measured before.
    """
    found: dict[str, float | None] = dict.fromkeys((*_OF_STEPS, *denormal.FIGURES))
    with _left_out("steps by themselves"):
        _time(rank, found, around_ms(epochs))
    with _left_out("the optimiser's state"):
        found |= denormal.probe(rank)
    for name, work in _OTHERS.items():
        found[name] = None
        with _left_out(name):
            found[name] = work(rank)
    return found


@contextmanager
def _left_out(what: str) -> Iterator[None]:
    """No probe takes a training with it that was measured: what is raised in it is written to the log."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - no room on a GPU, a module that takes its own batches alone
        log.warning("not probed: %s: %s", what, error)


def fixed_of(few: int, few_ms: float, many: int, many_ms: float) -> float:
    """What is left at no samples of a straight line through two batch sizes and their times, at least 0."""
    slope = (many_ms - few_ms) / (many - few)
    return max(0.0, min(few_ms, few_ms - slope * few))


def cores_of_a_rank(job: TrainingJob) -> int:
    """Those that it is pinned to, or its share of those that its host's ranks are granted together; one at least."""
    return job.devices.cores or max(1, usable_cores() // job.devices.ranks_of_host)


def around_ms(epochs: Sequence[Epoch]) -> float:
    """What the median step of the last synchronised epoch took besides loading, copying, forward, loss and backward:
    the optimiser, and the time between phases without what reading the clocks took. 0 where it has no measured steps.
    """
    for epoch in reversed(epochs):
        if epoch.kind != "synchronised":
            continue
        rows = [row for row in epoch.rows if row[epoch.columns.index("part")] == MEASURED]
        if rows:
            step = epoch.columns.index("step_ns")
            names = {*(f"{phase}_wall_ns" for phase in _BEFORE), CLOCKS}
            others = [at for at, name in enumerate(epoch.columns) if name in names]
            times_ns = [(row[step] or 0) - sum(row[at] or 0 for at in others) for row in rows]
            return max(0.0, float(np.median(times_ns)) / 1e6)
    return 0.0


def _time(rank: Rank, found: dict[str, float | None], around: float) -> None:
    """Put into ``found`` what is timed. ``around``: see ``around_ms``."""
    job = rank.job
    if job.smooth or job.train.compile:
        return  # another network than the compiled one would be timed
    own, size = OwnStep(rank), job.train.batch_size
    alone_ms = found["alone_ms"] = own.ms(size)
    if job.loads and not job.workers:
        batches = _batches_of_a_process(rank, _items_in_turn(rank))
        found["beside_ms"] = own.ms(size, before=lambda: next(batches))
        del batches  # its process ends
    fewer = cores_of_a_rank(job)
    if job.devices.threads > fewer:
        found |= {"fewer_threads": fewer, "fewer_threads_ms": _with_threads(own, size, fewer)}
    if size <= LARGEST_BATCH:
        other = size // 2 if size >= _FEWEST_HALVED else _TINY_TIMES * size
        few, many = sorted(((other, own.ms(other)), (size, alone_ms)))
        larger = max(LARGEST_BATCH, 2 * size)
        likely = fixed_of(*few, *many) + around >= _LIKELY_SHARE * (alone_ms + around)
        # A GPU without room says so; on a CPU the kernel ends the rank, and with it a training that was measured.
        if likely and (
            rank.device.type != "cpu" or _has_room(rank, own.grown_bytes(few[0], many[0]) * larger)
        ):
            found |= {"larger_ms": own.ms(larger), "larger_batch": larger}
            if job.workers:
                found |= {"ready_ms": ready_ms(rank, size), "larger_ready_ms": ready_ms(rank, larger)}


def _has_room(rank: Rank, needed_bytes: float) -> bool:
    """Whether each rank of this host may have so much more, by what its cgroups and the machine have free."""
    import psutil

    free_bytes, left = psutil.virtual_memory().available, left_bytes(cached=True)
    room_bytes = _MEMORY_SHARE * (free_bytes if left is None else min(free_bytes, left))
    if needed_bytes * rank.job.devices.ranks_of_host <= room_bytes:
        return True
    text = "not probed: a larger batch: each of %d rank(s) would need %.3g bytes at least, of %.3g that all may take"
    log.warning(text, rank.job.devices.ranks_of_host, needed_bytes, room_bytes)
    return False


def _with_threads(own: OwnStep, size: int, threads: int) -> float:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return own.ms(size)
    finally:
        torch.set_num_threads(before)


def _items_in_turn(rank: Rank) -> Any:
    """The data set's items, as many as all repeats take, made when they are asked for."""
    from torch.utils.data import Subset

    count = rank.job.train.batch_size * (MOST_REPEATS + 2)
    return Subset(rank.items, list(islice(cycle(range(len(rank.items))), count)))


def _batches_of_a_process(rank: Rank, items: Any) -> Iterator[Any]:
    """Batches that one loader process makes of them."""
    from torch.utils.data import DataLoader

    size = rank.job.train.batch_size
    return iter(DataLoader(items, size, num_workers=1, collate_fn=collate, timeout=_PATIENCE_S))


def _own_making_ms(rank: Rank) -> float | None:
    from torch.utils.data import DataLoader

    job = rank.job
    if not job.workers or job.data.read == "cold":
        return None  # what was read before is no cold read any more
    batches = iter(DataLoader(_items_in_turn(rank), job.train.batch_size, collate_fn=collate))
    return median_ms(rank, lambda: next(batches))


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
    first = first_items(rank)
    images, labels, *_ = collate([first[at % len(first)] for at in range(rank.job.train.batch_size)])
    batch = images.pin_memory(), labels.pin_memory(), None
    return median_ms(rank, lambda: rank.to_device(batch))


def _hand_over_ms(rank: Rank) -> float | None:
    job = rank.job
    if not job.loads or job.loader.workers:
        return None
    first = first_items(rank)
    batches = _batches_of_a_process(
        rank, [first[at % len(first)] for at in range(job.train.batch_size * BATCHES)]
    )
    times_ns = []
    for _ in range(BATCHES):
        start_ns = time.monotonic_ns()
        next(batches)
        times_ns.append(time.monotonic_ns() - start_ns)
    del batches  # its process ends
    # The first few lie ready once the process has started, or wait for its start.
    return float(np.median(times_ns[4:])) / 1e6


_OTHERS: dict[str, Callable[[Rank], float | None]] = {
    "own_making_ms": _own_making_ms,
    "hand_over_ms": _hand_over_ms,
    "forward_flop": _forward_flop,
    "pinned_copy_ms": _pinned_copy_ms,
}
