"""Two runs of one training: whether the second agrees with the first."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.analysis.report.replay import Judged, agreement_of
from inferbench_tasks.analysis.stated import NOTHING, Stated
from inferbench_tasks.training.comparison import Mean, standard_error
from inferbench_tasks.training.comparison import means as means_of
from inferbench_tasks.training.result import TrainingResult, host_names

#: Phases that are shorter than this share of the step in both runs are of no weight, and of no steady length.
LEAST_SHARE = 0.05
_RATE, _STEP = "samples/s", "step, ms"


def agreement(then: TrainingResult, now: TrainingResult) -> list[dict[str, Any]]:
    """Samples/s without instruments, the step, and the phases that are a twentieth of it in either run."""
    before, after = _figures(then), _figures(now)
    named = [name for name in dict.fromkeys([*before, *after]) if _weighs(name, before, after)]
    return agreement_of(
        [_judged(name, before) for name in named],
        [_judged(name, after) for name in named],
        count=then.valid and now.valid,
    )


def surroundings(result: TrainingResult) -> dict[str, Any]:
    """The engine, the device, what it may use of it, its cluster, its hosts where there are two, and whether it read
    copies of images that lie on another host.
    """
    engine, device = result.engine, result.device
    return {
        "engine": engine.model_dump() if engine else None,
        "device": device.name if device else None,
        "cores": device.cores if device else None,
        "cluster": result.cluster,
        **({"hosts": host_names(result)} if host_names(result) else {}),
        **({"data": "brought from another host"} if result.data.get("brought") else {}),
    }


def _figures(result: TrainingResult) -> dict[str, Mean]:
    if result.summary is None or result.summary.synchronised["phases"] is None:
        return {}
    return means_of(result)


def _weighs(name: str, *runs: dict[str, Mean]) -> bool:
    if name in (_RATE, _STEP):
        return True
    return any(name in run and run[name].value >= LEAST_SHARE * run[_STEP].value for run in runs)


def _judged(name: str, figures: dict[str, Mean]) -> Judged:
    label, _, unit = name.partition(", ")
    unit = unit or "samples/s"
    if name not in figures:
        return Judged(label, unit, None)
    mean = figures[name]
    error = standard_error(mean)
    return Judged(label, unit, mean.value, NOTHING if error is None else Stated(within=error))
