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
    """What the phases without loading take beyond their CPU time on the cores that a rank has, and at most what all its
    threads waited for a core: whatever else blocks them (a device, other ranks, a disk), fewer threads don't mend.

    CPU time of threads has in it what they spin while they wait for each other, so that the gain is a lower bound.
    """
    per_rank = cores_of_a_rank(run)
    if not take_turns(run):
        return
    phases = run.rest_phases
    wall_ms = sum(phase.wall_ms for phase in phases.values())
    cpu_ms = sum(phase.cpu_ms for phase in phases.values())
    waits_ms = sum(phase.wait_ms for phase in phases.values())
    beyond_ms = wall_ms - cpu_ms * max(1.0, run.processes / run.cores) / per_rank
    gain_ms = min(beyond_ms, waits_ms)
    if gain_ms <= 0:
        return
    yield Cause(
        rule="threads",
        kind="cause",
        sentence=f"{run.processes} rank(s) with {run.threads} threads each take turns on {run.cores:g} granted "
        "core(s).",
        evidence=[
            f"computing takes {number(wall_ms)} ms of a step, with {number(cpu_ms)} ms of CPU time and "
            f"{number(waits_ms)} ms of waits for a core over all threads of a rank",
        ],
        remedy=f"Give each rank {per_rank} thread(s).",
        cost_s=gain_ms / 1e3,
        changes={"devices.threads": per_rank},
        gain_s=gain_ms / 1e3,
    )
