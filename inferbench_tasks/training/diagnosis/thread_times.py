"""What the thread that runs the steps did in a phase: computed, waited for a core, or was blocked by something else.

Of a forward pass without the exchange of running statistics that it begins with, where that was timed.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.errors import InputError
from inferbench_tasks.training import networks
from inferbench_tasks.training.diagnosis.observation import Observation, Steps
from inferbench_tasks.training.exchange import Exchange

#: Phases in which a rank waits for the others: backward exchanges gradients, gather answers.
TOGETHER: Final = ("backward", "gather")


def wall_ns(steps: Steps, phase: str) -> NDArray[np.float64]:
    """How long it took in each step."""
    wall: NDArray[np.float64] = steps[f"{phase}_wall_ns"] - _shared(steps, phase, "")
    return wall


def statistics_timed(steps: Steps) -> bool:
    """Whether a rank's exchange of running statistics was timed in every step; 0 where it has none."""
    return all(name in steps and not np.isnan(steps[name]).any() for name in Exchange.statistics)


def shared_ns(steps: Steps) -> NDArray[np.float64]:
    """What the exchange of running statistics was blocked in each step."""
    wall, cpu, wait = (steps[name] for name in Exchange.statistics)
    blocked: NDArray[np.float64] = np.maximum(0.0, wall - cpu - wait)
    return blocked


def cpu_ns(steps: Steps, phase: str) -> NDArray[np.float64]:
    """Its CPU time in each step; of older runs that of all threads of the process."""
    own = steps.get(f"{phase}_own_cpu_ns")
    return np.nan_to_num(own if own is not None else steps[f"{phase}_cpu_ns"]) - _shared(steps, phase, "_cpu")


def waited_ns(steps: Steps, phase: str) -> NDArray[np.float64]:
    """Its waits for a core in each step.

    Other threads of the process wait beside it, not before it: the sum of all threads, which is all that older runs
    have, counts at most as far as the wall time has room for it.
    """
    own = steps.get(f"{phase}_own_wait_ns")
    if own is not None:
        return np.nan_to_num(own) - _shared(steps, phase, "_wait")
    room = np.maximum(0.0, wall_ns(steps, phase) - cpu_ns(steps, phase))
    return np.minimum(np.nan_to_num(steps[f"{phase}_wait_ns"]), room)


def waits_told(steps: Steps) -> bool:
    """Whether the kernel told what the thread waited for a core: else what it waited is not told from being blocked."""
    phases = [name.removesuffix("_wall_ns") for name in steps if name.endswith("_wall_ns")]
    waits = [steps.get(f"{phase}_own_wait_ns", steps.get(f"{phase}_wait_ns")) for phase in phases]
    return not any(of is None or np.isnan(of).any() for of in waits)


def blocked_ns(steps: Steps, phase: str) -> NDArray[np.float64]:
    """What it in each step neither computed nor waited for a core: for other ranks, a disk, a device, or stopped."""
    left = wall_ns(steps, phase) - cpu_ns(steps, phase) - waited_ns(steps, phase)
    blocked: NDArray[np.float64] = np.maximum(0.0, left)
    return blocked


def held_ns(steps: Steps, phase: str) -> NDArray[np.float64]:
    """The wall time of each step without waits for a core."""
    held: NDArray[np.float64] = np.maximum(0.0, wall_ns(steps, phase) - waited_ns(steps, phase))
    return held


def unblocked_phases(run: Observation) -> tuple[str, ...]:
    """The phases that compute only: what blocks a thread there is no disk, loader or other rank.

    Forward is one without the exchange of running statistics, which it begins with in a training: where that was timed,
    or of a network of ours without any.
    """
    job = run.job
    exchanges = job.train.benchmark == "train"  # any other runs the network itself in each rank
    if not exchanges or (run.ranks and all(statistics_timed(steps) for steps in run.ranks)):
        return ("forward", "loss", "optimiser")
    try:
        own_forward = job.model.kind == "network" and not networks.of(job).has_statistics
    except InputError:  # of a package that is not installed here, or can't be imported: nobody knows
        own_forward = False
    return ("forward", "loss", "optimiser") if own_forward else ("loss", "optimiser")


def _shared(steps: Steps, phase: str, what: str) -> NDArray[np.float64] | float:
    """Of a phase's time that of the exchange of running statistics within it."""
    if phase != "forward" or not statistics_timed(steps):
        return 0.0
    return steps[f"statistics{what}_ns"]


def stopped_ratio(run: Observation, steps: Steps, begins: int = 0) -> float:
    """The share of its time (waits for a core apart) in which something stopped a rank: what of the phases that compute
    only it was blocked, and so of all the others. A debugger, a freezer, a hypervisor. 0 of a GPU's ranks: nobody can
    tell what stops them from the device that they wait for. 0 as well where the kernel tells no waits for a core, which
    would be taken for stops.
    """
    if run.on_gpu or not waits_told(steps):
        return 0.0
    phases = [phase for phase in unblocked_phases(run) if f"{phase}_wall_ns" in steps]
    held = sum(float(held_ns(steps, phase)[begins:].sum()) for phase in phases)
    blocked = sum(float(blocked_ns(steps, phase)[begins:].sum()) for phase in phases)
    return blocked / held if held else 0.0
