"""What a remedy was predicted to bring, beside what it brought."""

from __future__ import annotations

from inferbench_tasks.training.diagnosis.measured import Diagnosis
from inferbench_tasks.training.diagnosis.verified import Verified
from inferbench_tasks.training.result import TrainingResult


def beside(diagnosis: Diagnosis, before: TrainingResult, after: TrainingResult) -> Verified:
    """The step before, as predicted and as measured, ms; None where the new run is not valid, with its verdict.

    ``predicted_by_measured``: the ratio of both steps. A step of another batch counts by its samples.
    """
    cause = diagnosis.remedied
    assert cause is not None and diagnosis.step_s is not None
    before_ms = diagnosis.step_s * 1e3
    predicted_ms = before_ms - (cause.gain_s or 0.0) * 1e3
    timing = after.summary.synchronised if after.summary and after.verdict.valid else None
    measured_ms = (
        timing["step_ms"]["mean"] * _samples_ratio(before, after) if timing and timing["step_ms"] else None
    )
    return Verified(
        run=before.run_id,
        rule=cause.rule,
        remedied=after.run_id,
        sentence=cause.sentence,
        changes=dict(cause.changes),
        step_ms=before_ms,
        predicted_ms=predicted_ms,
        measured_ms=measured_ms,
        predicted_by_measured=predicted_ms / measured_ms if measured_ms else None,
        predicted_gain_ms=before_ms - predicted_ms,
        measured_gain_ms=before_ms - measured_ms if measured_ms is not None else None,
        verdict=str(after.verdict),
    )


def _samples_ratio(before: TrainingResult, after: TrainingResult) -> float:
    sizes = [result.provenance.model_dump()["job"]["train"]["batch_size"] for result in (before, after)]
    return float(sizes[0]) / float(sizes[1])
