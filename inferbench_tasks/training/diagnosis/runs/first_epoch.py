"""The first epoch is slower than all that follow: files that are not in memory yet, caches and threads that begin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.observation import Observation, PhaseTimes, Steps
from inferbench_tasks.training.diagnosis.thread_times import waited_ns
from inferbench_tasks.training.sending import MADE

#: A first epoch like the others is named so in so many runs at most.
FALSE_ALARMS = 0.01


def find(run: Observation) -> Iterator[Cause]:
    """The mean step of the first round beside the means of the others, waits for a core apart.

    A round resembles itself more than another, so that rounds are what is compared: a value is beyond the prediction
    interval of the others (Student's t, one-sided, ``mean + t s sqrt(1 + 1/n)`` of n rounds). Two others tell little:
    only what is many times longer than they differ.
    """
    rounds_ms = _rounds_ms(run)
    if len(rounds_ms) < 3:
        return
    from scipy.special import stdtrit

    first_ms, others = float(rounds_ms[0]), rounds_ms[1:]
    excess_ms = first_ms - float(others.mean())
    t = float(stdtrit(len(others) - 1, 1 - FALSE_ALARMS))
    if excess_ms <= t * float(others.std(ddof=1)) * (1 + 1 / len(others)) ** 0.5:
        return
    count = run.job.train.rounds
    cost_ms, more = excess_ms / len(rounds_ms), min(2 * count, 100)
    yield Cause(
        rule="first_epoch",
        kind="cause",
        sentence=f"The first epoch holds it up: its steps take {number(first_ms)} ms, those of later epochs "
        f"{number(float(others.mean()))}.",
        evidence=[
            f"mean step of each round, waits for a core apart, ms: {', '.join(f'{number(ms)}' for ms in rounds_ms)}",
            *_grown(run),
        ],
        remedy=f"Tell the first epoch apart: of {more} rounds it is a smaller part. A run of many epochs has it once.",
        cost_s=cost_ms / 1e3,
        changes={"train.rounds": more} if more > count else {},
        gain_s=cost_ms * (1 - count / more) / 1e3,
    )


def later(run: Observation) -> Observation:
    """The same run without its first round, for the rules that ask what holds every epoch up.

    Of the stalls for want of memory, which are counted over all rounds, what the first round takes longer is taken off:
    it is ``find``'s, and at least the rest is of the others.
    """
    ranks = [{name: values[steps["round"] > 0] for name, values in steps.items()} for steps in run.ranks]

    def mean_ms(column: str) -> float:
        return float(np.mean([np.nan_to_num(steps[column]).mean() for steps in ranks])) / 1e6

    def told(steps: Steps) -> bool:
        """Whether each batch of a loader process says what it used; older results, and some kernels, don't."""
        return all(
            name in steps and not np.isnan(steps[name]).any() for name in ("made_cpu_ns", "made_wait_ns")
        )

    def wait_ms(phase: str) -> float:
        own = run.threads == 1 and all(f"{phase}_own_wait_ns" in steps for steps in ranks)
        return mean_ms(f"{phase}_own_wait_ns" if own else f"{phase}_wait_ns")

    phases = {
        name: PhaseTimes(mean_ms(f"{name}_wall_ns"), mean_ms(f"{name}_cpu_ns"), wait_ms(name))
        for name in run.phases
    }
    batch = run.batch
    if batch is not None and all(f"{part}_ns" in ranks[0] for part in MADE):
        parts = {part: mean_ms(f"{part}_ns") for part in MADE}
        if not run.workers:
            batch = replace(batch, wait_ms=phases["loading"].wait_ms)
        elif all(told(steps) for steps in ranks):
            cpu_ms, waited_ms = mean_ms("made_cpu_ns"), mean_ms("made_wait_ns")
            batch = replace(batch, cpu_ms=cpu_ms, wait_ms=waited_ms)
        making_ms = max(sum(parts.values()) - batch.wait_ms, 0.0)
        read_ms = min(parts["read"], making_ms)
        batch = replace(batch, making_ms=making_ms, read_ms=read_ms, collate_ms=parts["collate"])
    step_ms, memory = mean_ms("step_ns"), run.memory
    if memory is not None and memory["stalled_ratio"] is not None:
        rounds_ms = _rounds_ms(run)
        excess_ms = float(rounds_ms.mean() - rounds_ms[1:].mean())
        stalled_ms = max(0.0, min(1.0, memory["stalled_ratio"]) * run.step_ms - max(0.0, excess_ms))
        memory = {**memory, "stalled_ratio": min(1.0, stalled_ms / step_ms), "later": True}
    return replace(run, ranks=ranks, phases=phases, batch=batch, step_ms=step_ms, memory=memory)


def _rounds_ms(run: Observation) -> NDArray[np.float64]:
    """The mean step of each round over all ranks, ms; empty where the steps do not tell their round."""
    if not run.ranks or any("round" not in steps or "step_ns" not in steps for steps in run.ranks):
        return np.array([])
    rounds = np.unique(run.ranks[0]["round"])
    means = [[_busy_ms(steps)[steps["round"] == round_].mean() for steps in run.ranks] for round_ in rounds]
    return np.mean(means, axis=1)  # type: ignore[no-any-return]


def _busy_ms(steps: Steps) -> NDArray[np.float64]:
    phases = [name.removesuffix("_wall_ns") for name in steps if name.endswith("_wall_ns")]
    waits = np.sum([waited_ns(steps, phase) for phase in phases], axis=0)
    busy: NDArray[np.float64] = np.maximum(0.0, steps["step_ns"] - waits) / 1e6
    return busy


def _grown(run: Observation) -> list[str]:
    """The phase that the first round has most more of."""
    excess_ms = {
        name: float(np.mean([_phase_excess_ms(steps, name) for steps in run.ranks])) for name in run.phases
    }
    name = max(excess_ms, key=lambda name: excess_ms[name])
    return [f"most of it in {name.replace('_', ' ')}: {number(excess_ms[name])} ms of a step more than later"]


def _phase_excess_ms(steps: Steps, phase: str) -> float:
    wall, first = steps[f"{phase}_wall_ns"], steps["round"] == 0
    return float(wall[first].mean() - wall[~first].mean()) / 1e6
