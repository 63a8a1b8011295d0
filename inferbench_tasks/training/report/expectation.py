"""A run beside the speed that its submission says should be (``expected``)."""

from __future__ import annotations

from collections.abc import Sequence

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.expected_device import TOLERANCE_RATIO
from inferbench_tasks.training.report.views import TrainingView


def sentences(view: TrainingView) -> list[str]:
    """One for each figure that is expected, and measured."""
    of = view.job.get("expected") or {}
    if not of or view.summary is None:
        return []
    bare, timing = view.summary.bare, view.timing
    step = timing["step_ms"] if timing else {}
    measured = {
        "samples_per_s": ("samples/s", bare.get("samples_per_s"), bare.get("samples_per_s_ci95")),
        "step_ms": ("ms a step", step.get("mean"), step.get("ci95")),
    }
    texts = []
    for name, (unit, value, interval) in measured.items():
        should = of.get(name)
        if should and value:
            # Student's interval of few rounds may go below 0, as it is stored; neither a rate nor a time does.
            low_high = (
                f" ({number(max(0.0, interval[0]), 4)} to {number(interval[1], 4)})" if interval else ""
            )
            ratios = interval and [bound / should for bound in interval]
            says = verdict(value / should, ratios, name == "samples_per_s")
            texts.append(
                f"{view.label}: {number(value, 4)} {unit}{low_high}, expected {number(should, 4)} ({of['source']}): "
                f"{says}."
            )
    return texts


def verdict(ratio: float, interval: Sequence[float] | None, higher_is_better: bool) -> str:
    """What a ratio to the expectation says with its 95% interval; a deviation of 15% is as it should be."""
    least, most = 1 - TOLERANCE_RATIO, 1 + TOLERANCE_RATIO
    text = f"{ratio:.2f} of it"
    if interval is None:
        return f"{text}, without an interval nobody can tell more"
    if interval[0] >= least and interval[1] <= most:
        return f"{text}, as it should be"
    if interval[0] > most or interval[1] < least:
        faster = (interval[0] > most) == higher_is_better
        return f"{text}, {'faster' if faster else 'slower'} than it should be"
    return f"{text}, not told apart from as it should be"
