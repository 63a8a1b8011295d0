"""What a submission of ``kind: training`` may say.

Only what a run really does stands here: anything else is an unknown key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from inferbench_tasks.contracts.device import CPU, DeviceSpec
from inferbench_tasks.contracts.spec import Count, RelativePath, Slug, Spec
from inferbench_tasks.submission.base import JobBase, NamedFile
from inferbench_tasks.submission.model import FunctionName
from inferbench_tasks.training.expected_spec import ExpectedSpec

Timing = Literal["synchronised", "events", "jade"]
EpochKind = Literal["synchronised", "events", "jade", "bare"]
#: The samples of scikit-learn's digits that are there to train on: 1,797 less the 450 that are held out.
DIGITS_SAMPLES = 1347
FASHION_SAMPLES = 60_000
USUAL_SAMPLES = {
    "digits": DIGITS_SAMPLES,
    "fashion-mnist": FASHION_SAMPLES,
    "dummy": 1024,
    "jpeg": 256,
    "folder": 2,
}
#: Data that lies in files of its own, one an image, and is decoded each time.
ENCODED: Final = ("jpeg", "folder")
USUAL_SIDE = 28
#: Hosts of a training: a lease is of devices of one, or of one and one device of another.
MOST_HOSTS: Final = 2


class ModelSpec(Spec):
    """What is trained, from random weights."""

    kind: Literal["network", "file"] = "network"
    """``network``: one of ``training.networks``; ``file``: your own module, which is run in a sandbox."""
    name: Slug = "fashion-cnn"
    """The network's; of ``file`` what you call it."""
    module: RelativePath | None = None
    """Of ``file``: the Python file whose ``factory`` builds the network."""
    factory: FunctionName = "build"
    """The function of ``module`` that is called, without arguments, and returns a ``torch.nn.Module``: images ``n x
    channels x image_size x image_size`` float32 -> ``n x classes`` scores."""
    channels: Literal[1, 3] = 3
    """Of ``file``: those of the images that it takes."""
    arguments: Annotated[dict[Slug, int], Field(max_length=20)] = {}
    """Sizes that it is built by, where they differ from its usual ones."""

    @property
    def label(self) -> str:
        """Its name and what differs from its usual sizes: one label, one network."""
        sizes = ", ".join(f"{name}={value}" for name, value in sorted(self.arguments.items()))
        return f"{self.name}({sizes})" if sizes else self.name


class DataSpec(Spec):
    """What is loaded, item by item, and where it lies."""

    kind: Literal["digits", "fashion-mnist", "dummy", "jpeg", "folder"]
    """``digits``: scikit-learn's, 1,347 of them, resized; ``fashion-mnist``: 60,000 images of 28 x 28, resized;
    ``dummy``: seeded noise with random labels; ``jpeg``: seeded JPEG files of 500 x 375 pixels and about 110 KB in
    folders by class, decoded, resized, cropped and normalised; ``folder``: your own images, one folder a class."""
    path: RelativePath | None = None
    """Of ``fashion-mnist``: the folder with its files, beside the submission; by default where Debian's package
    ``dataset-fashion-mnist`` puts them. Of ``folder``: the folder whose folders are the classes."""
    samples: Annotated[int, Field(ge=2, le=100_000)] | None = None
    """The first so many, of ``folder`` by chance, which needs it; by default all digits or clothes, 1,024 dummies or
    256 JPEG files."""
    where: Literal["device", "memory", "disk"] = "disk"
    """``disk``: files, of which each item is read and made; ``memory``: all items are made before, of which batches are
    put together; ``device``: one batch lies on the device and is taken again and again: nothing is loaded or copied."""
    read: Literal["warm", "cold"] = "warm"
    """``cold``: the files are dropped from the page cache before each epoch; of ``jpeg`` and ``folder`` on the disk."""
    augment: bool = False
    """Crop and mirror at random, by ``train.seed``, instead of cutting the middle out; of files."""
    image_size: Annotated[int, Field(ge=8, le=512)] = USUAL_SIDE
    """Side of the square images, pixels; of networks that take images."""

    @property
    def count(self) -> int:
        """How many samples the data set has."""
        return self.samples or USUAL_SAMPLES[self.kind]


class LoaderSpec(Spec):
    """torch's DataLoader, one in each process; its processes start anew with each epoch, unless they are to stay."""

    workers: Annotated[int, Field(ge=0, le=16)] = 0
    """Loader processes of each training process; 0: it loads by itself."""
    prefetch: Annotated[int, Field(ge=1, le=64)] | None = None
    """Batches that each loader process prepares ahead; 2 by default."""
    shuffle: bool = False
    """Another order in each epoch, by ``train.seed``."""
    pin_memory: bool = False
    """Batches in page-locked memory, from which a GPU copies while it computes; of GPUs only."""
    persistent: bool = False
    """The loader's processes stay from epoch to epoch. Those of an epoch of another timing stay their own."""
    context: Literal["fork", "forkserver", "spawn"] = "fork"
    """How the loader's processes are started."""


#: Of a loader, what only its processes have.
OF_PROCESSES: Final = ("prefetch", "persistent", "context")


class TrainSpec(Spec):
    """What an epoch does."""

    trainer: Slug = "torchrun"
    """The engine: ``torchrun``, with DistributedDataParallel, or a name that an installed package brings."""
    benchmark: Literal["train", "inference", "smooth_inference"] = "train"
    """``train``: with gradients and optimiser (cross entropy); ``inference``: forward passes only;
    ``smooth_inference``: one sample a step, without a loader, repeated to a batch with noise of 0.25 on it."""
    batch_size: Annotated[int, Field(ge=1, le=4096)] = 32
    """Samples per step of each process."""
    max_steps: Count | None = None
    """Steps of an epoch at most; by default all that the data gives."""
    warmup_steps: Annotated[int, Field(ge=0, le=10_000)] = 3
    """The first steps of every epoch, reported apart."""
    rounds: Annotated[int, Field(ge=3, le=100)] = 3
    """Each is an epoch of every timing and one without instruments, in turns first."""
    precision: Literal["fp32", "tf32", "bf16", "fp16"] = "fp32"
    """``fp32``: every product in full; ``tf32``: products of GPUs with 10 bits of mantissa; ``bf16``, ``fp16``: torch's
    autocast over forward and loss, with the loss scaled for fp16. Weights and optimiser are fp32 in all of them."""
    optimiser: Literal["sgd", "adam", "adamw"] = "sgd"
    """torch's; of ``train`` only."""
    compile: bool = False
    """The network by torch.compile; it compiles in the first step, which is of the warm-up."""
    channels_last: bool = False
    """Images and weights with the channels as the innermost axis; of networks that take images."""
    flush_denormals: bool = False
    """A CPU takes numbers below the smallest normal float (1.2e-38) for 0: it computes with them slowly, and momentum
    of weights whose gradients are 0 comes to them."""
    learning_rate: Annotated[float, Field(gt=0, le=1e30)] = 0.01
    """Of the optimiser; of ``train`` only."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Of SGD."""
    passes: Annotated[int, Field(ge=1, le=1000)] = 1
    """Forward passes for each sample; of ``smooth_inference`` only."""
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """Of weights, noise and order."""


class DevicesSpec(Spec):
    """Who trains: processes on leased devices of one host or two, and how they exchange."""

    count: Annotated[int, Field(ge=1, le=64)] = 1
    """Devices that are held at once. ``inferbench run`` leases none: its processes share the machine."""
    hosts: Annotated[int, Field(ge=1, le=64)] = 1
    """One, whose devices they are; or two, of each of which it is one: their processes meet over the network."""
    processes: Annotated[int, Field(ge=1, le=64)] = 1
    """Ranks on each device."""
    strategy: Literal["single", "ddp"] = "single"
    """``single``: one process without any exchange; ``ddp``: gradients are exchanged, by torchrun's
    trainer with DistributedDataParallel and DistributedSampler."""
    threads: Annotated[int, Field(ge=1, le=256)] = 1
    """torch's threads in each process."""
    kind: DeviceSpec = CPU
    """``cpu``, ``gpu`` (any), or ``gpu:<type>``."""
    backend: Literal["gloo", "nccl"] | None = None
    """Who exchanges gradients: by default gloo between CPUs, nccl between GPUs."""
    cores: Annotated[int, Field(ge=1, le=1024)] | None = None
    """So many cores for each process, of its own; by default they share those of the worker or the device."""

    @property
    def ranks(self) -> int:
        """All processes, those of the first device first."""
        return self.count * self.processes

    @property
    def ranks_of_host(self) -> int:
        """The processes on each host; those of the first host are the first."""
        return max(1, self.ranks // self.hosts)

    @property
    def exchange(self) -> str | None:
        """The backend of the process group; None of one process."""
        if self.strategy == "single":
            return None
        return self.backend or ("nccl" if self.kind.kind == "gpu" else "gloo")


def has_loader(benchmark: str | None, where: str | None) -> bool:
    """Whether a loader makes the batches: none does in smooth inference, or of a batch that lies on the device."""
    return benchmark != "smooth_inference" and where != "device"


class TrainingJob(JobBase):
    """How long each phase of a training step takes here."""

    newer: ClassVar[dict[str, Any]] = {
        "timing": ["synchronised"],
        "train.passes": 1,
        "data.where": "disk",
        "data.read": "warm",
        "data.augment": False,
        "devices.count": 1,
        "devices.hosts": 1,
        "model.kind": "network",
        "model.arguments": {},
        "model.module": None,
        "model.factory": "build",
        "model.channels": 3,
        "data.path": None,
        "loader.pin_memory": False,
        "loader.persistent": False,
        "loader.context": "fork",
        "train.trainer": "torchrun",
        "train.precision": "fp32",
        "train.optimiser": "sgd",
        "train.compile": False,
        "train.channels_last": False,
        "train.flush_denormals": False,
        "devices.kind": "cpu",
        "devices.backend": None,
        "devices.cores": None,
    }
    devices_field: ClassVar[str] = "devices.count"
    elsewhere_field: ClassVar[str] = "devices.hosts"

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
    timing: Annotated[tuple[Timing, ...], Field(min_length=1, max_length=3, strict=False)] = ("synchronised",)
    """Instruments, each in epochs of its own. ``synchronised`` is always among them; ``events``: stamps on the
    device's own stream, which wait for nothing, and the host's beside them; ``jade``: BenchmarkJade's."""

    expected: ExpectedSpec | None = None
    """The speed that should be. It measures nothing, so that it is no part of the job's digest."""

    def named_files(self) -> Iterator[NamedFile]:
        """The user's module, which counts with its content, and the data's folder."""
        if self.model.module is not None:
            yield NamedFile("model.module", self.model.module, counts=True)
        if self.data.path is not None:
            yield NamedFile("data.path", self.data.path, may_be_folder=True)

    def needed_device(self) -> DeviceSpec:
        """What each rank computes on."""
        return self.devices.kind

    def needed_devices(self) -> int:
        """All of its own host that it trains on, at once."""
        return max(1, self.devices.count // self.devices.hosts)

    def stages_elsewhere(self) -> tuple[str, ...]:
        """On two hosts: the stage that trains; on the job's own host stands what ``meet`` started."""
        return () if self.apart is None else ("train",)

    def needed_elsewhere(self) -> DeviceSpec:
        """As its own."""
        return self.devices.kind

    @property
    def apart(self) -> DevicesSpec | None:
        """Its devices, where they are of two hosts; those jobs have stage ``meet``."""
        return self.devices if self.devices.hosts == MOST_HOSTS else None

    def needed_cores(self) -> tuple[int, str]:
        """Those that its processes on a device have of their own."""
        return self.devices.processes * (self.devices.cores or 0), "devices.cores"

    @property
    def foreign(self) -> bool:
        """Whether code or files of the user's are opened, which is left to a sandbox."""
        return self.model.kind == "file" or self.data.kind == "folder"

    @property
    def epoch_kinds(self) -> tuple[EpochKind, ...]:
        """The epochs of a round: each timing's, and the one without instruments."""
        return (*self.timing, "bare")

    @property
    def loads(self) -> bool:
        """Whether a loader makes the batches, and times their parts."""
        return has_loader(self.train.benchmark, self.data.where)

    @property
    def workers(self) -> int:
        """Loader processes of each rank that there are: none where no loader makes the batches."""
        return self.loader.workers if self.loads else 0

    @property
    def smooth(self) -> bool:
        """Whether each step makes its batch of one sample."""
        return self.train.benchmark == "smooth_inference"

    @property
    def samples_per_process(self) -> int:
        """What a process sees in an epoch: DistributedSampler repeats samples until all have as many.

        In smooth inference every process goes through all of the data, and each sample counts as often as it is
        passed through the network.
        """
        if self.smooth:
            return self.data.count * self.samples_per_step
        return -(-self.data.count // self.devices.ranks)

    @property
    def samples_per_step(self) -> int:
        """Samples that go through the network in a whole step of a process."""
        return self.train.batch_size * (self.train.passes if self.smooth else 1)

    @property
    def steps(self) -> int:
        """The steps of an epoch, the last, smaller one with them."""
        return min(-(-self.samples_per_process // self.samples_per_step), self.train.max_steps or 1_000_000)

    @property
    def measured_steps(self) -> int:
        """The whole steps after the warm-up, over all rounds."""
        whole = min(self.steps, self.samples_per_process // self.samples_per_step)
        return max(0, whole - self.train.warmup_steps) * self.train.rounds
