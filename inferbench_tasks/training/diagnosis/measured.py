"""All rules over a measured run, the costliest cause first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.perfdb.documents import Document
from inferbench_tasks.training.diagnosis.base import LEAST_SHARE, Cause, RunRule
from inferbench_tasks.training.diagnosis.observation import Observation, Steps, of_result
from inferbench_tasks.training.diagnosis.runs import (
    cores,
    exchange,
    fetch,
    first_epoch,
    preparation,
    small_batch,
    startup_in_means,
    straggler,
    threads,
    transfer,
)
from inferbench_tasks.training.result import TrainingResult

#: Of what holds every epoch up.
RULES: tuple[RunRule, ...] = (
    preparation.find,
    fetch.find,
    cores.find,
    threads.find,
    transfer.find,
    small_batch.find,
    exchange.find,
    straggler.find,
    startup_in_means.find,
)


class Diagnosis(Document):
    """``sentence``: what holds the run up, that nothing does, or why its figures can't tell. ``step_s``: the step that
    the costs are of; None where nothing can be told. ``causes``: the costliest first.
    """

    run_id: str
    sentence: str
    step_s: float | None = None
    causes: list[Cause] = []

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
    causes = [*once, *(cause for rule in RULES for cause in rule(steady))]
    least_s = LEAST_SHARE * run.step_ms / 1e3
    held = [cause for cause in causes if cause.kind == "cause" and (cause.cost_s or 0.0) >= least_s]
    wrong = [cause for cause in causes if cause.kind == "wrong"]
    return [*sorted(held, key=lambda cause: -(cause.cost_s or 0.0)), *wrong]


def diagnose(result: TrainingResult, ranks: Sequence[Steps] = ()) -> Diagnosis:
    """Of a valid run; of any other it says why nothing is told. ``ranks``: see ``Observation``."""
    if not result.verdict.valid:
        return Diagnosis(
            run_id=result.run_id, sentence=f"No cause is named, for the run is {result.verdict}."
        )
    run = of_result(result, ranks)
    if run is None:
        return Diagnosis(
            run_id=result.run_id,
            sentence="No cause is named: the run has too few steps for a figure, or its job is not known.",
        )
    causes = causes_of(run)
    first = next((cause for cause in causes if cause.kind == "cause"), None)
    sentence = (
        f"{first.sentence} That costs {(first.cost_s or 0.0) * 1e3:.3g} ms of a step of {run.step_ms:.3g} ms."
        if first
        else f"No rule finds what holds it up: none names {LEAST_SHARE:.0%} of a step of {run.step_ms:.3g} ms or more."
    )
    return Diagnosis(run_id=result.run_id, sentence=sentence, step_s=run.step_ms / 1e3, causes=causes)


def changed_job(result: TrainingResult, cause: Cause) -> dict[str, Any]:
    """The run's job with the remedy in it, as a submission: fields with their defaults are left out."""
    from inferbench_tasks.training.job import TrainingJob

    fields = dict(result.provenance.model_dump()["job"])
    for path, value in cause.changes.items():
        block, _, name = path.partition(".")
        fields[block] = {**(fields.get(block) or {}), name: value}
    job = TrainingJob.model_validate(fields)
    return job.model_dump(mode="json", exclude_defaults=True)
