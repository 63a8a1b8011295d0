"""Two measured trainings beside each other, phase by phase.

The ratio of two means has an interval by their relative errors on the logarithm (delta method), Student's t with the
degrees of freedom of the smaller sample, corrected for the number of figures by Bonferroni: of two runs of the same
configuration all intervals hold 1 in 95% of the cases. Without an interval nothing is called better or worse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.training import expected_ratio
from inferbench_tasks.training.diagnosis.expected_device import TOLERANCE_RATIO
from inferbench_tasks.training.result import TrainingResult, host_names
from inferbench_tasks.training.stored_job import fields_of


@dataclass(frozen=True)
class Compared:
    """One figure: ``ratio`` of the second by the first, its corrected 95% interval, and what that says."""

    name: str
    first: float
    second: float
    ratio: float
    interval: tuple[float, float] | None
    verdict: str


@dataclass(frozen=True)
class Comparison:
    """``notes``: what differs between the runs beside their figures."""

    figures: tuple[Compared, ...]
    notes: tuple[str, ...] = field(default=())


def compare(first: TrainingResult, second: TrainingResult) -> Comparison:
    """InputError where a run's figures don't count, or where the runs do different work."""
    for result in (first, second):
        if (
            not result.verdict.valid
            or result.summary is None
            or result.summary.synchronised["phases"] is None
        ):
            raise InputError(
                f"the figures of {result.run_id} don't count: {result.verdict}; only valid runs are compared"
            )
    for what, (one, other) in _work(first, second).items():
        if one != other:
            raise InputError(
                f"{first.run_id} and {second.run_id} do different work: {what} is {one} and {other}"
            )
    pairs = [
        (name, means(first)[name], means(second)[name]) for name in means(first) if name in means(second)
    ]
    level = 1 - 0.05 / len(pairs)
    figures = tuple(_compared(name, one, other, level) for name, one, other in pairs)
    return Comparison(figures, (*_differences(first, second), *_beside_expectation(first, second, figures)))


@dataclass(frozen=True)
class Mean:
    """A mean with the 95% interval that it is stored with, of so many independent values."""

    value: float
    interval: tuple[float, float] | None
    count: int
    higher_is_better: bool = False


def means(result: TrainingResult) -> dict[str, Mean]:
    """Samples/s without instruments, the step and its phases, of a result that has them."""
    assert result.summary is not None
    bare, timing = result.summary.bare, result.summary.synchronised
    of = {}
    if bare["samples_per_s"] is not None:
        of["samples/s"] = Mean(
            bare["samples_per_s"], _pair(bare["samples_per_s_ci95"]), bare["rounds"], higher_is_better=True
        )
    blocks = {
        "step": timing["step_ms"],
        **{name: phase["wall_ms"] for name, phase in timing["phases"].items()},
    }
    for name, block in blocks.items():
        of[f"{name.replace('_', ' ')}, ms"] = Mean(
            block["mean"], _pair(block["ci95"]), timing.get("rounds") or 0
        )
    return of


def _pair(interval: list[float] | None) -> tuple[float, float] | None:
    return None if interval is None else (interval[0], interval[1])


def _compared(name: str, first: Mean, second: Mean, level: float) -> Compared:
    ratio = second.value / first.value if first.value else math.inf
    interval = ratio_interval(first, second, level)
    verdict = "not told apart"
    if interval is None:
        verdict = "no interval"
    elif not interval[0] <= 1 <= interval[1]:
        more = interval[0] > 1
        verdict = "better" if more == first.higher_is_better else "worse"
    return Compared(name, first.value, second.value, ratio, interval, verdict)


def standard_error(mean: Mean) -> float | None:
    """That which its interval was made of; None where it has none, or too few values for one."""
    from scipy import stats

    if mean.interval is None or mean.count < 3:
        return None
    return (mean.interval[1] - mean.interval[0]) / 2 / float(stats.t.ppf(0.975, mean.count - 1))


def ratio_interval(first: Mean, second: Mean, level: float) -> tuple[float, float] | None:
    """Of the second mean by the first; None where one of them has no interval, or too few values for one."""
    from scipy import stats

    squares = 0.0
    for mean in (first, second):
        error = standard_error(mean)
        if error is None or mean.value <= 0:
            return None
        squares += (error / mean.value) ** 2
    freedom = min(first.count, second.count) - 1
    half = float(stats.t.ppf(0.5 + level / 2, freedom)) * math.sqrt(squares)
    ratio = math.log(second.value / first.value)
    return math.exp(ratio - half), math.exp(ratio + half)


def _work(first: TrainingResult, second: TrainingResult) -> dict[str, tuple[Any, Any]]:
    """What must be the same for a step to be the same work."""

    def of(result: TrainingResult) -> dict[str, Any]:
        train = fields_of(result).get("train", {})
        return {
            "benchmark": result.benchmark,
            "the network": result.model.name if result.model else None,
            # Of a module of the user's the name is what they call it.
            "the number of its parameters": result.model.parameters if result.model else None,
            "the images' side": result.model.image_size if result.model else None,
            "the data": result.data.get("kind"),
            "the batch of a process": train.get("batch_size"),
            "the number of passes": train.get("passes", 1),
        }

    one, other = of(first), of(second)
    return {name: (one[name], other[name]) for name in one}


def _differences(first: TrainingResult, second: TrainingResult) -> list[str]:
    def of(result: TrainingResult) -> dict[str, Any]:
        engine, device, data, loader = result.engine, result.device, result.data, result.loader
        return {
            "data": data.get("where") or "disk",
            "data's folder": data.get("path"),
            "brought from another host": bool(data.get("brought")),
            "samples": data.get("samples"),
            "reads": data.get("read") or "warm",
            "augmented": bool(data.get("augment")),
            "shuffled": bool(loader.get("shuffle")),
            "pinned batches": bool(loader.get("pin_memory")),
            "processes": engine.processes if engine else None,
            "threads": engine.threads if engine else None,
            "trainer": engine.kind if engine else None,
            "exchange": engine.backend if engine else None,
            "torch": engine.version if engine else None,
            "loader processes": result.workers,
            "device": device.name if device else None,
            "cores": device.cores if device else None,
            "cluster": result.cluster,
            "devices": expected_ratio.device_count(result),
            "hosts": " and ".join(host_names(result)) or None,
            **expected_ratio.computing(result),
            **(_of_loader_processes(result) if first.workers and second.workers else {}),
        }

    one, other = of(first), of(second)
    return [f"{name}: {one[name]} and {other[name]}" for name in one if one[name] != other[name]]


def _of_loader_processes(result: TrainingResult) -> dict[str, Any]:
    """Of a run that had some; beside one that had none their number says all."""
    loader = result.loader
    return {
        "batches ahead": loader.get("prefetch"),
        "loader processes stay": bool(loader.get("persistent")),
        "loader processes started by": loader.get("context") or "fork",
    }


def _beside_expectation(
    first: TrainingResult, second: TrainingResult, figures: tuple[Compared, ...]
) -> list[str]:
    """The device's phases beside what they should be; why nobody knows; [] of one device."""
    should = expected_ratio.ratio(first, second)
    if should is None:
        return []
    if isinstance(should, str):
        return [should]
    span = f"{should.low:.3g}" + (f" to {should.high:.3g}" if should.high > should.low else "")
    notes = [
        f"{compared.name}: {compared.ratio:.3g} x, expected {span} x: {_beside(compared, should)}"
        for compared in figures
        if compared.name.removesuffix(", ms") in should.phases
    ]
    return [*notes, *should.sources]


def _beside(compared: Compared, should: expected_ratio.Should) -> str:
    """Where the interval of a ratio lies: within the tolerance around what it should be, outside of it, or neither."""
    if compared.interval is None:
        return "without an interval nobody can tell"
    low, high = compared.interval
    least, most = should.low * (1 - TOLERANCE_RATIO), should.high * (1 + TOLERANCE_RATIO)
    if low >= least and high <= most:
        return "as it should be"

    def times_of(value: float) -> float:
        """Beside the end of what it should be that it lies beyond; 1 within that."""
        return value / min(max(value, should.low), should.high)

    times = f"95%: {times_of(low):.2g} to {times_of(high):.2g}"
    if low > most or high < least:
        return f"{times_of(compared.ratio):.2g} times what it should be ({times})"
    return f"not told apart from what it should be ({times} times)"
