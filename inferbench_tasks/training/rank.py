"""What one rank has: network, loader, optimiser, and its way through an epoch. torch is imported where it is used."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import islice
from typing import Any

from inferbench_tasks.monitors.schedstat import ThreadWaits
from inferbench_tasks.training import cold, networks
from inferbench_tasks.training.computing import Computing
from inferbench_tasks.training.events import DeviceEvents, device_clock
from inferbench_tasks.training.items import FileItems, collate, items_of
from inferbench_tasks.training.jade import JadeTimes
from inferbench_tasks.training.job import EpochKind
from inferbench_tasks.training.order import Epoch, Order
from inferbench_tasks.training.phases import (
    CLOCKS,
    NoInstrument,
    Synchronised,
    columns_of,
    part_of,
    phases_of,
)
from inferbench_tasks.training.sending import PARTS, parts_ns
from inferbench_tasks.training.taken import Taken, repeated, times_taken
from inferbench_tasks.training.trainers.base import Trainer, trainer_of
from inferbench_tasks.training.window import Window

#: A batch that has not come for so long is lost, and the training fails.
LOADER_PATIENCE_S = 120.0
#: What BenchmarkJade's smooth inference puts on its samples: the noise's standard deviation.
NOISE = 0.25
#: Runs the work of the next phase, and times it.
Run = Callable[..., Any]


class Rank:
    """One process of the training. With ``world`` > 1 the ranks must have met: ``trainer`` has begun, which is the
    job's own unless it is given.
    """

    def __init__(
        self, order: Order, rank: int, world: int, device: str = "cpu", trainer: Trainer | None = None
    ) -> None:
        import torch
        from torch.utils.data import DataLoader, RandomSampler, SequentialSampler

        self.job, self.rank, self.world = order.job, rank, world
        self._module_folder = order.module_folder
        train, loader = self.job.train, self.job.loader
        self.trainer = trainer or trainer_of(self.job)(self.job, rank, world, device)
        self.several = self.trainer.several
        self.loader_ns: list[int | None] = []
        self._warmed = False
        torch.manual_seed(train.seed)  # the same weights in every rank
        self.computing = Computing(self.job, device)
        self.device, self.synchronise = self.computing.device, self.computing.synchronise
        self.module = self.build()
        network, self.exchange = self.module, None
        if train.benchmark == "train":
            if self.several:
                network = self.trainer.network(self.module)
                self.exchange = self.trainer.exchange(network)
            self.optimiser: Any = self.trainer.optimiser(self.computing.optimiser(self.module.parameters()))
        network.train(train.benchmark == "train")
        self.network = self.computing.compiled(network)
        self.criterion = torch.nn.CrossEntropyLoss()
        self.items, self.transform = items_of(order)
        items = self.items
        generator = torch.Generator().manual_seed(train.seed)
        sampler: Any
        if self.several:
            sampler = self.trainer.sampler(items)
        elif loader.shuffle:
            sampler = RandomSampler(items, generator=generator)
        else:
            sampler = SequentialSampler(items)
        self.sampler = Taken(sampler)
        ahead: dict[str, Any] = {"pin_memory": loader.pin_memory}
        if loader.workers:
            # A batch that got lost between the processes must not be waited for for ever.
            ahead |= {"timeout": LOADER_PATIENCE_S, "persistent_workers": loader.persistent}
            ahead["multiprocessing_context"] = loader.context
        if loader.workers and loader.prefetch:
            ahead["prefetch_factor"] = loader.prefetch
        self._make_loader: Callable[[], Any] = lambda: DataLoader(
            items,
            train.batch_size,
            sampler=self.sampler,
            num_workers=loader.workers,
            generator=generator,
            collate_fn=collate,
            **ahead,
        )
        self._loaders: dict[EpochKind, Any] = {}

    def loader(self, kind: EpochKind) -> Any:
        """The loader of such epochs: processes that stay time their batches, or never do, as they began."""
        if kind not in self._loaders:
            self._loaders[kind] = self._make_loader()
        return self._loaders[kind]

    def build(self) -> Any:
        """The job's network with new weights, where it is computed."""
        return self.computing.place(networks.build(self.job, self._module_folder))

    def load(self, batches: Iterator[Any]) -> Any:
        """The next batch, and the times of its parts."""
        batch = next(batches)
        if self.items.timed:
            self.loader_ns = parts_ns(batch[2])
        return batch

    def batches(self, kind: EpochKind) -> Iterator[Any]:
        """An epoch's batches: the loader's, single samples in smooth inference, or one batch again and again."""
        if self.job.smooth:
            return iter(self.items)
        return iter(self.loader(kind)) if self.job.loads else self._same_batch()

    def _same_batch(self) -> Iterator[Any]:
        job = self.job
        first = islice(self.sampler, job.train.batch_size)
        images, labels = self.to_device(collate([self.items[index] for index in first]))
        for step in range(job.steps):
            count = min(job.train.batch_size, job.samples_per_process - step * job.train.batch_size)
            yield images[:count], labels[:count], None

    def files_in_memory(self) -> float | None:
        """Which share of the files lies in the page cache, once they were dropped or read there, once for all ranks of
        a host.
        """
        if not self.job.loads or not isinstance(self.items, FileItems):
            return None
        cold_reads = self.job.data.read == "cold"
        if self.rank % self.job.devices.ranks_of_host == 0 and (cold_reads or not self._warmed):
            (cold.drop if cold_reads else cold.warm)(self.items.paths)
            self._warmed = True
        self.barrier()
        return cold.resident_ratio(self.items.paths)

    def to_device(self, batch: Any) -> tuple[Any, Any]:
        """A batch where the network is."""
        images, labels, *_ = batch
        return self.computing.place(images), self.computing.place(labels)

    def forward(self, images: Any) -> Any:
        """Scores of a batch, in the job's precision."""
        with self.computing.autocast():
            return self.network(images)

    def loss(self, scores: Any, labels: Any) -> Any:
        """Of a batch, in the job's precision."""
        with self.computing.autocast():
            return self.criterion(scores, labels)

    def noisy_batch(self, image: Any) -> Any:
        """A sample repeated to a batch, with Gaussian noise on it."""
        import torch

        images = image.unsqueeze(0).repeat(self.job.train.batch_size, *([1] * image.dim()))
        return images + NOISE * torch.randn_like(images)

    def passes(self, images: Any) -> Any:
        """The batch through the network as often as was asked for; the answers of the last pass."""
        for _ in range(self.job.train.passes):
            scores = self.forward(images)
        return scores

    def gather(self, scores: Any) -> None:
        """The answers of all ranks, in each of them."""
        self.trainer.gather(scores)

    def barrier(self) -> None:
        """Wait for the other ranks; nothing of one process."""
        if self.several:
            self.trainer.barrier()

    def backward(self, loss: Any) -> None:
        """The trainer's way back, of the loss as the job's precision scales it."""
        self.trainer.backward(self.computing.scaled(loss))

    def step(self, run: Run, batches: Iterator[Any]) -> Any:
        """The phases of a step in turn; the loss, None without one."""
        images, labels = run(self.to_device, run(self.load, batches))
        scores = run(self.forward, images)
        if self.job.train.benchmark != "train":
            return None
        loss = run(self.loss, scores, labels)
        run(self.backward, loss)
        run(self.computing.step, self.optimiser)
        return loss.detach()

    def smooth_step(self, run: Run, batches: Iterator[Any]) -> Any:
        """The same of smooth inference, which loads one sample."""
        image, *_ = run(next, batches)
        images = run(self.noisy_batch, run(self.computing.place, image))
        scores = run(self.passes, images)
        if self.several:
            run(self.gather, scores)

    def instrument(self, kind: EpochKind, waits: ThreadWaits) -> NoInstrument:
        """What times the phases of such an epoch."""
        benchmark, strategy = self.job.train.benchmark, self.job.devices.strategy
        if kind == "synchronised":
            loader = [f"{part}_ns" for part in PARTS] if self.job.loads else []
            columns = [*columns_of(benchmark, strategy), CLOCKS]
            if self.exchange:
                columns += [*self.exchange.columns, *self.exchange.statistics]
            extra = self.exchange.read if self.exchange else None
            return Synchronised(self.synchronise, waits, [*columns, *loader], extra)
        if kind == "events":
            return DeviceEvents(
                phases_of(benchmark, strategy), device_clock(self.device.type), self.synchronise
            )
        return JadeTimes(benchmark, strategy, self.barrier) if kind == "jade" else NoInstrument()

    def epoch(self, kind: EpochKind, round_: int, waits: ThreadWaits) -> Epoch:
        """One epoch, from the start of its loader's processes to its last step."""
        import torch

        job = self.job
        kinds = job.epoch_kinds
        if self.several:
            self.sampler.set_epoch(len(kinds) * round_ + kinds.index(kind))
        if self.transform is not None:
            self.transform.epoch = len(kinds) * round_ + kinds.index(kind)
        self.items.timed = kind == "synchronised" and job.loads
        self.loader_ns = []
        resident_ratio = self.files_in_memory()
        self.barrier()
        instrument, losses = self.instrument(kind, waits), []
        step_of = self.smooth_step if job.smooth else self.step
        started_ns = time.monotonic_ns()
        instrument.epoch_begins()
        batches = self.batches(kind)
        epoch = Epoch(kind=kind, round=round_, started_ns=started_ns, ready_ns=time.monotonic_ns())
        epoch.resident_ratio = resident_ratio
        if self.exchange:
            self.exchange.watch(kind == "synchronised")
        window = Window(epoch, self.synchronise, waits)
        waits.find()
        with nullcontext() if job.train.benchmark == "train" else torch.inference_mode():
            for step in range(job.steps):
                samples = min(job.samples_per_step, job.samples_per_process - step * job.samples_per_step)
                part = part_of(step, samples, job.train.warmup_steps, job.samples_per_step)
                window.next(part, samples)
                instrument.step_begins()
                loss = step_of(instrument.run, batches)
                if loss is not None:
                    losses.append(loss)
                instrument.step_ends(step, samples, part, self.loader_ns)
        window.close()
        self.barrier()
        epoch.ended_ns = time.monotonic_ns()
        instrument.epoch_ends()
        del batches  # its processes end
        epoch.losses = [value if math.isfinite(value) else None for value in map(float, losses)]
        epoch.columns = list(instrument.columns)
        epoch.rows = instrument.rows
        epoch.repeated = self.repeated()
        return epoch

    def repeated(self) -> int | None:
        """How many samples of the last epoch all ranks together took more than once; None where one batch, or single
        samples, are taken by design.
        """
        if not self.job.loads:
            return None
        times = times_taken(self.sampler.indices, self.job, len(self.items))
        if self.several:
            import torch

            times = self.trainer.total(torch.from_numpy(times).to(self.device)).cpu().numpy()
        return repeated(times)

    def agree(self, stops: bool) -> bool:
        """Whether any rank wants to stop: all of them do then, so that none waits for another for ever."""
        if not self.several:
            return stops
        import torch

        return bool(self.trainer.total(torch.tensor([float(stops)], device=self.device)).item())
