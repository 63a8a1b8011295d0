"""torch has more threads than the granted cores."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.observation import Observation


def cores_of_a_rank(run: Observation) -> int:
    """One at least."""
    return max(1, int(run.cores // run.processes))


def take_turns(run: Observation) -> bool:
    """Whether a rank has more threads than cores."""
    return run.threads > cores_of_a_rank(run)


def find(run: Observation) -> Iterator[Cause]:
    """What computing takes beyond the same work with as many threads as cores, by the probe ``fewer_threads_ms``."""
    if not take_turns(run):
        return
    per_rank = cores_of_a_rank(run)
    fewer_ms = run.probes.get("fewer_threads_ms")
    if fewer_ms is not None and run.probes.get("fewer_threads") == per_rank:
        gain_ms = _computing_ms(run) - fewer_ms
        by = f"by itself, with {per_rank} thread(s), the same work takes {number(fewer_ms)} ms"
    else:
        gain_ms = _least_gain_ms(run, per_rank)
        by = "the gain is a lower bound: CPU time of threads has in it what they spin while they wait for each other"
    if gain_ms <= 0:
        return
    phases = run.rest_phases.values()
    wall_ms, cpu_ms, waits_ms = (
        sum(getattr(phase, name) for phase in phases) for name in ("wall_ms", "cpu_ms", "wait_ms")
    )
    yield Cause(
        rule="threads",
        kind="cause",
        sentence=f"{run.processes} rank(s) with {run.threads} threads each take turns on {run.cores:g} granted "
        "core(s).",
        evidence=[
            f"computing takes {number(wall_ms)} ms of a step, with {number(cpu_ms)} ms of CPU time and "
            f"{number(waits_ms)} ms of waits for a core over all threads of a rank",
            by,
        ],
        remedy=f"Give each rank {per_rank} thread(s).",
        cost_s=gain_ms / 1e3,
        changes={"devices.threads": per_rank},
        gain_s=gain_ms / 1e3,
    )


def _computing_ms(run: Observation) -> float:
    """Forward, loss and backward; of several ranks without their exchange, which is not in the probe."""
    alone_ms = run.probes.get("alone_ms")
    if run.processes > 1 and alone_ms is not None:
        return min(run.computing_ms, alone_ms)
    return run.computing_ms


def _least_gain_ms(run: Observation, per_rank: int) -> float:
    """What the phases without loading take beyond their CPU time on the cores that a rank has, and at most what all its
    threads waited for a core: whatever else blocks them (a device, other ranks, a disk), fewer threads don't mend.
    """
    phases = run.rest_phases.values()
    wall_ms = sum(phase.wall_ms for phase in phases)
    cpu_ms = sum(phase.cpu_ms for phase in phases)
    beyond_ms = wall_ms - cpu_ms * max(1.0, run.processes / run.cores) / per_rank
    return min(beyond_ms, sum(phase.wait_ms for phase in phases))
