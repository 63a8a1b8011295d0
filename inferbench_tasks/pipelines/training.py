"""``kind: training``: epochs of a network, phase by phase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from inferbench_tasks.pipelines.base import PARAMETERS, Parameter, Pipeline
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.training.job import DIGITS_SAMPLES, TrainingJob
from inferbench_tasks.training.networks import FASHION_SIDE
from inferbench_tasks.training.statistics import LEAST_STEPS

if TYPE_CHECKING:
    from inferbench_tasks.training.result import TrainingResult

#: What the start of the processes, imports and the collection take, seconds: the first guess.
AROUND_S = 20.0


class TrainingPipeline(Pipeline[TrainingJob]):
    """The benchmark of training and inference epochs."""

    kind = "training"
    job = TrainingJob
    stages = (
        "inferbench_tasks.training.stages.generate",
        "inferbench_tasks.training.stages.train",
        "inferbench_tasks.training.stages.collect",
        "inferbench_tasks.training.stages.release",
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
        if devices.strategy == "single" and devices.processes > 1:
            message = f"{devices.processes} processes need strategy: ddp; single is one process"
            findings.append(Finding(("devices.processes", "devices.strategy"), message))
        if data.kind == "digits" and data.count > DIGITS_SAMPLES:
            message = f"digits has {DIGITS_SAMPLES:,} samples to train on; got {data.count:,}"
            findings.append(Finding(("data.samples", "data.kind"), message))
        if spec.model.name == "fashion-cnn" and data.image_size != FASHION_SIDE:
            message = f"fashion-cnn takes images of {FASHION_SIDE} x {FASHION_SIDE}; got {data.image_size}"
            findings.append(Finding(("data.image_size", "model.name"), message))
        if loader.prefetch is not None and not loader.workers:
            message = "prefetch is of loader processes: give loader.workers, or leave it out"
            findings.append(Finding(("loader.prefetch", "loader.workers"), message))
        if train.batch_size > spec.samples_per_process:
            message = (
                f"a batch of {train.batch_size:,} in each of {devices.processes} process(es) is larger than the "
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
        return AROUND_S + 0.02 * 2 * spec.train.rounds * spec.steps

    def row(self, spec: TrainingJob) -> dict[str, Any]:
        """What is trained, by how many."""
        return {
            "benchmark": spec.train.benchmark,
            "model": spec.model.name,
            "data": spec.data.kind,
            "processes": spec.devices.processes,
            "workers": spec.loader.workers,
        }

    def facts(self, submission: Any) -> dict[str, str]:
        """The network, the data and the processes."""
        return {
            "model": f"`{submission.model.name}`",
            "data": f"`{submission.data.kind}`",
            "processes": f"{submission.devices.processes} (`{submission.devices.strategy}`)",
        }

    def result(self) -> type[TrainingResult]:
        """Figures of the phases, with a certificate."""
        from inferbench_tasks.training.result import TrainingResult

        return TrainingResult

    def figures(self, result: Any) -> dict[str, Any]:
        """Samples/s without instruments, the step, and its phases, ms."""
        if result.summary is None:
            return {}
        timing, bare = result.summary.synchronised, result.summary.bare
        step = timing["step_ms"]
        return {
            "samples_per_s": bare["samples_per_s"],
            "step_ms": step["mean"] if step else None,
            **{f"{name}_ms": phase["wall_ms"]["mean"] for name, phase in (timing["phases"] or {}).items()},
            "explained_ratio": timing["explained_ratio"],
        }


TRAINING = TrainingPipeline()
