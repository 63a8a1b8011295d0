"""The exchange of gradients takes longer than backward has to hide it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.observation import Observation, Steps
from inferbench_tasks.training.diagnosis.thread_times import blocked_ns, held_ns, stopped_ratio, waits_told
from inferbench_tasks.training.exchange import Exchange
from inferbench_tasks.training.statistics import LEAST_STEPS

#: Ranks that exchange anything wait for it a little: of less of a step two ranks are 1.8 times as fast as one.
LEAST_SHARE = 0.1
#: Of the reducer's clocks that of what computing does not hide.
APART = Exchange.columns[1]


def find(run: Observation) -> Iterator[Cause]:
    """What of backward every rank waits for the exchange alone: the least of the ranks in each step.

    The rank that comes last waits for the exchange alone, the others for it as well. What is less than a tenth of a
    step is the price of several ranks, and no cause. A larger batch exchanges as much for more samples.
    """
    if run.processes < 2 or len(run.ranks) != run.processes:
        return
    waits = (_on_device if run.on_gpu else _on_cores)(run)
    if waits is None:
        return
    count = min(len(values) for values in waits)
    exchange_ms = float(np.array([values[:count] for values in waits]).min(axis=0).mean()) / 1e6
    if exchange_ms < LEAST_SHARE * run.step_ms:
        return
    size = run.job.train.batch_size
    larger = run.job.train.model_copy(update={"batch_size": 2 * size})
    enough = run.job.model_copy(update={"train": larger}).measured_steps >= LEAST_STEPS and 2 * size <= 4096
    gain_ms = exchange_ms / 2
    yield Cause(
        rule="exchange",
        kind="cause",
        sentence=f"The exchange of gradients holds it up: every rank waits {number(exchange_ms)} ms of a step for it, "
        "beyond what computing hides.",
        evidence=[
            _told(run),
            "of the rest the least of the ranks in each step counts: what the others have more is waiting for a rank",
        ],
        remedy="Exchange less often: batches twice as large halve it for a sample. Or a faster link.",
        cost_s=exchange_ms / 1e3,
        changes={"train.batch_size": 2 * size} if enough else {},
        gain_s=gain_ms / 1e3,
    )


def _on_cores(run: Observation) -> list[NDArray[np.float64]] | None:
    """What the thread of each rank neither computed nor waited for a core in backward, ns; None of several threads, for
    whose sums a wall time has no room, and where the kernel tells no waits. Of a rank that something stops
    (``stopped_ratio``) as much of backward is taken off.
    """
    if run.threads > 1 or any("backward_wall_ns" not in of or not waits_told(of) for of in run.ranks):
        return None
    return [_blocked_ns(run, steps) for steps in run.ranks]


def _on_device(run: Observation) -> list[NDArray[np.float64]] | None:
    """What the reducer's events on each GPU say of nccl's exchange behind the last gradient, ns: the thread is blocked
    while the device computes, and tells nothing. None where they were not kept.
    """
    if run.job.devices.exchange != "nccl":
        return None
    waits = [steps.get(APART) for steps in run.ranks]
    known = [values for values in waits if values is not None and not np.isnan(values).any()]
    return known if len(known) == len(waits) else None


def _told(run: Observation) -> str:
    backward = run.phases["backward"]
    if run.on_gpu:
        return (
            f"backward takes {number(backward.wall_ms)} ms; the rest of it behind the last gradient is by the "
            "reducer's events on the device"
        )
    return (
        f"backward takes {number(backward.wall_ms)} ms, of them CPU {number(backward.cpu_ms)} and waits for a core "
        f"{number(backward.wait_ms)} ms"
    )


def _blocked_ns(run: Observation, steps: Steps) -> NDArray[np.float64]:
    stopped_ns = stopped_ratio(run, steps) * held_ns(steps, "backward")
    left: NDArray[np.float64] = np.maximum(0.0, blocked_ns(steps, "backward") - stopped_ns)
    return left
