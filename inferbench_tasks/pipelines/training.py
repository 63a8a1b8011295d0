"""``kind: training``: epochs of a network, phase by phase."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from inferbench_tasks.errors import InputError
from inferbench_tasks.pipelines.base import PARAMETERS, Parameter, Pipeline
from inferbench_tasks.pipelines.watched import Watched
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.sweep import expand
from inferbench_tasks.training import nights
from inferbench_tasks.training.expected_findings import circle_with_table, unknown_devices
from inferbench_tasks.training.findings import findings
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.statistics import LEAST_STEPS

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.sections import Section
    from inferbench_tasks.contracts.verdict import Verdict
    from inferbench_tasks.perfdb.documents import RunDocument
    from inferbench_tasks.perfdb.store import PerfDB
    from inferbench_tasks.training.result import TrainingResult


class TrainingPipeline(Pipeline[TrainingJob]):
    """The benchmark of training and inference epochs."""

    kind = "training"
    job = TrainingJob
    stages = (
        "inferbench_tasks.training.stages.generate",
        "inferbench_tasks.training.stages.meet",
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
        return findings(spec)

    def file_findings(self, spec: TrainingJob, base_dir: Path, abilities: Abilities) -> Sequence[Finding]:
        """Expected speeds that don't go with the installation's table; a folder with one class or none."""
        found = list(circle_with_table(spec))
        if spec.data.kind == "folder" and spec.data.path is not None:
            from inferbench_tasks.training.folder import too_few_classes

            if reason := too_few_classes(base_dir / spec.data.path):
                found.append(Finding(("data.path",), reason))
        return found

    def warnings(self, spec: TrainingJob) -> dict[str, str]:
        """Too few steps for a figure; expected speeds of devices that no table knows."""
        messages = {}
        if spec.measured_steps < LEAST_STEPS:
            messages["steps"] = (
                f"{spec.measured_steps} measured steps in {spec.train.rounds} rounds are too few for a figure, which "
                f"needs {LEAST_STEPS}; raise data.samples or train.rounds, or lower train.batch_size or warmup_steps"
            )
        if unknown := unknown_devices(spec):
            messages["factors"] = unknown
        return messages

    def expected_s(self, spec: TrainingJob) -> float:
        """A guess: 20 ms for each step of the epochs and of the probes behind them, and what is around them."""
        from inferbench_tasks.training.duration import expected_s

        return expected_s(spec)

    def row(self, spec: TrainingJob) -> dict[str, Any]:
        """What is trained, by how many."""
        return {
            "benchmark": spec.train.benchmark,
            "model": spec.model.label,
            "data": spec.data.kind,
            "processes": spec.devices.ranks,
            "workers": spec.workers,
        }

    def facts(self, submission: Any) -> dict[str, str]:
        """The network, the data and the processes."""
        return {
            "model": f"`{submission.model.label}`",
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

    def described(self, result: Any) -> dict[str, Any]:
        """The work, who did it and where."""
        from inferbench_tasks.training.listing import row

        names = (
            "benchmark",
            "model",
            "data",
            "where",
            "processes",
            "workers",
            "device",
            "cluster",
            "created",
        )
        of = row(result)
        return {name: of[name] for name in names if of[name] is not None}

    def downloads(self, result: Any) -> dict[str, str]:
        """The result, its diagnosis, and the raw steps where there are some."""
        base = f"/trainings/{quote(result.run_id, safe='')}"
        steps = {"steps (Parquet)": f"{base}/steps", "steps (CSV)": f"{base}/steps?format=csv"}
        return {"JSON": base, "diagnosis": f"{base}/diagnosis", **(steps if result.samples else {})}

    def agreement(self, then: Any, now: Any) -> list[dict[str, Any]]:
        """Samples/s, the step and its longer phases."""
        from inferbench_tasks.training.again import agreement

        return agreement(then, now)

    def watched(self) -> Watched:
        """Samples/s and the step; explained by its phases."""
        from inferbench_tasks.training.result import TrainingResult

        return Watched(
            collection=TrainingResult.collection,
            figures=nights.FIGURES,
            parts=nights.PARTS,
            work=nights.PARTS,
            means=nights.phase_means,
            told=("samples_per_s", "{:,.0f} samples/s"),
            compare_page="/inferbench/trainings/compare",
        )

    def for_nights(self, submission: Any, what: str) -> Any:
        """Of one device: both sides run on the one that a night holds."""
        if several := [job for job in expand(submission) if job.spec.devices.count > 1]:
            raise InputError(
                f"{what} holds one device; job {several[0].index} of {submission.name} needs "
                f"{several[0].spec.devices.count}: give devices.processes in place of devices.count",
                field="devices.count",
            )
        return submission

    def surroundings(self, result: Any) -> dict[str, Any]:
        """What trained, and on what."""
        from inferbench_tasks.training.again import surroundings

        return surroundings(result)

    def sections(self, db: PerfDB, run_ids: Sequence[str]) -> Sequence[Section]:
        """Phases over steps and cores, loading, and BenchmarkJade's columns beside the true ones."""
        from inferbench_tasks.training.report.compose import sections_of

        return sections_of(db, run_ids)


TRAINING = TrainingPipeline()
