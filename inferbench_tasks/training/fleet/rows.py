"""What trainings say of the devices that ran them: the same job on each of a kind, a baseline, and what lies beyond.

Runs on several devices are judged as groups, beside other groups of as many: a group that is slow although each of its
devices is as its kind has a slow link.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.training.fleet.outliers import FALSE_ALARMS, LEAST_OTHERS, Outlier, outliers
from inferbench_tasks.training.result import TrainingResult

#: Of each device its newest runs of a job, so that one which was mended is judged by what it does now.
NEWEST = 5


@dataclass(frozen=True)
class Fleet:
    """One job on the devices of one kind, or on groups of them. ``step_s``: by device or group (``A + B``) the
    seconds of a step of its runs, the newest first. ``size``: devices of a group.
    """

    kind: str
    job: str
    step_s: Mapping[str, tuple[float, ...]]
    runs: Mapping[str, tuple[str, ...]]
    slow: tuple[Outlier, ...]
    size: int = 1

    @property
    def judged(self) -> bool:
        """Whether there are enough devices for a baseline."""
        return len(self.step_s) > LEAST_OTHERS


def fleets(results: Iterable[TrainingResult], rate: float = FALSE_ALARMS) -> list[Fleet]:
    """Valid runs on leased devices, the newest first, by job and kind of device; where two devices or groups have some.

    Single devices stand before groups.
    """
    series: dict[tuple[int, str, str], dict[str, list[tuple[float, str]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for result in results:
        members, step_s = devices_of(result), _step_s(result)
        if not members or step_s is None or not result.verdict.valid or result.submission.digest is None:
            continue
        of = series[len(members), _kind(result), result.submission.digest][" + ".join(members)]
        if len(of) < NEWEST:
            of.append((step_s, result.run_id))
    return [
        Fleet(
            kind=kind,
            size=size,
            job=job,
            step_s={device: tuple(step for step, _ in values) for device, values in of.items()},
            runs={device: tuple(run for _, run in values) for device, values in of.items()},
            slow=tuple(
                outliers({device: [step for step, _ in values] for device, values in of.items()}, rate)
            ),
        )
        for (size, kind, job), of in sorted(series.items(), key=lambda item: item[0][0])
        if len(of) > 1
    ]


def devices_of(result: TrainingResult) -> tuple[str, ...]:
    """The devices that it held, by id; () of a run that leased none."""
    return tuple(sorted(str(held["device_id"]) for held in result.extensions.get("devices") or []))


def device_of(result: TrainingResult) -> str | None:
    """The one device that ran it; None of a run that leased none, or several."""
    held = devices_of(result)
    return held[0] if len(held) == 1 else None


def sick(fleets: Iterable[Fleet]) -> set[str]:
    """The single devices that are named."""
    return {outlier.device for fleet in fleets if fleet.size == 1 for outlier in fleet.slow}


def history(results: Iterable[TrainingResult], device: str) -> list[dict[str, Any]]:
    """The runs on one device, alone or in a group, the newest first: the step of each, by the first of its job there.

    Only valid ones have a ratio: 1.2 is a step that takes a fifth longer than the first valid run did.
    """
    runs = [result for result in results if device in devices_of(result)]
    first: dict[Any, float] = {}
    rows = []
    for result in reversed(runs):
        step_s = _step_s(result) if result.verdict.valid else None
        key = result.submission.digest, devices_of(result)
        if step_s is not None:
            first.setdefault(key, step_s)
        rows.append(
            {
                "run": result.run_id,
                "created": result.created_at,
                "submission": result.submission.name,
                "with": " + ".join(one for one in devices_of(result) if one != device) or None,
                "step_ms": None if step_s is None else step_s * 1e3,
                "by_the_first": None if step_s is None else step_s / first[key],
                "verdict": str(result.verdict),
            }
        )
    return rows[::-1]


def lines(fleet: Fleet, slow_alone: Collection[str] = ()) -> list[dict[str, Any]]:
    """A line for each device or group, the slowest first: its step, by that of the others, and whether it is named.

    ``slow_alone``: the single devices that are named, which explain a slow group.
    """
    import numpy as np

    means = {device: float(np.exp(np.mean(np.log(values)))) for device, values in fleet.step_s.items()}
    named = {outlier.device: outlier for outlier in fleet.slow}
    rows = []
    for device, mean_s in sorted(means.items(), key=lambda item: -item[1]):
        others = [value for other, value in means.items() if other != device and other not in named]
        ratio = mean_s / float(np.exp(np.mean(np.log(others)))) if others else None
        rows.append(
            {
                "device": device,
                "kind": fleet.kind,
                "runs": len(fleet.step_s[device]),
                "step_ms": mean_s * 1e3,
                "by_the_others": ratio,
                "chance_up_to": named[device].bound if device in named else None,
                "is": _word(fleet, device, device in named, slow_alone),
            }
        )
    return rows


def _word(fleet: Fleet, device: str, named: bool, slow_alone: Collection[str]) -> str:
    if not named:
        return "as its kind" if fleet.judged else "not judged"
    if fleet.size == 1:
        return "slower than its kind"
    guilty = [one for one in device.split(" + ") if one in slow_alone]
    return f"slow for {', '.join(guilty)}" if guilty else "slow together: the link between them"


def _kind(result: TrainingResult) -> str:
    device = result.device
    return (
        f"{device.name or device.kind}, {device.cores:g} core(s)"
        if device and device.cores
        else str(device and device.name)
    )


def _step_s(result: TrainingResult) -> float | None:
    """Of the epochs without instruments: a step's share of one rank's samples/s has all that holds it up."""
    rate = result.summary.bare["samples_per_s"] if result.summary else None
    return 1 / rate if rate else None
