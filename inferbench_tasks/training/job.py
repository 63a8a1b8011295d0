"""What a submission of ``kind: training`` may say.

Only what a run really does stands here: anything else is an unknown key.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inferbench_tasks.contracts.spec import Count, Spec
from inferbench_tasks.submission.base import JobBase

#: The samples of scikit-learn's digits that are there to train on: 1,797 less the 450 that are held out.
DIGITS_SAMPLES = 1347


class ModelSpec(Spec):
    """What is trained, from random weights."""

    name: Literal["fashion-cnn", "resnet-18", "resnet-50"] = "fashion-cnn"
    """``fashion-cnn`` takes grey images of 28 x 28, the ResNets coloured ones of ``data.image_size``."""


class DataSpec(Spec):
    """What is loaded: items of a file in the page cache, one by one."""

    kind: Literal["digits", "dummy"]
    """``digits``: scikit-learn's, 1,347 of them, resized; ``dummy``: seeded noise with random labels."""
    samples: Annotated[int, Field(ge=2, le=100_000)] | None = None
    """The first so many; by default all digits, or 1,024 dummies."""
    image_size: Annotated[int, Field(ge=8, le=512)] = 28
    """Side of the square images, pixels."""

    @property
    def count(self) -> int:
        """How many samples the data set has."""
        return self.samples or (DIGITS_SAMPLES if self.kind == "digits" else 1024)


class LoaderSpec(Spec):
    """torch's DataLoader, one in each process; its processes start anew with each epoch."""

    workers: Annotated[int, Field(ge=0, le=16)] = 0
    """Loader processes of each training process; 0: it loads by itself."""
    prefetch: Annotated[int, Field(ge=1, le=64)] | None = None
    """Batches that each loader process prepares ahead; 2 by default."""
    shuffle: bool = False
    """Another order in each epoch, by ``train.seed``."""


class TrainSpec(Spec):
    """What an epoch does."""

    benchmark: Literal["train", "inference"] = "train"
    """``train``: with gradients and optimiser (cross entropy, SGD); ``inference``: forward passes only."""
    batch_size: Annotated[int, Field(ge=1, le=4096)] = 32
    """Samples per step of each process."""
    max_steps: Count | None = None
    """Steps of an epoch at most; by default all that the data gives."""
    warmup_steps: Annotated[int, Field(ge=0, le=10_000)] = 3
    """The first steps of every epoch, reported apart."""
    rounds: Annotated[int, Field(ge=3, le=100)] = 3
    """Each is an epoch with instruments and one without, in turns first."""
    learning_rate: Annotated[float, Field(gt=0, le=1e30)] = 0.01
    """Of SGD; of ``train`` only."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Of SGD; of ``train`` only."""
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """Of weights, noise and order."""


class DevicesSpec(Spec):
    """Who trains: processes on the cores of one leased CPU, with gloo between them."""

    processes: Annotated[int, Field(ge=1, le=64)] = 1
    """Ranks, started by torchrun."""
    strategy: Literal["single", "ddp"] = "single"
    """``single``: one process without any exchange; ``ddp``: DistributedDataParallel and DistributedSampler."""
    threads: Annotated[int, Field(ge=1, le=256)] = 1
    """torch's threads in each process."""


class TrainingJob(JobBase):
    """How long each phase of a training step takes here."""

    kind: Literal["training"]
    model: ModelSpec = ModelSpec()
    """The network."""
    data: DataSpec
    """The data set."""
    loader: LoaderSpec = LoaderSpec()
    """Who loads it."""
    train: TrainSpec = TrainSpec()
    """The epochs."""
    devices: DevicesSpec = DevicesSpec()
    """The processes."""

    @property
    def samples_per_process(self) -> int:
        """What a process sees in an epoch: DistributedSampler repeats samples until all have as many."""
        return -(-self.data.count // self.devices.processes)

    @property
    def steps(self) -> int:
        """The steps of an epoch, the last, smaller one with them."""
        return min(-(-self.samples_per_process // self.train.batch_size), self.train.max_steps or 1_000_000)

    @property
    def measured_steps(self) -> int:
        """The whole steps after the warm-up, over all rounds."""
        whole = min(self.steps, self.samples_per_process // self.train.batch_size)
        return max(0, whole - self.train.warmup_steps) * self.train.rounds
