"""What nights watch of trainings: samples/s without instruments and the step, explained by its phases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from inferbench_tasks.dotted import value_at
from inferbench_tasks.figure import Figure
from inferbench_tasks.training.phases import INFERENCE, SMOOTH, TRAIN

#: What of a step lies between its phases.
BETWEEN: Final = "between"
PARTS: Final = (*dict.fromkeys((*TRAIN, *INFERENCE, *SMOOTH, "gather")), BETWEEN)
FIGURES: Final = (
    Figure(
        "epoch_samples_per_s", "bare.samples_per_s", "samples/s", "Samples/s of an epoch", "higher",
        "samples of all ranks in the measured steps of all epochs without instruments / the sum of their times",
        noun="samples/s", views=(),
    ),
    Figure(
        "step_ms", "synchronised.step_ms.mean", "ms", "Step", "lower",
        "mean of the measured steps of the epochs with instruments, of all ranks", noun="step", views=(),
    ),
)  # fmt: skip


def phase_means(result: Mapping[str, Any]) -> dict[str, float]:
    """Phase -> mean ms in a step, of a plain result, with what lies between them; {} of a run without phases."""
    timing = (result.get("summary") or {}).get("synchronised") or {}
    means = {name: value_at(phase, "wall_ms.mean") for name, phase in (timing.get("phases") or {}).items()}
    means[BETWEEN] = timing.get("unexplained_ms") if means else None
    return {name: float(value) for name, value in means.items() if value is not None}
