"""What one rank has: network, loader, optimiser, and its way through an epoch. torch is imported where it is used."""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from inferbench_tasks.training import networks
from inferbench_tasks.training.order import Epoch, EpochKind, Order
from inferbench_tasks.training.phases import (
    MEASURED,
    NoInstrument,
    Synchronised,
    columns_of,
    part_of,
)
from inferbench_tasks.training.schedstat import ThreadWaits, of_processes

#: A batch that has not come for so long is lost, and the training fails.
LOADER_PATIENCE_S = 120.0


class Items:
    """The data set, item by item: an image and its label, copied out of the mapped file."""

    def __init__(self, images_path: str, labels_path: str) -> None:
        self._images = np.load(images_path, mmap_mode="r", allow_pickle=False)
        self._labels = np.load(labels_path, mmap_mode="r", allow_pickle=False)

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        import torch

        return torch.from_numpy(np.array(self._images[index])), int(self._labels[index])


class Rank:
    """One process of the training. With ``world`` > 1 the process group must be there."""

    def __init__(self, order: Order, rank: int, world: int, device: str = "cpu") -> None:
        import torch
        from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, SequentialSampler

        self.job, self.rank, self.world = order.job, rank, world
        train, loader = self.job.train, self.job.loader
        self.ddp = self.job.devices.strategy == "ddp"
        torch.manual_seed(train.seed)  # the same weights in every rank
        self.device = torch.device(device)
        self.module = networks.build(self.job.model.name).to(self.device)
        self.network = self.module
        if train.benchmark == "train":
            if self.ddp:
                self.network = torch.nn.parallel.DistributedDataParallel(self.module)
            self.optimiser: Any = torch.optim.SGD(
                self.module.parameters(), lr=train.learning_rate, momentum=train.momentum
            )
        self.network.train(train.benchmark == "train")
        self.criterion = torch.nn.CrossEntropyLoss()
        items: Any = Items(order.images_path, order.labels_path)
        generator = torch.Generator().manual_seed(train.seed)
        self.sampler: Any
        if self.ddp:
            self.sampler = DistributedSampler(items, world, rank, shuffle=loader.shuffle, seed=train.seed)
        elif loader.shuffle:
            self.sampler = RandomSampler(items, generator=generator)
        else:
            self.sampler = SequentialSampler(items)
        ahead: dict[str, Any] = {}
        if loader.workers:
            # A batch that got lost between the processes must not be waited for for ever.
            ahead["timeout"] = LOADER_PATIENCE_S
        if loader.workers and loader.prefetch:
            ahead["prefetch_factor"] = loader.prefetch
        self.loader = DataLoader(
            items,
            train.batch_size,
            sampler=self.sampler,
            num_workers=loader.workers,
            generator=generator,
            **ahead,
        )

    def synchronise(self) -> None:
        """Wait until the device has done what it was told; a CPU has, always."""
        if self.device.type == "cuda":
            import torch

            torch.cuda.synchronize(self.device)

    def to_device(self, batch: Any) -> tuple[Any, Any]:
        """A batch where the network is."""
        images, labels = batch
        return images.to(self.device), labels.to(self.device)

    def optimise(self) -> None:
        """A step of the optimiser; the gradients are empty afterwards."""
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def epoch(self, kind: EpochKind, round_: int, waits: ThreadWaits) -> Epoch:
        """One epoch, from the start of its loader's processes to its last step."""
        import torch

        train = self.job.train
        trains = train.benchmark == "train"
        if self.ddp:
            self.sampler.set_epoch(2 * round_ + (kind == "bare"))
            torch.distributed.barrier()
        instrument = Synchronised(self.synchronise, waits) if kind == "synchronised" else NoInstrument()
        run, losses = instrument.run, []
        started_ns = time.monotonic_ns()
        batches = iter(self.loader)
        epoch = Epoch(kind=kind, round=round_, started_ns=started_ns, ready_ns=time.monotonic_ns())
        window = _Window(epoch, self.synchronise)
        waits.find()
        with nullcontext() if trains else torch.inference_mode():
            for step in range(self.job.steps):
                samples = min(train.batch_size, self.job.samples_per_process - step * train.batch_size)
                part = part_of(step, samples, train.warmup_steps, train.batch_size)
                window.next(part, samples)
                instrument.step_begins()
                batch = run(next, batches)
                images, labels = run(self.to_device, batch)
                scores = run(self.network, images)
                if trains:
                    loss = run(self.criterion, scores, labels)
                    run(loss.backward)
                    run(self.optimise)
                    losses.append(loss.detach())
                instrument.step_ends(step, samples, part)
        window.close()
        del batches  # its processes end
        epoch.losses = [value if math.isfinite(value) else None for value in map(float, losses)]
        epoch.columns = columns_of(train.benchmark) if kind == "synchronised" else []
        epoch.rows = instrument.rows
        return epoch

    def agree(self, stops: bool) -> bool:
        """Whether any rank wants to stop: all of them do then, so that none waits for another for ever."""
        if not self.ddp:
            return stops
        import torch

        flag = torch.tensor([float(stops)])
        torch.distributed.all_reduce(flag)
        return bool(flag.item())


class _Window:
    """From the first whole step after the warm-up to the end of the last whole one: two readings of the clock."""

    def __init__(self, epoch: Epoch, synchronise: Callable[[], None]) -> None:
        self._epoch = epoch
        self._synchronise = synchronise
        self._before: tuple[int, int] | None = None

    def next(self, part: int, samples: int) -> None:
        """Before each step."""
        epoch = self._epoch
        if part == MEASURED:
            epoch.window_samples += samples
            if epoch.window_start_ns is None:
                self._before = _loader_times()
                self._synchronise()
                epoch.window_start_ns = time.monotonic_ns()
        else:
            self.close()

    def close(self) -> None:
        """After the last step, or before one that is not of the window."""
        epoch = self._epoch
        if epoch.window_start_ns is None or epoch.window_end_ns is not None:
            return
        self._synchronise()
        epoch.window_end_ns = time.monotonic_ns()
        after = _loader_times()
        if self._before is not None and after is not None:
            epoch.loader_cpu_s = (after[0] - self._before[0]) / 1e9
            epoch.loader_wait_s = (after[1] - self._before[1]) / 1e9


def _loader_times() -> tuple[int, int] | None:
    return of_processes(child.pid for child in multiprocessing.active_children() if child.pid)
