"""All rules over a measured run, the costliest cause first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.perfdb.documents import Document
from inferbench_tasks.training.diagnosis.base import LEAST_SHARE, Cause, RunRule
from inferbench_tasks.training.diagnosis.observation import Observation, Steps, of_result
from inferbench_tasks.training.diagnosis.runs import (
    cores,
    denormals,
    exchange,
    fetch,
    first_epoch,
    impossible,
    memory,
    preparation,
    slow_device,
    small_batch,
    startup_in_means,
    straggler,
    threads,
    transfer,
    unpinned,
    wrong_column,
)
from inferbench_tasks.training.diagnosis.verified import Verified
from inferbench_tasks.training.result import TrainingResult
from inferbench_tasks.training.stored_job import has_job, job_of

#: Of what holds every epoch up.
RULES: tuple[RunRule, ...] = (
    preparation.find,
    fetch.find,
    cores.find,
    threads.find,
    memory.find,
    transfer.find,
    unpinned.find,
    denormals.find,
    small_batch.find,
    exchange.find,
    straggler.find,
    startup_in_means.find,
    wrong_column.find,
    impossible.find,
)


class Diagnosis(Document):
    """``sentence``: what holds the run up, that nothing does, or why its figures can't tell. ``step_s``: the step that
    the costs are of; None where nothing can be told. ``causes``: the costliest first. ``stalls``: by differences of its
    submission's runs (``diagnosis.stalls``), None without any. ``verified``: its remedies that were run, the newest
    first.
    """

    run_id: str
    sentence: str
    step_s: float | None = None
    causes: list[Cause] = []
    stalls: dict[str, Any] | None = None
    stalls_sentence: str | None = None
    verified: list[Verified] = []

    @property
    def remedied(self) -> Cause | None:
        """The first cause that fields of the submission mend."""
        return next((cause for cause in self.causes if cause.kind == "cause" and cause.changes), None)


def causes_of(run: Observation) -> list[Cause]:
    """What costs 5% of a step at least, the costliest first; then figures that are wrong.

    What only the first epoch has is no cause of the others: where it is one, the other rules see the later epochs.
    """
    once = list(first_epoch.find(run))
    steady = first_epoch.later(run) if once else run
    return in_order([*once, *(cause for rule in RULES for cause in rule(steady))], run.step_ms)


def in_order(causes: Sequence[Cause], step_ms: float) -> list[Cause]:
    """Causes of 5% of a step at least, the costliest first; then figures that are wrong."""
    least_s = LEAST_SHARE * step_ms / 1e3
    held = [cause for cause in causes if cause.kind == "cause" and (cause.cost_s or 0.0) >= least_s]
    wrong = [cause for cause in causes if cause.kind == "wrong"]
    return [*sorted(held, key=lambda cause: -(cause.cost_s or 0.0)), *wrong]


def diagnose(
    result: TrainingResult, ranks: Sequence[Steps] = (), others: Sequence[TrainingResult] = ()
) -> Diagnosis:
    """Of a valid run; of any other it says why nothing is told. ``ranks``: see ``Observation``; ``others``: runs of the
    same job, of which its device's kind has a baseline.
    """
    if not result.verdict.valid:
        return Diagnosis(
            run_id=result.run_id, sentence=f"No cause is named, for the run is {result.verdict}."
        )
    run = of_result(result, ranks)
    if run is None:
        why = "the run has too few steps for a figure, or its job is not known"
        if has_job(result) and job_of(result) is None:
            why = "its job is of another version, or of a package that is not installed here"
        return Diagnosis(run_id=result.run_id, sentence=f"No cause is named: {why}.")
    of_device = list(slow_device.find(result, others, run.step_ms))
    causes = in_order([*causes_of(run), *of_device], run.step_ms)
    first = next((cause for cause in causes if cause.kind == "cause"), None)
    at_most = "at most " if first and first.at_most else ""
    sentence = (
        f"{first.sentence} That costs {at_most}{number((first.cost_s or 0.0) * 1e3)} ms of a step of "
        f"{number(run.step_ms)} ms."
        if first
        else f"No rule finds what holds it up: none names {LEAST_SHARE:.0%} of a step of {number(run.step_ms)} ms or "
        "more."
    )
    return Diagnosis(run_id=result.run_id, sentence=sentence, step_s=run.step_ms / 1e3, causes=causes)


def changed_job(result: TrainingResult, cause: Cause) -> dict[str, Any]:
    """The run's job with the remedy in it, as a submission: fields with their defaults are left out, and those that are
    of loader processes where the remedy has none.
    """
    from inferbench_tasks.training.job import OF_PROCESSES, TrainingJob

    fields = dict(result.provenance.model_dump()["job"])
    for path, value in cause.changes.items():
        block, _, name = path.partition(".")
        fields[block] = {**(fields.get(block) or {}), name: value}
    if cause.changes.get("loader.workers") == 0:
        fields["loader"] = {
            name: value for name, value in fields["loader"].items() if name not in OF_PROCESSES
        }
    job = TrainingJob.model_validate(fields)
    return job.model_dump(mode="json", exclude_defaults=True)
