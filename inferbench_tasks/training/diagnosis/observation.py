"""A measured run as the rules see it: times of one step of one rank, ms, waits for a core apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.training.diagnosis.pipeline import Pipeline
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.result import TrainingResult
from inferbench_tasks.training.stored_job import job_of

#: The phases that a rank's step by itself has, too (``training.own_step``).
COMPUTED = ("forward", "loss", "backward")
#: A rank's measured steps in the order of time: column -> values, ns; NaN where null.
Steps = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class PhaseTimes:
    """Means of a phase, ms: wall clock, CPU time of all its threads, and wait for a core (0 where none is told).

    The wait is that of the thread that runs the step, beside which those wait that exchange gradients; of all threads
    together where torch has several, and of older results.
    """

    wall_ms: float
    cpu_ms: float
    wait_ms: float = 0.0

    @property
    def blocked_ms(self) -> float:
        """What it neither computed nor waited for a core: for other ranks, a device, a disk."""
        return max(0.0, self.wall_ms - self.cpu_ms - self.wait_ms)


@dataclass(frozen=True)
class Batch:
    """Making one batch in the process that makes it, ms, without waits for a core.

    ``cpu_ms``: its CPU time; ``read_ms``: the part that reads the storage; ``collate_ms``: the part that puts items
    together; ``wait_ms``: what it waited for a core beside. ``serialise_ms``, ``deserialise_ms``: handing it over to
    the rank, in either process, wall clock; None of a rank's own batches and of older results.
    """

    making_ms: float
    cpu_ms: float
    read_ms: float = 0.0
    collate_ms: float = 0.0
    wait_ms: float = 0.0
    serialise_ms: float | None = None
    deserialise_ms: float | None = None


@dataclass(frozen=True)
class Observation:
    """``step_ms``: mean over ranks and steps. ``cores``: those that the run may use. ``batch``: None where none
    is made.

    ``start_ms``: of the loader's processes in each epoch. ``warmup_ms``: a step of the warm-up, None without one.
    ``bare_step_ms``: without instruments. ``ranks``: steps by rank. ``probes``: see ``training.probes``. ``jade``: see
    ``training.jade``; None where it was not asked for. ``memory``: see ``training.memory_figures``, None of older
    runs. ``events``: see ``figures.events``, None where they were not asked for. ``device``: its name.
    ``clocks_ms``: of the step, that in which the phases' clocks were read; 0 of older results.
    """

    job: TrainingJob
    cores: float
    step_ms: float
    phases: Mapping[str, PhaseTimes]
    batch: Batch | None = None
    start_ms: float = 0.0
    warmup_ms: float | None = None
    bare_step_ms: float | None = None
    ranks: Sequence[Steps] = ()
    probes: Mapping[str, float | None] = field(default_factory=dict)
    jade: Mapping[str, Any] | None = None
    memory: Mapping[str, Any] | None = None
    events: Mapping[str, Any] | None = None
    device: str | None = None
    clocks_ms: float = 0.0

    @property
    def processes(self) -> int:
        """Ranks."""
        return self.job.devices.ranks

    @property
    def workers(self) -> int:
        """Loader processes of each rank; none where no loader makes the batches."""
        return self.job.workers

    @property
    def threads(self) -> int:
        """torch's threads in each rank."""
        return self.job.devices.threads

    @property
    def on_gpu(self) -> bool:
        """Whether its threads are blocked while a device computes for them."""
        return self.job.devices.kind.kind == "gpu"

    @property
    def rest_phases(self) -> dict[str, PhaseTimes]:
        """The phases without loading."""
        return {name: phase for name, phase in self.phases.items() if name != "loading"}

    @property
    def rest_wait_ms(self) -> float:
        """What the phases without loading waited for a core; several threads wait at once, so only of one thread."""
        return sum(phase.wait_ms for phase in self.rest_phases.values()) if self.threads == 1 else 0.0

    @cached_property
    def pipeline(self) -> Pipeline | None:
        """The step as a pipeline of making batches and of all that follows; None where no batch is made."""
        batch, loading = self.batch, self.phases.get("loading")
        if batch is None or loading is None:
            return None
        rest_ms = max(self.step_ms - loading.wall_ms - self.rest_wait_ms, 1e-6)
        rest_cpu_ms = min(sum(phase.cpu_ms for phase in self.rest_phases.values()), rest_ms * self.threads)
        hand_over_ms, crowded_ms = self.probes.get("hand_over_ms"), self.crowded_ms
        if self.workers:
            hand_over_ms = max(0.0, loading.wall_ms - loading.wait_ms - self._stall_ms(batch, rest_ms))
            crowded_ms = min(crowded_ms, rest_ms, rest_cpu_ms)
            rest_ms, rest_cpu_ms = rest_ms - crowded_ms, rest_cpu_ms - crowded_ms
        return Pipeline(
            ranks=self.processes,
            cores=self.cores,
            workers=self.workers,
            making_ms=batch.making_ms,
            making_cpu_ms=batch.cpu_ms,
            rest_ms=rest_ms,
            rest_cpu_ms=rest_cpu_ms,
            hand_over_ms=hand_over_ms,
            crowded_ms=crowded_ms,
            own_making_ms=self.probes.get("own_making_ms"),
        )

    @property
    def computing_ms(self) -> float:
        """Forward, loss and backward, without waits for a core (of several threads, whose waits are sums,
        with them) and, of several ranks, for one another.
        """
        alone, others = self.threads == 1, self.processes > 1 and not self.on_gpu
        return sum(
            phase.wall_ms - (phase.wait_ms if alone else 0.0) - (phase.blocked_ms if others else 0.0)
            for name, phase in self.phases.items()
            if name in COMPUTED
        )

    @property
    def crowded_ms(self) -> float:
        """What computing takes longer beside a loader process than alone, by the probes; of a run with such processes
        by its own steps. 0 where that is not known: without these probes, and, with such processes, of several ranks.
        """
        alone_ms, beside_ms = self.probes.get("alone_ms"), self.probes.get("beside_ms")
        if self.workers:
            # Several ranks are slower beside each other, too: by itself is without the others.
            beside_ms = self.computing_ms if self.processes == 1 else None
        return max(0.0, beside_ms - alone_ms) if alone_ms is not None and beside_ms is not None else 0.0

    def _stall_ms(self, batch: Batch, rest_ms: float) -> float:
        """What the rank waits for a batch that is not made yet: its loader processes need longer than all that follows.

        As it was, with the waits for a core of both: a batch that comes late since its process had no core is not
        handed over slowly. By the work alone where the processes' waits are not told, or shorter than the rank's.
        """
        follows_ms = self.step_ms - self.phases["loading"].wall_ms
        late_ms = (batch.making_ms + batch.wait_ms) / self.workers - follows_ms
        return max(0.0, batch.making_ms / self.workers - rest_ms, late_ms)


def of_result(result: TrainingResult, ranks: Sequence[Steps] = ()) -> Observation | None:
    """None of a run without enough steps for figures, or without a job that this version reads; ``ranks``: see
    ``diagnosis.raw``.
    """
    summary = result.summary
    timing = summary.synchronised if summary else None
    if summary is None or timing is None or not timing["phases"]:
        return None
    job = job_of(result)
    if job is None:
        return None
    wait_of = "own_wait_ms" if job.devices.threads == 1 else "wait_ms"
    phases = {
        name: PhaseTimes(of["wall_ms"]["mean"], of["cpu_ms"], of.get(wait_of, of["wait_ms"]) or 0.0)
        for name, of in timing["phases"].items()
    }
    rate = summary.bare["samples_per_s"]
    return Observation(
        job=job,
        cores=_cores(result, job),
        step_ms=timing["step_ms"]["mean"],
        phases=phases,
        batch=_batch(
            summary.loader,
            phases,
            job,
            timing["steps"] * len(timing["ranks"]),
            summary.probes.get("own_making_ms"),
        ),
        start_ms=summary.loader.get("start_ms") or 0.0,
        warmup_ms=timing["warmup"]["mean_step_ms"],
        bare_step_ms=job.samples_per_step * job.devices.ranks / rate * 1e3 if rate else None,
        ranks=ranks,
        probes=summary.probes,
        jade=summary.jade,
        memory=summary.memory,
        events=summary.events,
        device=result.device.name if result.device else None,
        clocks_ms=timing.get("clocks_ms") or 0.0,
    )


def _cores(result: TrainingResult, job: TrainingJob) -> float:
    """Those that its ranks may use together: the granted ones, or as many as each is pinned to."""
    granted = _held_cores(result) or (result.device.cores if result.device else None) or 1.0
    each = job.devices.cores
    return granted if each is None else min(granted, float(each * job.devices.ranks))


def _held_cores(result: TrainingResult) -> int:
    """Those of all devices of its host that the run held together; 0 of a run that held none, or one.

    On two hosts cores of one number are two: there the result says how many there were.
    """
    if result.extensions.get("hosts"):
        return 0
    devices = result.extensions.get("devices") or []
    return len({core for device in devices for core in device["cores"]}) if len(devices) > 1 else 0


def _batch(
    loader: Mapping[str, Any],
    phases: Mapping[str, PhaseTimes],
    job: TrainingJob,
    batches: int,
    own_making_ms: float | None,
) -> Batch | None:
    parts = loader.get("parts")
    if not parts:
        return None
    if job.workers:
        wait_ms, cpu_ms = ((loader.get(name) or 0.0) * 1e3 / batches for name in ("wait_s", "cpu_s"))
        if parts.get("made_wait_ms") is not None:
            wait_ms = parts["made_wait_ms"]
        # Of a short epoch most batches are made before the measured steps; what hands them over is in these alone.
        cpu_ms = max(cpu_ms, parts.get("made_cpu_ms") or 0.0)
        # A process that has just started computes more for its first batch than for any other.
        if own_making_ms is not None:
            cpu_ms = min(cpu_ms, own_making_ms)
    else:
        wait_ms, cpu_ms = phases["loading"].wait_ms, phases["loading"].cpu_ms
    making_ms = max(parts["making_ms"] - wait_ms, 0.0)
    return Batch(
        making_ms=making_ms,
        cpu_ms=min(cpu_ms, making_ms) if not job.workers else cpu_ms,
        read_ms=min(parts["read_ms"], making_ms),
        collate_ms=parts["collate_ms"],
        wait_ms=wait_ms,
        serialise_ms=parts.get("serialise_ms"),
        deserialise_ms=parts.get("deserialise_ms"),
    )
