"""What a remedy was predicted to bring, beside what it brought."""

from __future__ import annotations

import os
from collections.abc import Mapping

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.monitors import environment
from inferbench_tasks.training.diagnosis.measured import Diagnosis
from inferbench_tasks.training.diagnosis.verified import Verified
from inferbench_tasks.training.result import TrainingResult

Machine = Mapping[str, str | float | None]


def beside(diagnosis: Diagnosis, before: TrainingResult, after: TrainingResult) -> Verified:
    """The step before, as predicted and as measured, ms; measured None where the new run is not valid, with its
    verdict, or was made elsewhere, with the reason; predicted None where the cause predicts no gain.

    ``predicted_by_measured``: the ratio of both steps. A step of another batch counts by its samples.
    """
    cause = diagnosis.remedied
    assert cause is not None and diagnosis.step_s is not None
    before_ms = diagnosis.step_s * 1e3
    predicted_ms = before_ms - cause.gain_s * 1e3 if cause.gain_s is not None else None
    reason = _difference(machine_of(before), machine_of(after))
    counts = after.verdict.valid and reason is None
    timing = after.summary.synchronised if after.summary and counts else None
    measured_ms = (
        timing["step_ms"]["mean"] * _samples_ratio(before, after) if timing and timing["step_ms"] else None
    )
    return Verified(
        run=before.run_id,
        attempt=before.attempt,
        rule=cause.rule,
        remedied=after.run_id,
        sentence=cause.sentence,
        changes=dict(cause.changes),
        step_ms=before_ms,
        predicted_ms=predicted_ms,
        measured_ms=measured_ms,
        predicted_by_measured=predicted_ms / measured_ms
        if measured_ms and predicted_ms is not None
        else None,
        predicted_gain_ms=before_ms - predicted_ms if predicted_ms is not None else None,
        measured_gain_ms=before_ms - measured_ms if measured_ms is not None else None,
        verdict=str(after.verdict),
        reason=reason,
    )


def require_here(result: TrainingResult) -> None:
    """InputError where this machine is another than the one that a run was measured on."""
    kind = result.device.kind if result.device else "cpu"
    hardware = environment.hardware()
    here: Machine = {
        "device": environment.device_name(kind, hardware),
        "cores": environment.granted_cores(hardware),
        "cluster": os.environ.get(settings.CLUSTER) or None,
    }
    if different := _difference(machine_of(result), here):
        raise InputError(
            f"the remedy of {result.run_id} would be measured on another machine than the run was ({different}), which "
            "tells nothing of the remedy: --write FILE writes it, to be run where that run was",
            field="--verify",
        )


def machine_of(result: TrainingResult) -> Machine:
    """What has to be the same of two runs whose steps are set beside each other."""
    device = result.device
    return {
        "device": device.name if device else None,
        "cores": device.cores if device else None,
        "cluster": result.cluster,
        "torch": result.engine.version if result.engine else None,
    }


def _difference(before: Machine, after: Machine) -> str | None:
    """In words, of what both name; None of the same."""
    others = [
        f"{name} {_word(after[name])} instead of {_word(before[name])}"
        for name in before
        if name in after and before[name] != after[name]
    ]
    return ", ".join(others) or None


def _samples_ratio(before: TrainingResult, after: TrainingResult) -> float:
    sizes = [result.provenance.model_dump()["job"]["train"]["batch_size"] for result in (before, after)]
    return float(sizes[0]) / float(sizes[1])


def _word(value: str | float | None) -> str:
    return "unknown" if value is None else value if isinstance(value, str) else f"{value:g}"
