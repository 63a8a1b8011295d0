"""Energy, CO2 and money of a training: those of serving runs, over its epochs.

Energy is what was drawn from the start of the first epoch to the end of the last one, starts of loaders, warm-up and
instruments in it, by the samples of all of these epochs. What counts a whole machine while others used it stands apart
(``left_out``), and is not the training's. Money is by the samples/s without instruments: what an epoch
of nothing but steps costs. Methods and uncertainties: ``metrics.energy``, ``metrics.carbon``, ``metrics.cost``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.metrics.base import Measured
from inferbench_tasks.metrics.carbon import Carbon
from inferbench_tasks.metrics.cost import Cost
from inferbench_tasks.metrics.energy import Energy
from inferbench_tasks.monitors.records import Recording
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import Answer

if TYPE_CHECKING:
    from inferbench_tasks.loadgen.window import Window

MILLION = 1_000_000


@dataclass(frozen=True)
class Epochs:
    """All epochs of a training as one window, of which energy asks as of a load's. A request is an epoch of a rank."""

    start_ns: int
    end_ns: int
    #: Samples of each epoch of each rank.
    batch_size: NDArray[np.int64]

    @property
    def completed(self) -> NDArray[np.bool_]:
        """Each of them."""
        return np.ones(len(self.batch_size), bool)

    @property
    def duration_s(self) -> float:
        """Of all of them together."""
        return (self.end_ns - self.start_ns) / 1e9


def of_training(
    answers: Sequence[Answer],
    job: TrainingJob,
    recording: Recording,
    hardware: Mapping[str, Any],
    samples_per_s: float | None,
) -> dict[str, Any]:
    """``energy``, ``co2``, ``cost``: of an epoch of all ranks (``per_epoch``) and of a million samples
    (``per_million_samples``), each None with its ``reason`` where it is not known. ``samples_per_s``: of all ranks,
    without instruments.
    """
    epochs = [epoch for answer in answers for epoch in answer.epochs if epoch.ended_ns is not None]
    if not epochs:
        return untold("no epoch came to its end")
    each = samples_of_epoch(job)
    window = Epochs(
        start_ns=min(epoch.started_ns for epoch in epochs),
        end_ns=max(epoch.ended_ns or 0 for epoch in epochs),
        batch_size=np.full(len(epochs), each, np.int64),
    )
    summary: dict[str, Any] = {
        "throughput_rps": samples_per_s,
        "throughput_samples_per_s": samples_per_s,
        "goodput_rps": None,
    }
    measured = Measured(
        cast("Window", window), recording, summary, _with_its_gpu(hardware), DeviceSpec(job.devices.kind.kind)
    )
    summary["energy"] = energy = _energy(measured, job)
    carbon, cost = Carbon().compute(measured), Cost().compute(measured)
    epoch = each * job.devices.ranks
    # A GPU's price is of one device; a processor's is of all cores that the job had, on all of its devices.
    held = job.devices.count if job.devices.kind.kind == "gpu" else 1
    usd = None if cost.get("usd_per_1k_samples") is None else cost["usd_per_1k_samples"] * held
    told = ("method", "uncertainty_ratio", "scope", "power_w", "machine")
    return {
        "energy": {
            "unit": "J",
            **_of(energy.get("joule_per_sample"), epoch, energy["reason"]),
            **{name: energy.get(name) for name in told},
            "left_out": {
                method: {"per_epoch": one["joule_per_request"] * job.devices.ranks, "reason": one["reason"]}
                for method, one in (energy.get("left_out") or {}).items()
            },
        },
        "co2": {
            "unit": "g CO2e",
            **_of(_each(carbon.get("g_per_1k_samples")), epoch, carbon["reason"]),
            **{name: carbon.get(name) for name in ("region", "g_per_kwh", "source", "date")},
        },
        "cost": {
            "unit": "USD",
            **_of(_each(usd), epoch, cost["reason"]),
            "cheapest": _of_all(cost["instances"][0], held) if cost.get("instances") else None,
        },
    }


def untold(reason: str) -> dict[str, Any]:
    """None of it is known."""
    nothing = {"per_epoch": None, "per_million_samples": None, "reason": reason}
    return {"energy": nothing, "co2": nothing, "cost": nothing}


def _with_its_gpu(hardware: Mapping[str, Any]) -> dict[str, Any]:
    """Which product was used is known, too, where all GPUs of the host are of one."""
    gpus = hardware.get("gpus") or []
    alike = len({gpu["name"] for gpu in gpus}) == 1
    return {**hardware, "gpu": gpus[0]} if alike and not hardware.get("gpu") else dict(hardware)


def _of_all(instance: Mapping[str, Any], held: int) -> dict[str, Any]:
    """An instance's rate and its costs, which are of one device, for all that were held at once: ``devices``."""
    of_one = ("usd_per_hour", "usd_per_1k", "usd_per_1k_samples", "usd_per_1k_under_slo")
    costs = {name: instance[name] * held for name in of_one if instance[name] is not None}
    return {**instance, **costs, "devices": held}


def _energy(measured: Measured, job: TrainingJob) -> dict[str, Any]:
    if job.devices.kind.kind == "gpu" and job.devices.count > 1:
        reason = f"the monitors read one of the {job.devices.count} GPUs"
        return {"joule_per_request": None, "method": None, "reason": reason}
    return Energy().compute(measured)


def samples_of_epoch(job: TrainingJob) -> int:
    """What one rank takes of an epoch: all its samples, or those of ``max_steps``."""
    return min(job.samples_per_process, job.steps * job.samples_per_step)


def _each(per_thousand: float | None) -> float | None:
    return None if per_thousand is None else per_thousand / 1000


def _of(per_sample: float | None, epoch: int, reason: str | None) -> dict[str, Any]:
    if per_sample is None:
        return {"per_epoch": None, "per_million_samples": None, "reason": reason}
    return {"per_epoch": per_sample * epoch, "per_million_samples": per_sample * MILLION, "reason": None}
