"""Speed-up and efficiency over ranks, and what the difference to the ideal went to.

Strong scaling: the ranks share one batch; weak scaling: each has a batch of the same size. A curve is over devices,
with as many ranks on each, or over the ranks on as many devices: two ranks that share a device are no two devices.
Speed-up is by samples/s of the epochs without instruments; its interval is that of a ratio of two means
(``comparison``).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from inferbench_tasks.training.comparison import Mean, ratio_interval
from inferbench_tasks.training.diagnosis.observation import Steps
from inferbench_tasks.training.fleet.rows import brought, devices_of
from inferbench_tasks.training.result import TrainingResult
from inferbench_tasks.training.scaling.parts import Parts, parts_of
from inferbench_tasks.training.stored_job import fields_of

Kind = Literal["strong", "weak"]
#: What of ``devices`` differs along a curve: the devices, or the ranks on each of them.
Way = Literal["count", "processes"]
_WAYS: tuple[Way, ...] = get_args(Way)
#: What does not change the work of a step, or is what scaling is over.
_APART = {
    "train": ("batch_size", "max_steps", "warmup_steps", "rounds"),
    "devices": ("count", "processes", "strategy", "backend"),
}
_HEAD = (
    "name", "user", "description", "tags", "priority", "expected_duration_s", "deadline_s", "block", "timing",
    "expected", "on_devices",
)  # fmt: skip


@dataclass(frozen=True)
class Point:
    """One number of ranks. ``speedup`` is over the least number, ``lost_ms`` of each step beside the ideal by its part
    (negative: faster than ideal), None of a run without raw steps, and of one whose kernel told no
    waits for a core.
    """

    ranks: int
    run_id: str
    batch_size: int
    cores: float | None
    threads: int
    samples_per_s: float
    ideal_step_ms: float
    step_ms: float
    speedup: float
    speedup_ci95: tuple[float, float] | None
    efficiency: float
    parts: Parts | None
    lost_ms: Mapping[str, float] | None


@dataclass(frozen=True)
class Curve:
    """``work``: what all points have in common, for people; ``points`` by their number of ranks. ``shares_gpus``: its
    further ranks came on the same GPUs.
    """

    kind: Kind
    work: str
    points: tuple[Point, ...]
    shares_gpus: bool = False


def curves(
    results: Iterable[TrainingResult], ranks_of: Callable[[TrainingResult], Sequence[Steps]]
) -> list[Curve]:
    """All series of two or more numbers of ranks among valid results; of equal ones the newest counts.

    ``results``: the newest first; ``ranks_of`` gives the raw steps of one (``diagnosis.raw``).
    """
    series: dict[tuple[Kind, str, Way], dict[str | None, dict[int, TrainingResult]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for result in results:
        if not counts(result):
            continue
        ranks, size = _ranks(result), _batch_size(result)
        for way in _WAYS:
            weak, strong = (_key(result, batch, way) for batch in (size, size * ranks))
            series["weak", weak, way][_exchange(result)].setdefault(ranks, result)
            series["strong", strong, way][_exchange(result)].setdefault(ranks, result)
    return [
        _curve(kind, way, [of[ranks] for ranks in sorted(of)], ranks_of)
        for (kind, _, way), by in series.items()
        for of in _of_each_exchange(by)
        if len(of) > 1
    ]


def _of_each_exchange(
    by: Mapping[str | None, Mapping[int, TrainingResult]],
) -> Iterator[Mapping[int, TrainingResult]]:
    """One rank exchanges nothing, and stands before those of every backend."""
    alone = by.get(None, {})
    yield from ({**alone, **of} for backend, of in by.items() if backend is not None)


def counts(result: TrainingResult) -> bool:
    """Whether it is valid and has the figures that a curve needs."""
    summary = result.summary
    return (
        result.verdict.valid
        and summary is not None
        and summary.bare["samples_per_s"] is not None
        and summary.synchronised["step_ms"] is not None
        and bool(_job(result))
    )


def _curve(
    kind: Kind,
    way: Way,
    results: Sequence[TrainingResult],
    ranks_of: Callable[[TrainingResult], Sequence[Steps]],
) -> Curve:
    base = results[0]
    rate = _rate(base)
    base_parts = parts_of(ranks_of(base))
    points = []
    for result in results:
        share = _batch_size(result) / _batch_size(base)
        ratio = _rate(result).value / rate.value
        parts = base_parts if result is base else parts_of(ranks_of(result))
        ideal_ms = _step_ms(base) * share
        points.append(
            Point(
                ranks=_ranks(result),
                run_id=result.run_id,
                batch_size=_batch_size(result),
                cores=result.device.cores if result.device else None,
                threads=int(_job(result)["devices"]["threads"]),
                samples_per_s=_rate(result).value,
                ideal_step_ms=ideal_ms,
                step_ms=_step_ms(result),
                speedup=ratio,
                speedup_ci95=None if result is base else ratio_interval(rate, _rate(result), 0.95),
                efficiency=ratio * _ranks(base) / _ranks(result),
                parts=parts,
                lost_ms=_lost(base_parts, parts, share) if parts and base_parts else None,
            )
        )
    on_gpus = str(_job(base)["devices"].get("kind", "cpu")).startswith("gpu")
    return Curve(kind, _work(base, kind, way), tuple(points), on_gpus and way == "processes")


def _lost(base: Parts, parts: Parts, share: float) -> dict[str, float]:
    """What each part takes beyond its share of the first point's: they add up to the step beyond the ideal one."""
    return {name: parts.of(name) - share * base.of(name) for name in Parts.NAMES}


def _rate(result: TrainingResult) -> Mean:
    assert result.summary is not None
    bare = result.summary.bare
    low_high = bare["samples_per_s_ci95"]
    interval = (low_high[0], low_high[1]) if low_high else None
    return Mean(bare["samples_per_s"], interval, bare["rounds"], higher_is_better=True)


def _step_ms(result: TrainingResult) -> float:
    assert result.summary is not None
    return float(result.summary.synchronised["step_ms"]["mean"])


def _job(result: TrainingResult) -> dict[str, Any]:
    return fields_of(result)


def _batch_size(result: TrainingResult) -> int:
    return int(_job(result)["train"]["batch_size"])


def _count(result: TrainingResult) -> int:
    return int(_job(result)["devices"].get("count", 1))


def _processes(result: TrainingResult) -> int:
    return int(_job(result)["devices"]["processes"])


def _ranks(result: TrainingResult) -> int:
    return _count(result) * _processes(result)


def _exchange(result: TrainingResult) -> str | None:
    """Who exchanges its gradients; None of one rank."""
    if _ranks(result) == 1:
        return None
    return (result.engine.backend if result.engine else None) or "unknown"


def _key(result: TrainingResult, batch: int, way: Way) -> str:
    """The same of runs whose steps do the same work for each sample, on the same kind of device of one cluster, a
    processor with as many cores, by the same torch, with its images in place or copies of them (other storage), and
    differ along one way only. A module of the user's by one name is one network if it has as many parameters.
    """
    job = {name: value for name, value in _job(result).items() if name not in _HEAD}
    for block, names in _APART.items():
        job[block] = {name: value for name, value in job[block].items() if name not in names}
    device, engine, model = result.device, result.engine, result.model
    fixed = _processes(result) if way == "count" else _count(result)
    return json.dumps(
        [
            job,
            batch,
            fixed,
            device and device.name,
            _cores_of_each(result),
            result.cluster,
            engine and engine.version,
            model and model.parameters,
            brought(result),
        ],
        sort_keys=True,
        default=str,
    )


def _cores_of_each(result: TrainingResult) -> float | None:
    """Those of each processor that the run held, else those that all of its ranks shared; None of GPUs."""
    device = result.device
    if device is None or device.kind != "cpu" or device.cores is None:
        return None
    return device.cores / max(1, len(devices_of(result)))


def _work(result: TrainingResult, kind: Kind, way: Way) -> str:
    job, size = _job(result), _batch_size(result)
    batch = (
        f"batches of {size} for each rank"
        if kind == "weak"
        else f"batches of {size * _ranks(result)} for all ranks"
    )
    model = result.model.name if result.model else "?"
    device = result.device.name if result.device else None
    on = f" on {device}" if device else ""
    on += f", cluster {result.cluster}" if result.cluster else ""
    of_each = _processes(result)
    over = (
        f"{of_each} rank(s) on each device" if way == "count" else f"all ranks on {_count(result)} device(s)"
    )
    work = f"{job['train']['benchmark']} of {model}, {job['data']['kind']} ({job['data']['where']})"
    return f"{work}, {batch}{on}, {over}"
