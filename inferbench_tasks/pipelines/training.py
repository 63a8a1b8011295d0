"""``kind: training``: epochs of a network, phase by phase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from inferbench_tasks.pipelines.base import PARAMETERS, Parameter, Pipeline
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.training.job import DIGITS_SAMPLES, TrainingJob
from inferbench_tasks.training.networks import CHANNELS, FASHION_SIDE
from inferbench_tasks.training.statistics import LEAST_STEPS

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.sections import Section
    from inferbench_tasks.contracts.verdict import Verdict
    from inferbench_tasks.perfdb.documents import RunDocument
    from inferbench_tasks.perfdb.store import PerfDB
    from inferbench_tasks.training.result import TrainingResult

#: What the start of the processes, imports and the collection take, seconds: the first guess.
AROUND_S = 20.0
#: Processes of a training, those of all its devices.
MOST_RANKS = 64


class TrainingPipeline(Pipeline[TrainingJob]):
    """The benchmark of training and inference epochs."""

    kind = "training"
    job = TrainingJob
    stages = (
        "inferbench_tasks.training.stages.generate",
        "inferbench_tasks.training.stages.train",
        "inferbench_tasks.training.stages.collect",
        "inferbench_tasks.training.stages.release",
        "inferbench_tasks.training.stages.analyze",
    )
    parameters = {
        **PARAMETERS,
        "seed": Parameter(
            "train.seed", {"type": "integer", "minimum": 0, "description": "Of weights, noise and order."}
        ),
    }

    def findings(self, spec: TrainingJob, abilities: Abilities) -> Sequence[Finding]:
        """What does not go together."""
        data, devices, loader, train = spec.data, spec.devices, spec.loader, spec.train
        findings = []
        if devices.strategy == "single" and devices.ranks > 1:
            field = "devices.processes" if devices.processes > 1 else "devices.count"
            message = f"{devices.ranks} processes need strategy: ddp; single is one process"
            findings.append(Finding((field, "devices.strategy"), message))
        if devices.ranks > MOST_RANKS:
            message = (
                f"{devices.ranks} processes on {devices.count} devices; at most {MOST_RANKS} are possible"
            )
            findings.append(Finding(("devices.processes", "devices.count"), message))
        if data.kind == "digits" and data.count > DIGITS_SAMPLES:
            message = f"digits has {DIGITS_SAMPLES:,} samples to train on; got {data.count:,}"
            findings.append(Finding(("data.samples", "data.kind"), message))
        if spec.model.name == "fashion-cnn" and data.image_size != FASHION_SIDE:
            message = f"fashion-cnn takes images of {FASHION_SIDE} x {FASHION_SIDE}; got {data.image_size}"
            findings.append(Finding(("data.image_size", "model.name"), message))
        if data.kind == "jpeg" and CHANNELS[spec.model.name] != 3:
            message = f"JPEG files have three channels; {spec.model.name} takes {CHANNELS[spec.model.name]}"
            findings.append(Finding(("data.kind", "model.name"), message))
        if data.read == "cold" and (data.kind != "jpeg" or data.where != "disk"):
            message = "cold reads are of files: data.kind: jpeg with data.where: disk"
            findings.append(Finding(("data.read", "data.kind", "data.where"), message))
        if data.augment and (data.kind != "jpeg" or data.where != "disk"):
            message = "augment changes decoded files each time: data.kind: jpeg with data.where: disk"
            findings.append(Finding(("data.augment", "data.kind", "data.where"), message))
        if spec.smooth and data.where == "device":
            message = "smooth_inference loads each sample; a batch on the device leaves nothing to load"
            findings.append(Finding(("data.where", "train.benchmark"), message))
        if loader.prefetch is not None and not loader.workers:
            message = "prefetch is of loader processes: give loader.workers, or leave it out"
            findings.append(Finding(("loader.prefetch", "loader.workers"), message))
        if "synchronised" not in spec.timing or len(set(spec.timing)) < len(spec.timing):
            message = "timing names each timing once, and synchronised among them: it is what the others are set beside"
            findings.append(Finding(("timing",), message))
        if train.passes > 1 and not spec.smooth:
            message = "passes are of smooth_inference; the other benchmarks go through the network once"
            findings.append(Finding(("train.passes", "train.benchmark"), message))
        if spec.smooth and (loader.workers or loader.shuffle):
            message = "smooth_inference goes through the data itself, without a loader: leave out workers and shuffle"
            field = "loader.workers" if loader.workers else "loader.shuffle"
            findings.append(Finding((field, "train.benchmark"), message))
        if not spec.smooth and train.batch_size > spec.samples_per_process:
            message = (
                f"a batch of {train.batch_size:,} in each of {devices.ranks} process(es) is larger than the "
                f"{spec.samples_per_process:,} samples that each has of {data.count:,}"
            )
            findings.append(Finding(("train.batch_size", "data.samples"), message))
        return findings

    def warnings(self, spec: TrainingJob) -> dict[str, str]:
        """Too few steps for a figure."""
        if spec.measured_steps >= LEAST_STEPS:
            return {}
        message = (
            f"{spec.measured_steps} measured steps in {spec.train.rounds} rounds are too few for a figure, which "
            f"needs {LEAST_STEPS}; raise data.samples or train.rounds, or lower train.batch_size or warmup_steps"
        )
        return {"steps": message}

    def expected_s(self, spec: TrainingJob) -> float:
        """A guess: 20 ms for each step, and what is around them."""
        return AROUND_S + 0.02 * len(spec.epoch_kinds) * spec.train.rounds * spec.steps

    def row(self, spec: TrainingJob) -> dict[str, Any]:
        """What is trained, by how many."""
        return {
            "benchmark": spec.train.benchmark,
            "model": spec.model.name,
            "data": spec.data.kind,
            "processes": spec.devices.ranks,
            "workers": spec.loader.workers,
        }

    def facts(self, submission: Any) -> dict[str, str]:
        """The network, the data and the processes."""
        return {
            "model": f"`{submission.model.name}`",
            "data": f"`{submission.data.kind}`",
            "processes": f"{submission.devices.ranks} (`{submission.devices.strategy}`)",
        }

    def result(self) -> type[TrainingResult]:
        """Figures of the phases, with a certificate."""
        from inferbench_tasks.training.result import TrainingResult

        return TrainingResult

    def without_figures(self, run: RunDocument, verdict: Verdict) -> TrainingResult:
        """What was asked for, and why there are no figures."""
        from inferbench_tasks.training.result import without_figures

        return without_figures(run, verdict)

    def figures(self, result: Any) -> dict[str, Any]:
        """Samples/s without instruments, the step, and its phases, ms."""
        from inferbench_tasks.training.listing import figures

        return figures(result)

    def sections(self, db: PerfDB, run_ids: Sequence[str]) -> Sequence[Section]:
        """Phases over steps and cores, loading, and BenchmarkJade's columns beside the true ones."""
        from inferbench_tasks.training.report.compose import sections_of

        return sections_of(db, run_ids)


TRAINING = TrainingPipeline()
