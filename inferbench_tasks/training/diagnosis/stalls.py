"""Computing, preparing and fetching by differences of runs that differ in where their data lies (DS-Analyzer).

Mohan et al., *Analyzing and Mitigating Data Stalls in DNN Training*, VLDB 2021: computing is the step with data on the
device, batches what data in memory takes beyond it, preparing what warm files take beyond that, fetching what cold
files take beyond warm ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.fleet.rows import devices_of
from inferbench_tasks.training.result import TrainingResult
from inferbench_tasks.training.stored_job import fields_of

Place = Literal["device", "memory", "disk", "cold"]
PLACES: tuple[Place, ...] = get_args(Place)
#: What a run's place is called in words.
WORDS: Mapping[str, str] = {
    "device": "data on the device", "memory": "data in memory", "disk": "warm files", "cold": "cold files",
}  # fmt: skip
#: Stall -> the place that has it, and the one without.
STALLS: Mapping[str, tuple[Place, Place]] = {
    "batches": ("memory", "device"), "preparing": ("disk", "memory"), "fetching": ("cold", "disk"),
}  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """Of two means, ms, with its 95% interval (Welch 1947); None where a run has fewer than three rounds."""

    mean: float
    interval: tuple[float, float] | None

    def __str__(self) -> str:
        if self.interval is None:
            return f"{number(self.mean)} (no interval)"
        low, high = self.interval
        return f"{number(self.mean)} ({number(low)} to {number(high)})"


@dataclass(frozen=True)
class Stalls:
    """``runs``: by place; ``computing_ms``: None without a run with its data on the device; ``of``: by its name in
    ``STALLS``, those whose two runs are there.
    """

    runs: Mapping[Place, TrainingResult]
    computing_ms: float | None
    of: Mapping[str, Difference]

    def document(self) -> dict[str, Any]:
        """As JSON has it: ms, and the runs' ids."""
        return {
            "runs": {place: result.run_id for place, result in self.runs.items()},
            "computing_ms": self.computing_ms,
            **{
                f"{name}_ms": {"mean": found.mean, "ci95": list(found.interval) if found.interval else None}
                for name, found in self.of.items()
            },
        }

    def sentence(self) -> str:
        """What of a step is what, by these runs."""
        parts = [] if self.computing_ms is None else [f"computing {number(self.computing_ms)}"]
        parts += [f"{name} {found}" for name, found in self.of.items()]
        places = ", ".join(WORDS[place] for place in PLACES if place in self.runs)
        return f"By differences of {len(self.runs)} runs ({places}), ms of a step: {', '.join(parts)}."


def place_of(result: TrainingResult) -> Place:
    """Where its data lay."""
    return place_in(fields_of(result))


def place_in(job: Mapping[str, Any]) -> Place:
    """Where a job has its data lie."""
    data = job.get("data") or {}
    place: Place = "cold" if data.get("read") == "cold" else data.get("where", "disk")
    return place


def timing_of(result: TrainingResult) -> dict[str, Any] | None:
    """Its steps with instruments; None of a run that does not count, or has too few."""
    timing = result.summary.synchronised if result.summary else None
    return timing if result.verdict.valid and timing and timing["phases"] else None


def training_of(result: TrainingResult, of_job: Mapping[str, Any] | None = None) -> str:
    """The same of runs that differ in where their data lies, and in nothing else: the job, the cluster, the host, the
    devices that were held, and the engine with its versions. ``of_job``: its job, if that is known already.
    """
    job, device = fields_of(result) if of_job is None else of_job, result.device
    rest = {
        name: value for name, value in job.items() if name not in ("data", "name", "description", "expected")
    }
    data = {name: value for name, value in (job.get("data") or {}).items() if name not in ("where", "read")}
    machine = (
        (device.kind, device.name, device.cores) if device else None,
        result.cluster,
        devices_of(result),
        hosts_of(result),
    )
    engine = result.engine.model_dump() if result.engine else None
    return repr((rest, data, machine, engine))


def hosts_of(result: TrainingResult) -> tuple[str, ...]:
    """Those of the devices that it held; of a run that leased none the one that it ran on, () of older ones."""
    hosts = {str(held["host"]) for held in result.extensions.get("devices") or [] if held.get("host")}
    if not hosts:
        host = (result.environment.get("system") or {}).get("host")
        hosts = {str(host)} if host else set()
    return tuple(sorted(hosts))


def difference(timing: Mapping[str, Any], less: Mapping[str, Any]) -> Difference:
    """The mean step of one run less that of another."""
    from scipy.special import stdtrit

    means, variances, freedoms = [], [], []
    for of in (timing, less):
        step, rounds = of["step_ms"], of.get("rounds") or 0
        means.append(step["mean"])
        if step["ci95"] is not None and rounds >= 3:
            half = (step["ci95"][1] - step["ci95"][0]) / 2
            variances.append((half / float(stdtrit(rounds - 1, 0.975))) ** 2)
            freedoms.append(rounds - 1)
    mean = means[0] - means[1]
    if len(variances) < 2:
        return Difference(mean, None)
    total = sum(variances)
    if not total:
        return Difference(mean, (mean, mean))
    freedom = total**2 / sum(v**2 / f for v, f in zip(variances, freedoms, strict=True))
    half = float(stdtrit(freedom, 0.975)) * math.sqrt(total)
    return Difference(mean, (mean - half, mean + half))


def stalls_of(result: TrainingResult, others: Sequence[TrainingResult]) -> Stalls | None:
    """The differences of a run and its siblings among ``others``; of several in one place the first counts.

    None of a run that does not count, or that has no such sibling. ``result`` itself may be among them.
    """
    if timing_of(result) is None or not fields_of(result):
        return None
    runs: dict[Place, TrainingResult] = {place_of(result): result}
    training = training_of(result)
    for other in others:
        if timing_of(other) is not None and training_of(other) == training:
            runs.setdefault(place_of(other), other)
    if len(runs) < 2:
        return None
    timings = {place: timing for place, of in runs.items() if (timing := timing_of(of))}
    found = {
        name: difference(timings[place], timings[less])
        for name, (place, less) in STALLS.items()
        if place in timings and less in timings
    }
    device = timings.get("device")
    computing_ms = float(device["step_ms"]["mean"]) if device else None
    return Stalls(runs, computing_ms, found) if found or computing_ms is not None else None
