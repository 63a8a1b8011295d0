"""The device of the run is slower than its kind: throttled, shared, or sick."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.fleet.outliers import FALSE_ALARMS
from inferbench_tasks.training.fleet.rows import brought, device_of, fleets, version_of
from inferbench_tasks.training.result import TrainingResult
from inferbench_tasks.training.stored_job import step_s


def find(result: TrainingResult, others: Sequence[TrainingResult], step_ms: float) -> Iterator[Cause]:
    """By the baseline of ``training fleet``: valid runs of the same job on devices of the same kind, five at least.

    The device is named by its newest runs; this run, which may be another, has to be beyond the bound itself, and its
    cost is by its own step. ``others``: the newest first, the run itself among them.
    """
    device = device_of(result)
    if device is None or result.submission.digest is None:
        return
    digest, version = result.submission.digest, version_of(result)
    same = [o for o in others if o.submission.digest == digest and version_of(o) == version]
    for fleet in fleets(o for o in same if brought(o) == brought(result)):
        for slow in fleet.slow:
            if slow.device != device:
                continue
            ratio = slow.ratio * _by_the_newest(result, fleet.step_s[device])
            if ratio <= slow.bound:
                continue
            cost_ms = step_ms * (1 - 1 / ratio)
            warnings = [str(text) for text in result.certificate.get("warnings", []) if "clock" in str(text)]
            yield Cause(
                rule="slow_device",
                kind="cause",
                sentence=f"Its device {device} is slower than its kind: {ratio:.2f} times the others' step.",
                evidence=[
                    f"{len(fleet.step_s)} devices of {fleet.kind} ran this job; chance explains up to "
                    f"{slow.bound:.2f} times, at {FALSE_ALARMS:.0%} of fleets with equal devices",
                    f"newest runs of this device: {', '.join(fleet.runs[device])}, {slow.ratio:.2f} times the others'; "
                    "of this run's step it is "
                    f"{number(cost_ms)} of {number(step_ms)} ms",
                    *warnings,
                ],
                remedy="See what else uses it, its clocks and its cooling; `inferbench training fleet --quarantine` "
                "takes "
                "it out.",
                cost_s=cost_ms / 1e3,
                gain_s=cost_ms / 1e3,
            )


def _by_the_newest(result: TrainingResult, newest_s: Sequence[float]) -> float:
    """The run's step by the geometric mean of its device's newest ones, ``newest_s``, all of one job; 0 without one."""
    own_s = step_s(result)
    return own_s / math.exp(sum(map(math.log, newest_s)) / len(newest_s)) if own_s else 0.0
