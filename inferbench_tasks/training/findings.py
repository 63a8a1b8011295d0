"""What is impossible about a training although each of its values is allowed: a generator for each aspect."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.submission.finding import Finding, unknown
from inferbench_tasks.training import expected_findings, networks
from inferbench_tasks.training.job import (
    DIGITS_SAMPLES,
    ENCODED,
    FASHION_SAMPLES,
    MOST_HOSTS,
    USUAL_SIDE,
    LoaderSpec,
    TrainingJob,
    TrainSpec,
)
from inferbench_tasks.training.networks import NETWORKS
from inferbench_tasks.training.trainers.base import TRAINERS, trainer_of

#: Processes of a training, those of all its devices.
MOST_RANKS: Final = 64
#: Of a data set that is made or read as one array.
MOST_ARRAY_BYTES: Final = 8 << 30
_MOST: Final = {"digits": DIGITS_SAMPLES, "fashion-mnist": FASHION_SAMPLES}


def findings(spec: TrainingJob) -> list[Finding]:
    """All of them; of a network or a trainer that nobody knows nothing but that."""
    if found := [*_network_name(spec), *_trainer_name(spec)]:
        return found
    return [finding for aspect in _ASPECTS for finding in aspect(spec)]


def _network_name(spec: TrainingJob) -> Iterator[Finding]:
    model = spec.model
    if model.kind == "file":
        if model.module is None:
            yield Finding(
                ("model.module", "model.kind"), "kind: file needs module, the Python file of your network"
            )
        if model.name in NETWORKS:
            message = f"{model.name} is a network of ours; give yours a name of its own"
            yield Finding(("model.name", "model.kind"), message)
        return
    for name, usual in (("module", None), ("factory", "build"), ("channels", 3)):
        if getattr(model, name) != usual:
            yield Finding(
                (f"model.{name}", "model.kind"),
                f"{name} is of your own module: give kind: file, or leave it out",
            )
    if model.name not in NETWORKS:
        yield Finding(("model.name",), unknown(NETWORKS, spec.model.name))


def _trainer_name(spec: TrainingJob) -> Iterator[Finding]:
    if spec.train.trainer not in TRAINERS:
        yield Finding(("train.trainer",), unknown(TRAINERS, spec.train.trainer))


def _trainer(spec: TrainingJob) -> Iterator[Finding]:
    for name, why in trainer_of(spec).problems(spec):
        yield Finding((name, "train.trainer"), why)


def _network(spec: TrainingJob) -> Iterator[Finding]:
    model, side, network = spec.model, spec.data.image_size, networks.of(spec)
    for name, why in network.problems(model.arguments):
        yield Finding((f"model.arguments.{name}", "model.name"), f"{model.name}: {name} {why}")
    if network.side not in (None, side):
        message = f"{model.name} takes images of {network.side} x {network.side}; got {side}"
        yield Finding(("data.image_size", "model.name"), message)
    if not network.channels and side != USUAL_SIDE:
        sizes = ", ".join(network.arguments) or "fixed"
        message = f"{model.name} takes no images: leave image_size out; its sizes are {sizes}"
        yield Finding(("data.image_size", "model.name"), message)


def _devices(spec: TrainingJob) -> Iterator[Finding]:
    devices = spec.devices
    if devices.strategy == "single" and devices.ranks > 1:
        field = "devices.processes" if devices.processes > 1 else "devices.count"
        message = f"{devices.ranks} processes need strategy: ddp; single is one process"
        yield Finding((field, "devices.strategy"), message)
    if devices.backend == "nccl" and devices.kind.kind == "cpu":
        message = "nccl exchanges between GPUs: give devices.kind: gpu, or backend: gloo"
        yield Finding(("devices.backend", "devices.kind"), message)
    if devices.backend is not None and devices.strategy == "single":
        message = f"one process exchanges nothing: leave {devices.backend} out, or give strategy: ddp"
        yield Finding(("devices.backend", "devices.strategy"), message)
    if devices.backend == "nccl" and devices.kind.kind == "gpu" and devices.processes > 1:
        message = "nccl has one process on each GPU: give devices.processes: 1, or backend: gloo"
        yield Finding(("devices.processes", "devices.backend"), message)
    if devices.kind.kind == "cpu" and devices.kind.detail:
        yield Finding(("devices.kind",), f"must be {DeviceSpec.FORM}; got {str(devices.kind)!r}")
    if devices.cores is not None and devices.threads > devices.cores:
        message = (
            f"{devices.threads} threads on {devices.cores} core(s) take turns: give as many cores as threads"
        )
        yield Finding(("devices.cores", "devices.threads"), message)
    if devices.ranks > MOST_RANKS:
        message = f"{devices.ranks} processes on {devices.count} devices; at most {MOST_RANKS} are possible"
        yield Finding(("devices.processes", "devices.count"), message)


def _hosts(spec: TrainingJob) -> Iterator[Finding]:
    """What of several hosts is there: two, a CPU of each, by torchrun, on data that is made here."""
    devices = spec.devices
    if devices.hosts > MOST_HOSTS:
        message = (
            f"a training runs on one host or on {MOST_HOSTS}; got {devices.hosts}. Give hosts: {MOST_HOSTS} with "
            f"count: {MOST_HOSTS}, a device of each, or leave hosts out for up to {MOST_RANKS} devices of one host"
        )
        yield Finding(("devices.hosts",), message)
    if spec.apart is None:
        return
    if devices.count != MOST_HOSTS:
        message = (
            f"{MOST_HOSTS} hosts have one device each: give count: {MOST_HOSTS}; got {devices.count}. For more "
            "ranks give devices.processes, which are on each device"
        )
        yield Finding(("devices.count", "devices.hosts"), message)
    if devices.kind.kind != "cpu":
        message = f"devices of two hosts are CPUs, which exchange by gloo; got {devices.kind}"
        yield Finding(("devices.kind", "devices.hosts"), message)
    if not trainer_of(spec).over_hosts:
        message = f"{spec.train.trainer} starts its processes on one host; torchrun does on two"
        yield Finding(("train.trainer", "devices.hosts"), message)
    if spec.foreign:
        field = "model.kind" if spec.model.kind == "file" else "data.kind"
        message = "modules and images of your own are taken on one host only: leave hosts out"
        yield Finding((field, "devices.hosts"), message)


def _data(spec: TrainingJob) -> Iterator[Finding]:
    data, channels = spec.data, networks.of(spec).channels
    most = _MOST.get(data.kind)
    if most is not None and data.count > most:
        message = f"{data.kind} has {most:,} samples to train on; got {data.count:,}"
        yield Finding(("data.samples", "data.kind"), message)
    if data.kind == "folder" and (data.path is None or data.samples is None):
        field = "data.path" if data.path is None else "data.samples"
        message = (
            "folder needs path, whose folders are the classes, and samples, how many of its images are taken"
        )
        yield Finding((field, "data.kind"), message)
    if data.path is not None and data.kind not in ("fashion-mnist", "folder"):
        yield Finding(("data.path", "data.kind"), f"{data.kind} is made here and has no path")
    if data.kind in ENCODED and channels != 3:
        takes = channels or "no images"
        message = f"{data.kind} files have three channels; {spec.model.name} takes {takes}"
        yield Finding(("data.kind", "model.name"), message)
    files = "data.kind: jpeg or folder with data.where: disk"
    if data.kind not in ENCODED or data.where != "disk":
        if data.read == "cold":
            message = f"cold reads are of files: {files}"
            yield Finding(("data.read", "data.kind", "data.where"), message)
        if data.augment:
            message = f"augment changes decoded files each time: {files}"
            yield Finding(("data.augment", "data.kind", "data.where"), message)


def _size(spec: TrainingJob) -> Iterator[Finding]:
    if spec.data.kind in ENCODED:
        return
    shape = networks.takes(spec)
    size = spec.data.count * math.prod(shape) * (8 if networks.of(spec).tokens else 4)
    if size > MOST_ARRAY_BYTES:
        each = " x ".join(map(str, shape))
        message = (
            f"{spec.data.count:,} samples of {each} have {size:,} bytes, allowed are {MOST_ARRAY_BYTES:,}; "
            "give fewer samples, or a smaller image_size"
        )
        yield Finding(("data.samples", "data.image_size", "data.kind"), message)


def _smooth(spec: TrainingJob) -> Iterator[Finding]:
    loader, train = spec.loader, spec.train
    if train.passes > 1 and not spec.smooth:
        message = "passes are of smooth_inference; the other benchmarks go through the network once"
        yield Finding(("train.passes", "train.benchmark"), message)
    if not spec.smooth:
        return
    if spec.data.where == "device":
        message = "smooth_inference loads each sample; a batch on the device leaves nothing to load"
        yield Finding(("data.where", "train.benchmark"), message)
    if loader.workers or loader.shuffle:
        message = (
            "smooth_inference goes through the data itself, without a loader: leave out workers and shuffle"
        )
        field = "loader.workers" if loader.workers else "loader.shuffle"
        yield Finding((field, "train.benchmark"), message)
    if networks.of(spec).tokens is not None:
        message = (
            f"smooth_inference puts noise on its samples; {spec.model.name} takes tokens, which have none"
        )
        yield Finding(("train.benchmark", "model.name"), message)


def _backward(spec: TrainingJob) -> Iterator[Finding]:
    """Settings of the way back, of benchmarks that go forward only."""
    if spec.train.benchmark == "train":
        return
    for name in ("learning_rate", "momentum", "optimiser"):
        if getattr(spec.train, name) != TrainSpec.model_fields[name].default:
            message = f"{spec.train.benchmark} goes forward only: {name} is of benchmark: train; leave it out"
            yield Finding((f"train.{name}", "train.benchmark"), message)


def _computing(spec: TrainingJob) -> Iterator[Finding]:
    train, network = spec.train, networks.of(spec)
    if spec.devices.kind.kind == "cpu" and train.precision in ("tf32", "fp16"):
        message = f"{train.precision} is of GPUs (devices.kind: gpu); a CPU computes in fp32 or bf16"
        yield Finding(("train.precision", "devices.kind"), message)
    if train.channels_last and not network.channels:
        message = f"channels_last is of images; {spec.model.name} takes none"
        yield Finding(("train.channels_last", "model.name"), message)
    if train.flush_denormals and spec.devices.kind.kind != "cpu":
        message = "flush_denormals is of CPUs; a GPU is as fast with such numbers: leave it out"
        yield Finding(("train.flush_denormals", "devices.kind"), message)
    if train.compile and not train.warmup_steps:
        message = "torch.compile compiles in the first step: give warmup_steps, so that it is no measured one"
        yield Finding(("train.warmup_steps", "train.compile"), message)
    if train.optimiser != "sgd" and train.momentum != TrainSpec.model_fields["momentum"].default:
        message = f"momentum is of sgd; {train.optimiser} has moments of its own: leave it out"
        yield Finding(("train.momentum", "train.optimiser"), message)


def _loader(spec: TrainingJob) -> Iterator[Finding]:
    loader = spec.loader
    for name in ("persistent", "context"):
        if getattr(loader, name) != LoaderSpec.model_fields[name].default and not loader.workers:
            message = f"{name} is of loader processes: give loader.workers, or leave it out"
            yield Finding((f"loader.{name}", "loader.workers"), message)
    if loader.persistent and spec.data.augment:
        message = "processes that stay crop as in their first epoch: leave out persistent, or data.augment"
        yield Finding(("loader.persistent", "data.augment"), message)
    if loader.pin_memory and (spec.devices.kind.kind == "cpu" or not spec.loads):
        message = (
            "pin_memory is of batches that a loader makes for a GPU: give devices.kind: gpu, or leave it out"
        )
        yield Finding(("loader.pin_memory", "devices.kind"), message)
    if spec.loader.prefetch is not None and not spec.loader.workers:
        message = "prefetch is of loader processes: give loader.workers, or leave it out"
        yield Finding(("loader.prefetch", "loader.workers"), message)


def _timing(spec: TrainingJob) -> Iterator[Finding]:
    if "synchronised" not in spec.timing or len(set(spec.timing)) < len(spec.timing):
        message = (
            "timing names each timing once, and synchronised among them: it is what the others are set beside"
        )
        yield Finding(("timing",), message)


def _batch(spec: TrainingJob) -> Iterator[Finding]:
    batch, each = spec.train.batch_size, spec.samples_per_process
    if spec.smooth:
        return
    if batch > each:
        message = (
            f"a batch of {batch:,} in each of {spec.devices.ranks} process(es) is larger than the "
            f"{each:,} samples that each has of {spec.data.count:,}"
        )
        yield Finding(("train.batch_size", "data.samples"), message)
        return
    last = each % batch if spec.steps * batch > each else 0
    if (
        spec.train.benchmark == "train"
        and spec.data.image_size <= networks.of(spec).halved
        and 1 in (batch, last)
    ):
        which = "a batch" if batch == 1 else f"the last batch, of {each:,} samples in batches of {batch:,},"
        message = (
            f"{which} has one sample, of which {spec.model.name} is left with one value of a channel at "
            f"{spec.data.image_size} pixels: nothing to normalise by; take another batch_size, or images of more "
            f"than {networks.of(spec).halved}"
        )
        yield Finding(("train.batch_size", "data.image_size"), message)


_ASPECTS: Final[tuple[Callable[[TrainingJob], Iterator[Finding]], ...]] = (
    _network, _trainer, _devices, _hosts, _data, _size, _smooth, _backward, _computing, _loader, _timing, _batch,
    expected_findings.findings,
)  # fmt: skip
