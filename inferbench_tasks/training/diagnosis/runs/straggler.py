"""One rank is slower than the others, which wait for it in the exchange of gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.training.diagnosis.base import LEAST_SHARE, Cause
from inferbench_tasks.training.diagnosis.observation import Observation, Steps

#: Phases in which no rank waits for another.
OWN = ("loading", "to_device", "processing", "loss", "optimiser")
#: Networks without running statistics: of the others forward begins with the exchange of these.
_OWN_FORWARD = ("fashion-cnn",)
#: Steps whose means are compared, so that those of one block say nothing of the next one.
BLOCK_STEPS = 10
#: Fewer blocks tell nothing. A short stretch has smaller ones, to have as many as are worth it.
_LEAST_BLOCKS, _LEAST_BLOCK_STEPS, _ENOUGH_BLOCKS = 5, 5, 10
#: Of runs with equal ranks so many may have one named, whatever the number of ranks and steps.
FALSE_ALARMS = 1e-3
#: So much of the others' time the excess has to be.
_LEAST_EXCESS = 0.1


def find(run: Observation) -> Iterator[Cause]:
    """The rank whose own phases take longer than those of all others, beyond chance; a step waits for it.

    Of all ranks the slowest is looked at, and of all steps those since the best split: ``FALSE_ALARMS`` is divided
    among the ranks, half of it is for all steps, half for what may have begun later, divided among the blocks in which
    it may have (Bonferroni).

    A rank that is slower by a factor is that in all that it computes: in what it does between exchanges, and in its
    part of backward, for which the CPU time of the others stands.
    """
    if run.processes < 2 or len(run.ranks) != run.processes or run.threads > 1:
        return
    phases = (*OWN, "forward") if run.job.model.name in _OWN_FORWARD else OWN
    own_ms = [own_of(steps, phases) for steps in run.ranks]
    count = min(map(len, own_ms))
    times = np.array([of[:count] for of in own_ms])
    means = times.mean(axis=1)
    slow = int(means.argmax())
    others = np.delete(times, slow, axis=0)
    excess = times[slow] - others.mean(axis=0)
    rate = FALSE_ALARMS / 2 / run.processes
    begins = since(excess)
    if begins and not beyond_chance(excess[begins:], rate / max(1, count // BLOCK_STEPS)):
        begins = 0  # nothing begins there beyond chance; all steps together may show more
    after = excess[begins:]
    if not begins and not beyond_chance(after, rate):
        return
    others_ms = float(others[:, begins:].mean())
    factor = 1 + float(after.mean()) / others_ms
    if factor < 1 + _LEAST_EXCESS:
        return
    backward_ms = [
        float(steps["backward_cpu_ns"][:count][begins:].mean()) / 1e6
        for rank, steps in enumerate(run.ranks)
        if rank != slow and "backward_cpu_ns" in steps
    ]
    lost_ms = (factor - 1) * (others_ms + (float(np.mean(backward_ms)) if backward_ms else 0.0))
    cost_ms = lost_ms * len(after) / count
    if cost_ms < LEAST_SHARE * run.step_ms:
        return
    waits = [
        f"rank {rank} {float(blocked_ns(steps)[begins:].mean()) / 1e6:.3g}"
        for rank, steps in enumerate(run.ranks)
        if "backward_wall_ns" in steps
    ]
    when = "all the time" if begins == 0 else f"since measured step {begins}"
    yield Cause(
        rule="straggler",
        kind="cause",
        sentence=f"Rank {slow} is a straggler {when}: it takes {factor:.2f} times as long as the others for what each "
        "rank does by itself, and they wait for it.",
        evidence=[
            f"between exchanges, ms of a step: rank {slow} {float(times[slow, begins:].mean()):.3g}, the others "
            f"{others_ms:.3g}, over {len(after)} steps",
            f"in backward neither computing nor waiting for a core, ms: {', '.join(waits) or 'no backward'}",
        ],
        remedy=f"See what else runs on the core, device or host of rank {slow}, and train without it.",
        cost_s=cost_ms / 1e3,
        gain_s=cost_ms / 1e3,
    )


def own_of(steps: Steps, phases: Sequence[str]) -> NDArray[np.float64]:
    """What these phases of a rank take in each step, ms, without waits for a core, which are the rule ``cores``'."""
    walls = [
        np.maximum(0.0, steps[f"{phase}_wall_ns"] - np.nan_to_num(steps[f"{phase}_wait_ns"]))
        for phase in phases
        if f"{phase}_wall_ns" in steps
    ]
    total: NDArray[np.float64] = np.sum(walls, axis=0) / 1e6
    return total


def since(excess: NDArray[np.float64]) -> int:
    """The first step from which on the excess has another mean: the split with the least squares; 0 without one.

    Page (1954) by least squares; the part before it must show no excess of its own.
    """
    count, total = len(excess), float(excess.sum())
    if count < 2 * BLOCK_STEPS:
        return 0
    at = np.arange(BLOCK_STEPS, count - BLOCK_STEPS + 1)
    before = np.cumsum(excess)[at - 1]
    gains = before**2 / at + (total - before) ** 2 / (count - at) - total**2 / count
    split = int(at[int(gains.argmax())])
    early, late = float(excess[:split].mean()), float(excess[split:].mean())
    # A rank that is slow all the time has no beginning: its first part is slow as well.
    slow_before = beyond_chance(excess[:split], FALSE_ALARMS, late / 2)
    return split if late > 0 and early < late / 2 and not slow_before else 0


def beyond_chance(excess: NDArray[np.float64], rate: float, bound: float = 0.0) -> bool:
    """Whether the mean is above ``bound``, which by chance it seems to be at the given rate.

    Student's t, one-sided, over the means of blocks of steps: a few of them have a standard error that is itself by
    chance small, so that its multiple must be that of their degrees of freedom.
    """
    from scipy.special import stdtrit

    number = max(len(excess) // BLOCK_STEPS, min(_ENOUGH_BLOCKS, len(excess) // _LEAST_BLOCK_STEPS))
    if number < _LEAST_BLOCKS:
        return False
    blocks = np.array([part.mean() for part in np.array_split(excess, number)])
    error = float(blocks.std(ddof=1)) / number**0.5
    return bool(float(blocks.mean()) - bound > float(stdtrit(number - 1, 1 - rate)) * error)


def blocked_ns(steps: Steps) -> NDArray[np.float64]:
    """What a rank in each backward neither computed nor waited for a core."""
    waits = np.nan_to_num(steps["backward_wait_ns"])
    left: NDArray[np.float64] = np.maximum(0.0, steps["backward_wall_ns"] - steps["backward_cpu_ns"] - waits)
    return left
