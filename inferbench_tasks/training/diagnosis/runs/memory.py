"""The ranks have too little memory: what was thrown away or swapped out is read again in the middle of their work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.observation import Observation
from inferbench_tasks.training.diagnosis.thread_times import blocked_ns, stopped_ratio
from inferbench_tasks.training.job import ENCODED

#: Fewer faults in a step than this are the first touch of a file now and then.
LEAST_FAULTS = 1.0
_MB = 1e6


def find(run: Observation) -> Iterator[Cause]:
    """What tasks stood still for want of memory (PSI), where the ranks have major faults or the machine swaps; at least
    what they were blocked while they read again what every epoch reads (``read_again_ms``): the kernel counts pages
    alone that it knew to be in use.

    Of the ranks' own cgroup the kernel's count is theirs; of the machine it is at most what the ranks' threads were
    blocked themselves, as others may stand still too. Without loader processes enough memory gains all of it; what
    stalls of theirs, or fewer of them, cost a step nobody can tell before. A kernel without PSI leaves the share of
    the time in which a rank was blocked where it only computes.
    """
    memory, changes = run.memory, _changes(run)
    cost_ms = stalls_ms(run)
    if memory is None or not cost_ms:
        return
    yield Cause(
        rule="memory",
        kind="cause",
        sentence=f"Too little memory holds it up: for {number(cost_ms)} ms of a step its processes wait for pages "
        "that were thrown away or swapped out.",
        evidence=_evidence(memory, read_again_ms(run)),
        remedy=f"Give it more memory{_need(memory)}; or have it hold less: {_less(run)}.",
        cost_s=cost_ms / 1e3,
        changes=changes,
        gain_s=None if run.workers else cost_ms / 1e3,
    )


def stalls_ms(run: Observation) -> float:
    """What a step loses for want of memory; 0 of a run that has no faults, and swaps nothing."""
    memory = run.memory
    if memory is None or (memory["major_faults"] < LEAST_FAULTS and not memory["swapped_in_bytes"]):
        return 0.0
    # While a GPU computes its thread is blocked, too: there only loading tells.
    phases = (phase for name, phase in run.phases.items() if name == "loading" or not run.on_gpu)
    blocked_ms = sum(phase.blocked_ms for phase in phases)
    ratio = memory["stalled_ratio"]
    if ratio is None:
        each = [stopped_ratio(run, steps) for steps in run.ranks]
        return max(run.step_ms * max(each, default=0.0), read_again_ms(run))
    stalled_ms = float(min(1.0, ratio) * run.step_ms)
    # CPU times of several threads are sums: what is left of the wall clock says nothing then.
    if memory["scope"] == "machine" and run.threads == 1:
        stalled_ms = min(stalled_ms, blocked_ms)
    return max(stalled_ms, read_again_ms(run))


def read_again_ms(run: Observation) -> float:
    """What a rank was blocked in a step while it read an array that all epochs read whole, in the rounds after the
    first: what it waited for had been in memory, for nothing else is read there.

    0 of files, which are read whether they are in memory or not; of epochs of a part of the data; where loader
    processes read, of whom nobody knows how long they were blocked in it; and where the steps are not known.
    """
    job = run.job
    whole = job.loads and job.data.where == "disk" and job.train.max_steps is None
    if not whole or run.workers or job.data.kind in ENCODED:
        return 0.0
    each = []
    for steps in run.ranks:
        if not {"round", "read_ns", "loading_wall_ns"} <= steps.keys():
            return 0.0
        blocked = np.minimum(np.nan_to_num(steps["read_ns"]), blocked_ns(steps, "loading"))
        later = blocked[steps["round"] > 0]
        each.append(float(later.mean()) / 1e6 if len(later) else 0.0)
    return float(np.mean(each)) if each else 0.0


def stalled_making_ms(run: Observation) -> float:
    """Of making a batch what was a stall for want of memory: no more than it took beside computing.

    The kernel tells a step's stalls; loader processes make a batch during as many steps as they are.
    """
    batch = run.batch
    if batch is None:
        return 0.0
    return min(stalls_ms(run) * max(1, run.workers), max(0.0, batch.making_ms - batch.cpu_ms))


def _evidence(memory: Any, again_ms: float) -> list[str]:
    where = "their cgroup" if memory["scope"] == "cgroup" else "the machine"
    lines = [
        "faults that had to wait for a disk, of all ranks and their loader processes: "
        f"{number(memory['major_faults'])} a step"
    ]
    if memory["stalled_ratio"] is not None:
        lines.append(
            f"some task of {where} waited for memory for {memory['stalled_ratio']:.1%} of the time (PSI)"
            + (", at least, in the epochs after the first" if memory.get("later") else "")
        )
    if again_ms:
        lines.append(
            "blocked while reading what every epoch had read before, in the rounds after the first: "
            f"{number(again_ms)} ms of a step"
        )
    if memory["swapped_in_bytes"] is not None:
        lines.append(
            f"swapped in and out, of the machine: {number(memory['swapped_in_bytes'] / _MB)} and "
            f"{number((memory['swapped_out_bytes'] or 0.0) / _MB)} MB a step"
        )
    told = {
        "resident at most": memory["most_resident_bytes"],
        "allowed": memory["limit_bytes"],
        "the machine's least available": memory["least_available_bytes"],
    }
    if known := [f"{name} {value / _MB:,.0f} MB" for name, value in told.items() if value is not None]:
        lines.append(", ".join(known))
    return lines


def _need(memory: Any) -> str:
    limit = memory["limit_bytes"]
    return f" than the {limit / _MB:,.0f} MB that its cgroup has" if limit else ""


def _changes(run: Observation) -> dict[str, Any]:
    """Loader processes beyond what the pipeline needs hold memory for nothing."""
    best = run.pipeline.best.workers if run.pipeline else 0
    return {"loader.workers": best} if run.workers > best else {}


def _less(run: Observation) -> str:
    ways = []
    if changes := _changes(run):
        ways.append(f"{changes['loader.workers']} loader process(es) for each rank are enough")
    elif run.workers:
        ways.append("fewer loader processes or batches ahead")
    if run.job.data.where == "memory":
        ways.append("each rank holds all its data in memory (data.where: disk holds none)")
    return "; ".join([*ways, "smaller batches"])
