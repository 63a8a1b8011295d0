"""The report's tables of what holds runs up, and of remedies that were run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.measured import Diagnosis
from inferbench_tasks.training.report.views import TrainingView


def diagnoses(of: Sequence[tuple[TrainingView, Diagnosis]]) -> list[dict[str, Any]]:
    """What holds each run up: its causes, the costliest first, with their remedies, and those that were run; [] without
    any run.
    """
    rows: list[list[Any]] = []
    for view, diagnosis in of:
        if not diagnosis.causes:
            rows.append([view.label, "–", diagnosis.sentence, "", "–", "–", "–"])
        for cause in diagnosis.causes:
            cost_ms, gain_ms = (None if of_s is None else of_s * 1e3 for of_s in (cause.cost_s, cause.gain_s))
            texts = [cause.sentence, " ".join([f"{line}." for line in cause.evidence])]
            rows.append(
                [
                    view.label,
                    cause.rule,
                    " ".join(texts),
                    cause.remedy or "–",
                    f"{'at most ' if cause.at_most else ''}{number(cost_ms)}",
                    number(gain_ms),
                    _measured_gain(diagnosis, cause),
                ]
            )
    if not rows:
        return []
    head = [
        "run",
        "rule",
        "what holds it up, and by which figures",
        "remedy",
        "costs, ms",
        "expected gain, ms",
        "measured gain, ms",
    ]
    note = (
        "Costs and gains are of one step, by a model of the run's pipeline; `inferbench training diagnose RUN "
        "--verify` runs the first remedy, and keeps here what it brought. Causes of less than 5% of the step "
        "are not named."
    )
    found = {"title": "", "head": head, "rows": rows, "numbers": [4, 5, 6], "note": note}
    return [found, *_verified(of)]


def _measured_gain(diagnosis: Diagnosis, cause: Cause) -> str:
    """Of the newest run of that cause's remedy, as it is now: other changes are another remedy."""
    newest = next(
        (of for of in diagnosis.verified if of.rule == cause.rule and of.changes == cause.changes), None
    )
    if newest is None:
        return "–"
    return number(newest.measured_gain_ms) if newest.measured_ms is not None else newest.unmeasured


def _verified(of: Sequence[tuple[TrainingView, Diagnosis]]) -> list[dict[str, Any]]:
    """Remedies that were run, each with its prediction; [] without any."""
    rows = [
        [
            view.label,
            one.rule,
            ", ".join(f"{name}: {value}" for name, value in one.changes.items()),
            one.remedied,
            number(one.step_ms),
            number(one.predicted_ms),
            number(one.measured_ms) if one.measured_ms is not None else one.unmeasured,
            number(one.predicted_by_measured),
        ]
        for view, diagnosis in of
        for one in diagnosis.verified
    ]
    if not rows:
        return []
    head = [
        "run", "rule", "remedy", "run with it", "step before, ms", "predicted, ms", "measured, ms",
        "predicted by measured",
    ]  # fmt: skip
    note = (
        "A step of another batch counts by its samples. A run that is not valid, or of another machine or torch, "
        "measures nothing: what is wrong with it stands there."
    )
    return [
        {"title": "Remedies that were run", "head": head, "rows": rows, "numbers": [4, 5, 6, 7], "note": note}
    ]
