"""``kind: bricks``: many models' latency from benchmarks of their unique bricks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks.brick_jobs.findings import findings, unknown_names
from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.brick_jobs.members import entries_of, name_of
from inferbench_tasks.brick_jobs.spec import CorpusSpec
from inferbench_tasks.output import OutputFormat, emit, say
from inferbench_tasks.pipelines.base import Pipeline, StageEntry
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.finding import Finding

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.sections import Section
    from inferbench_tasks.contracts.verdict import Verdict
    from inferbench_tasks.perfdb.ask import Ask
    from inferbench_tasks.perfdb.documents import RunDocument
    from inferbench_tasks.perfdb.store import PerfDB

#: Whose stage each is.
_ROLES = {
    "generate": "model", "convert": "model", "decompose": "cut", "assign": "shard", "measure": "shard",
    "release": "shard",
}  # fmt: skip
#: What starting and ending a session take beside what it measures, s: the first guess.
AROUND_S = 10.0


class BricksPipeline(Pipeline[BricksJob]):
    """Models' latency from their bricks."""

    kind = "bricks"
    job = BricksJob
    stages = (
        "inferbench_tasks.brick_jobs.stages.generate",
        "inferbench_tasks.brick_jobs.stages.convert",
        "inferbench_tasks.brick_jobs.stages.decompose",
        "inferbench_tasks.brick_jobs.stages.assign",
        "inferbench_tasks.brick_jobs.stages.measure",
        "inferbench_tasks.brick_jobs.stages.release",
        "inferbench_tasks.brick_jobs.stages.construct",
    )

    def unknown_names(self, data: Mapping[str, Any], abilities: Abilities) -> Sequence[Finding]:
        """Of corpora and models."""
        return unknown_names(data, abilities)

    def findings(self, spec: BricksJob, abilities: Abilities) -> Sequence[Finding]:
        """What does not go together."""
        return findings(spec, abilities)

    def of_job(self, job: BricksJob) -> tuple[StageEntry, ...]:
        """The stages of the job's part."""
        role = job.part.role if job.part else None
        return tuple(entry for entry in self.entries if role and _ROLES.get(entry.name) == role)

    def expected_s(self, spec: BricksJob) -> float:
        """What a shard is filled with, and what is around it."""
        return spec.measure.shard_s + AROUND_S

    def row(self, spec: BricksJob) -> dict[str, Any]:
        """Which part of the work it is."""
        part = spec.part
        if part is None:
            return {}
        if part.role != "model":
            return {
                "part": f"{part.role} {part.at + 1} of {part.shards}" if part.role == "shard" else part.role
            }
        return {"part": f"model {name_of(entries_of(spec.models)[part.at].model)}"}

    def stored_findings(self, spec: BricksJob, base_dir: Path, ask: Ask) -> Sequence[Finding]:
        """Bricks of more layers than a model has, as it was cut before; what registered models can't take."""
        from inferbench_tasks.brick_jobs import cards_known, layers_known

        return [*cards_known.findings(spec, ask), *layers_known.findings(spec, base_dir, ask)]

    def facts(self, submission: Any) -> dict[str, str]:
        """The models, and how they are cut."""
        models = submission.models
        what = f"corpus `{models.corpus}`" if isinstance(models, CorpusSpec) else f"{len(models)} of a list"
        cut = ", ".join(map(str, submission.bricks.granularity))
        return {"models": what, "layers of a brick": cut, "runtime": f"`{submission.bricks.runtime}`"}

    def result(self) -> Any:
        """Of models what is predicted, of shards what they measured."""
        from inferbench_tasks.brick_jobs.result import BricksResult

        return BricksResult

    def without_figures(self, run: RunDocument, verdict: Verdict) -> Any:
        """Which part it was, and why there are no figures."""
        from inferbench_tasks.brick_jobs.result import without_figures

        return without_figures(run, verdict)

    def figures(self, result: Any) -> dict[str, Any]:
        """What is predicted of a model at its first batch size and granularity, beside what was measured."""
        shown: dict[str, Any] = {"part": result.model.get("name") or result.role}
        if result.predictions:
            first = result.predictions[0]
            shown |= {
                "coverage_ratio": first.coverage_ratio,
                "predicted_ms": first.best.ms,
                "measured_ms": first.measured.ms if first.measured else None,
            }
        elif "stored" in result.counts:
            shown["measured_bricks"] = result.counts["stored"]
        return shown

    def job_again(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """All parts of its submission, measured anew."""
        from inferbench_tasks.brick_jobs.again import job_again

        return job_again(job)

    def again(self, then: Any, results: Sequence[Any]) -> Any:
        """The same part."""
        from inferbench_tasks.brick_jobs.again import again

        return again(then, results)

    def agreement(self, then: Any, now: Any) -> list[dict[str, Any]]:
        """Of a model: what its bricks make, and what it took as a whole."""
        from inferbench_tasks.brick_jobs.again import agreement

        return agreement(then, now)

    def surroundings(self, result: Any) -> dict[str, Any]:
        """The device, and what it may use of it."""
        device = result.device
        return {"device": device.name if device else None, "cores": device.cores if device else None}

    def sections(self, db: PerfDB, run_ids: Sequence[str]) -> Sequence[Section]:
        """Predicted against measured, and where the time goes."""
        from inferbench_tasks.brick_jobs.report.compose import load, sections

        return sections(load(db, run_ids))

    def show(self, results: Sequence[Any], report: Path | None, output: OutputFormat) -> None:
        """A line for each prediction; in JSON and YAML all results."""
        from inferbench_tasks.brick_jobs.listing import rows, words

        if output is not OutputFormat.table:
            emit(
                [result.model_dump(mode="json", exclude={"environment", "provenance"}) for result in results],
                output,
            )
            return
        emit(rows(results), output)
        for sentence in words(results):
            say(sentence)
        if report is not None:
            say(f"report    {report}")


BRICKS = BricksPipeline()
