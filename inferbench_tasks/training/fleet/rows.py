"""What trainings say of the devices that ran them: the same job on each of a kind, a baseline, and what lies beyond."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.training.fleet.outliers import FALSE_ALARMS, LEAST_OTHERS, Outlier, outliers
from inferbench_tasks.training.result import TrainingResult

#: Of each device its newest runs of a job, so that one which was mended is judged by what it does now.
NEWEST = 5


@dataclass(frozen=True)
class Fleet:
    """One job on the devices of one kind. ``step_s``: by device the seconds of a step of its runs, the newest first."""

    kind: str
    job: str
    step_s: Mapping[str, tuple[float, ...]]
    runs: Mapping[str, tuple[str, ...]]
    slow: tuple[Outlier, ...]

    @property
    def judged(self) -> bool:
        """Whether there are enough devices for a baseline."""
        return len(self.step_s) > LEAST_OTHERS


def fleets(results: Iterable[TrainingResult], rate: float = FALSE_ALARMS) -> list[Fleet]:
    """Valid runs of one device each, the newest first, by job and kind of device; those of two devices and more."""
    series: dict[tuple[str, str], dict[str, list[tuple[float, str]]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        device, step_s = device_of(result), _step_s(result)
        if device is None or step_s is None or not result.verdict.valid or result.submission.digest is None:
            continue
        of = series[_kind(result), result.submission.digest][device]
        if len(of) < NEWEST:
            of.append((step_s, result.run_id))
    return [
        Fleet(
            kind=kind,
            job=job,
            step_s={device: tuple(step for step, _ in values) for device, values in of.items()},
            runs={device: tuple(run for _, run in values) for device, values in of.items()},
            slow=tuple(
                outliers({device: [step for step, _ in values] for device, values in of.items()}, rate)
            ),
        )
        for (kind, job), of in series.items()
        if len(of) > 1
    ]


def device_of(result: TrainingResult) -> str | None:
    """The device that ran it; None of a run that leased none, or several."""
    held = result.extensions.get("devices") or []
    return str(held[0]["device_id"]) if len(held) == 1 else None


def lines(fleet: Fleet) -> list[dict[str, Any]]:
    """A line for each device, the slowest first: its step, by that of the others, and whether it is named."""
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
                "is": "slower than its kind"
                if device in named
                else "as its kind"
                if fleet.judged
                else "not judged",
            }
        )
    return rows


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
