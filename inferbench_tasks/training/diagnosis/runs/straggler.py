"""One rank is slower than the others, which wait for it in the exchange of gradients, or of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.base import LEAST_SHARE, Cause
from inferbench_tasks.training.diagnosis.observation import Observation, Steps
from inferbench_tasks.training.diagnosis.thread_times import (
    TOGETHER,
    blocked_ns,
    cpu_ns,
    held_ns,
    stopped_ratio,
    unblocked_phases,
    waits_told,
)

#: Excess of each step, ms, and a rate of false alarms -> whether it is beyond chance.
Test = Callable[[NDArray[np.float64], float], bool]
#: Phases in which no rank waits for another, and those that only compute.
_APART = ("loading", "to_device", "processing")
#: Steps whose means are compared, so that those of one block say nothing of the next one.
BLOCK_STEPS = 10
#: Fewer blocks tell nothing. A short stretch has smaller ones, to have as many as are worth it.
_LEAST_BLOCKS, _LEAST_BLOCK_STEPS, _ENOUGH_BLOCKS = 5, 5, 10
#: Of runs with equal ranks so many may have one named, whatever the number of ranks and steps.
FALSE_ALARMS = 1e-3
#: And so many by what stops a rank, which is next to nothing where nothing does: little is enough to tell it.
STOP_ALARMS = 1e-4
#: A difference of less is one of the clocks' readings, ms.
_RESOLUTION_MS = 0.02
#: In so many blocks of steps a rank has to be stopped.
_STOPPED_BLOCKS = 2 / 3
#: So much of the others' time the excess has to be.
_LEAST_EXCESS = 0.1
#: A rank that is stopped for more of its time than the others is no matter of where its memory lies.
_STOPPED = 0.02
#: Of ten clean trainings of two ranks on a core each four had one that took 1.1 to 1.25 times as long in CPU time; with
#: huge pages none of eleven (1.06 at most).
_RUN_AGAIN = (
    " On a CPU run it once more first: where a process's memory lies can make it so much slower for as long as it "
    "lives, and then it is another rank the next time; with GLIBC_TUNABLES=glibc.malloc.hugetlb=1 before the worker "
    "starts ranks hardly differ by it."
)
#: Of kernels without schedstat.
_WAITS_WITHIN = ", waits for a core among it, which the kernel does not tell"


def find(run: Observation) -> Iterator[Cause]:
    """The rank that takes longer by itself than all others, or that is stopped as they are not, beyond chance; a step
    waits for it.

    Own is what a rank does between exchanges, by the wall clock without waits for a core, which are the rule
    ``cores``'; and what it computes beside them, by CPU time: there the others wait for it, and for the exchange. What
    stops it shows where it only computes and is blocked; as much of the rest of its step is lost.
    """
    if run.processes < 2 or len(run.ranks) != run.processes or run.threads > 1:
        return
    count = min(len(steps["step"]) for steps in run.ranks)
    own_ms, stops_ms = (
        np.array([of(run, steps)[:count] for steps in run.ranks]) for of in (own_of, stops_of)
    )
    tried = ((own_ms, FALSE_ALARMS, beyond_chance), (stops_ms, STOP_ALARMS, stopped_beyond_chance))
    found = [one for times, rate, test in tried if (one := _slowest(times, rate, test))]
    costs = [(_cost_ms(run, own_ms, slow, begins), slow, begins) for slow, begins in found]
    if not costs:
        return
    (lost_ms, others_ms), slow, begins = max(costs)
    factor = 1 + lost_ms / others_ms if others_ms else float("inf")
    cost_ms = lost_ms * (count - begins) / count
    if factor < 1 + _LEAST_EXCESS or cost_ms < LEAST_SHARE * run.step_ms:
        return
    when = "all the time" if begins == 0 else f"since measured step {begins}"
    stopped = [stopped_ratio(run, steps, begins) for steps in run.ranks]
    within = "" if all(waits_told(steps) for steps in run.ranks) else _WAITS_WITHIN
    follows = "the epoch ends with it" if run.job.train.benchmark == "inference" else "they wait for it"
    yield Cause(
        rule="straggler",
        kind="cause",
        sentence=f"Rank {slow} is a straggler {when}: it takes {factor:.2f} times as long as the others for what each "
        f"rank does by itself, and {follows}.",
        evidence=[
            f"what each does by itself, ms of a step: rank {slow} {number(float(own_ms[slow, begins:].mean()))}, the "
            f"others {number(others_ms)}, over {count - begins} steps{within}",
            *_stops(run, stopped),
            *_waits(run, begins),
        ],
        remedy=f"See what else runs on the core, device or host of rank {slow}, and go on without it."
        + ("" if run.on_gpu or stopped[slow] - min(stopped) > _STOPPED else _RUN_AGAIN),
        cost_s=cost_ms / 1e3,
        gain_s=cost_ms / 1e3,
        rank=slow,
    )


def _slowest(times: NDArray[np.float64], rate: float, test: Test) -> tuple[int, int] | None:
    """The rank with the most of ``times`` (ranks x steps) and the step from which on; None where by ``test`` chance
    explains it.

    Of all ranks the slowest is looked at, and of all steps those since the best split: ``rate`` is divided among the
    ranks, half of it is for all steps, half for what may have begun later, divided among the blocks in which it may
    have (Bonferroni).
    """
    count = times.shape[1]
    slow = int(times.mean(axis=1).argmax())
    excess = times[slow] - np.delete(times, slow, axis=0).mean(axis=0)
    rate = rate / 2 / len(times)
    begins = since(excess)
    if begins and test(excess[begins:], rate / max(1, count // BLOCK_STEPS)):
        return slow, begins
    # Nothing begins there beyond chance; all steps together may show more.
    return (slow, 0) if test(excess, rate) else None


def _cost_ms(run: Observation, own_ms: NDArray[np.float64], slow: int, begins: int) -> tuple[float, float]:
    """What a step loses by that rank from there on, and what the others take by themselves, ms."""
    after = own_ms[:, begins:]
    others_ms = float(np.delete(after, slow, axis=0).mean())
    longer_ms = float(after[slow].mean()) - others_ms
    ratios = [stopped_ratio(run, steps, begins) for steps in run.ranks]
    least = min(ratio for rank, ratio in enumerate(ratios) if rank != slow)
    stopped = min(0.99, max(0.0, ratios[slow] - least))
    return max(longer_ms, others_ms * stopped / (1 - stopped)), others_ms


def own_of(run: Observation, steps: Steps) -> NDArray[np.float64]:
    """What a rank takes for itself in each step, ms."""
    alone = unblocked_phases(run)
    walls = [held_ns(steps, phase) for phase in (*_APART, *alone) if f"{phase}_wall_ns" in steps]
    beside = (phase for phase in ("forward", "backward") if phase not in alone)
    walls += [cpu_ns(steps, phase) for phase in beside if f"{phase}_wall_ns" in steps]
    total: NDArray[np.float64] = np.sum(walls, axis=0) / 1e6
    return total


def stops_of(run: Observation, steps: Steps) -> NDArray[np.float64]:
    """What a rank was blocked in each step where it only computes, ms."""
    total = np.zeros(len(steps["step"]))
    # A rank whose device computes longer is slow, and not stopped; nor need it be one whose waits nobody knows.
    for phase in () if run.on_gpu or not waits_told(steps) else unblocked_phases(run):
        if f"{phase}_wall_ns" in steps:
            total += blocked_ns(steps, phase) / 1e6
    return total


def _stops(run: Observation, stopped: Sequence[float]) -> list[str]:
    """The shares in which something stopped each rank; [] where nobody can tell: 0 would be taken for a figure."""
    if run.on_gpu or not all(waits_told(steps) for steps in run.ranks):
        return []
    return [f"stopped where it only computes, % of that time: {_by_rank([100 * ratio for ratio in stopped])}"]


def _waits(run: Observation, begins: int) -> list[str]:
    """What each rank was blocked in the phase in which it waits for the others; [] where a step has none, where the
    kernel tells no waits for a core, which would be in it, and on GPUs, where their threads wait for the device.
    """
    if run.on_gpu or not all(waits_told(steps) for steps in run.ranks):
        return []
    return [
        f"in {phase} neither computing nor waiting for a core, ms: "
        + _by_rank([float(blocked_ns(steps, phase)[begins:].mean()) / 1e6 for steps in run.ranks])
        for phase in TOGETHER
        if all(f"{phase}_wall_ns" in steps for steps in run.ranks)
    ]


def _by_rank(values: Sequence[float]) -> str:
    return ", ".join(f"rank {rank} {number(value)}" for rank, value in enumerate(values))


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

    count = max(len(excess) // BLOCK_STEPS, min(_ENOUGH_BLOCKS, len(excess) // _LEAST_BLOCK_STEPS))
    if count < _LEAST_BLOCKS:
        return False
    blocks = np.array([part.mean() for part in np.array_split(excess, count)])
    error = float(blocks.std(ddof=1)) / count**0.5
    return bool(float(blocks.mean()) - bound > float(stdtrit(count - 1, 1 - rate)) * error)


def stopped_beyond_chance(excess: NDArray[np.float64], rate: float) -> bool:
    """Whether one rank is stopped more than the others in more steps, or for longer, than by chance at the given rate.

    Wilcoxon's signed ranks, one-sided, over the steps in which a rank was stopped at all: where nothing stops any, a
    step has nothing to compare; and a stop is as long as it is, so that a mean's error would be the stops' scatter. One
    long stop says nothing, however long: too few steps have it. Nor does one stretch of steps: what stops a rank stops
    it in most blocks of steps, what disturbed it once in some that lie beside each other.
    """
    from scipy.stats import wilcoxon

    blocks = np.array_split(excess, max(1, len(excess) // BLOCK_STEPS))
    if sum(part.mean() > _RESOLUTION_MS for part in blocks) < _STOPPED_BLOCKS * len(blocks):
        return False

    stopped = excess[np.abs(excess) > _RESOLUTION_MS]
    # Of few steps even the same sign in all has a larger chance.
    return 2.0 ** -len(stopped) < rate and bool(wilcoxon(stopped, alternative="greater").pvalue < rate)
