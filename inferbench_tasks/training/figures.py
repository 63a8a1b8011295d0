"""What the steps say: figures of the epochs with instruments and of the bare ones, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.training.exchange import Exchange
from inferbench_tasks.training.jade import of_epochs
from inferbench_tasks.training.job import EpochKind
from inferbench_tasks.training.order import Answer, Epoch
from inferbench_tasks.training.phases import CLOCKS, HEAD, LAST, MEASURED, WARMUP, phases_of
from inferbench_tasks.training.sending import MADE, PARTS
from inferbench_tasks.training.statistics import LEAST_STEPS, interval_of_rate, of_steps

Steps = dict[str, NDArray[np.float64]]
NO_EXCHANGE = "one process exchanges no gradients"
NO_GRADIENTS = "inference has no gradients to exchange"
NOT_TOLD = "DistributedDataParallel's reducer told no times of its exchange"


def steps_of(answer: Answer, part: int, kind: EpochKind = "synchronised") -> Steps:
    """A rank's steps of one part, over all rounds in the order of time: column -> values; NaN where null."""
    epochs = [epoch for epoch in answer.epochs if epoch.rows and epoch.kind == kind]
    if not epochs:
        return {}
    columns = epochs[0].columns
    rows = np.array([row for epoch in epochs for row in epoch.rows], dtype=np.float64)
    rows = rows[rows[:, columns.index("part")] == part]
    return {name: rows[:, index] for index, name in enumerate(columns)}


def of_timing(answers: Sequence[Answer], benchmark: str, strategy: str) -> dict[str, Any]:
    """The epochs with instruments.

    A step's figure is the mean of its ranks, so that a step counts once however many ranks there are; ``ranks`` has
    each rank's own means. CPU time and waits are sums over the threads of a rank's process, those that exchange among
    them; ``own_cpu_ms`` and ``own_wait_ms`` are of the thread that runs the step. ``clocks_ms``: of ``unexplained_ms``,
    what no phase has of a step, that which reading the clocks took.
    """
    phases = phases_of(benchmark, strategy)
    ranks = [steps_of(answer, MEASURED) for answer in answers]
    count = min((len(steps["step"]) if steps else 0 for steps in ranks), default=0)
    parts = {"warmup": _part(answers, WARMUP), "last": _part(answers, LAST)}
    rounds = sum(
        epoch.kind == "synchronised" and any(row[1] == MEASURED for row in epoch.rows)
        for epoch in answers[0].epochs
    )
    exchange = all_reduce(ranks, count, rounds, benchmark, strategy)
    common: dict[str, Any] = {"steps": count, "rounds": rounds, **parts, "all_reduce": exchange}
    if count < LEAST_STEPS:
        reason = f"{count} measured steps are too few for a figure, which needs {LEAST_STEPS}"
        nothing = {"step_ms": None, "phases": None, "explained_ratio": None, "unexplained_ms": None}
        return {**common, **nothing, "clocks_ms": None, "ranks": None, "reason": reason}
    step_ms = _mean_of(ranks, "step_ns", count)
    sums_ms = np.sum([_mean_of(ranks, f"{phase}_wall_ns", count) for phase in phases], axis=0)
    return {
        **common,
        "step_ms": of_steps(np.array_split(step_ms, rounds)),
        "phases": {phase: _phase(ranks, phase, count, rounds) for phase in phases},
        "explained_ratio": float(sums_ms.sum() / step_ms.sum()),
        "unexplained_ms": float((step_ms - sums_ms).mean()),
        "clocks_ms": float(_mean_of(ranks, CLOCKS, count).mean()),
        "ranks": [_rank(answer.rank, steps, phases) for answer, steps in zip(answers, ranks, strict=True)],
        "reason": None,
    }


def all_reduce(
    ranks: Sequence[Steps], count: int, rounds: int, benchmark: str, strategy: str
) -> dict[str, Any]:
    """The exchange of gradients, a part of backward: ``wall_ms`` in all, ``apart_ms`` what computing does not hide;
    both with the wait for the slowest rank. See ``training.exchange``.

    Means of the ranks, as those of the phases. None with the reason where there is none, or too few steps.
    """
    nothing: dict[str, Any] = {"wall_ms": None, "apart_ms": None}
    if benchmark != "train" or strategy != "ddp":
        return {**nothing, "reason": NO_GRADIENTS if benchmark != "train" else NO_EXCHANGE}
    if count < LEAST_STEPS:
        return {**nothing, "reason": f"{count} measured steps are too few; {LEAST_STEPS} are needed"}
    columns = Exchange.columns
    if any(name not in steps or np.isnan(steps[name][:count]).any() for steps in ranks for name in columns):
        return {**nothing, "reason": NOT_TOLD}
    whole, apart = (of_steps(np.array_split(_mean_of(ranks, name, count), rounds)) for name in columns)
    return {"wall_ms": whole, "apart_ms": apart, "reason": None}


def events(answers: Sequence[Answer]) -> dict[str, Any] | None:
    """The epochs with stamps on the device: step and phases by its clock and by the host's, ms, means of all ranks.

    None where they were not asked for. ``step_ms`` is by the device, from its first stamp of a step to its last.
    """
    of_rank = [steps_of(answer, MEASURED, "events") for answer in answers]
    if not all(of_rank):
        return None
    kinds = [epoch for epoch in answers[0].epochs if epoch.kind == "events"]
    count = min(len(steps["step"]) for steps in of_rank)
    if count < LEAST_STEPS:
        reason = f"{count} measured steps are too few for a figure, which needs {LEAST_STEPS}"
        return {"steps": count, "step_ms": None, "phases": None, "reason": reason}
    names = [name.removesuffix("_device_ns") for name in of_rank[0] if name.endswith("_device_ns")]
    return {
        "steps": count,
        "step_ms": of_steps(np.array_split(_mean_of(of_rank, "step_ns", count), len(kinds))),
        "phases": {
            name: {
                f"{clock}_ms": float(_mean_of(of_rank, f"{name}_{clock}_ns", count).mean())
                for clock in ("device", "host")
            }
            for name in names
        },
        "in_step_with_host": all(answer.device == "cpu" for answer in answers),
        "reason": None,
    }


def loader_parts(answers: Sequence[Answer]) -> dict[str, float | None] | None:
    """What making a batch and handing it over takes, ms: means of ``sending.PARTS`` over ranks and measured steps; None
    where no loader made any.

    ``making_ms`` is the sum of those of ``MADE``, ``transfer_ms`` that of serialising and deserialising. The latter,
    each of them, and ``queue_wait_ms`` are None where the ranks make their batches themselves.
    """
    ranks = [steps_of(answer, MEASURED) for answer in answers]
    if not all(f"{PARTS[0]}_ns" in steps and len(steps["step"]) for steps in ranks):
        return None
    means = {part: float(np.mean([steps[f"{part}_ns"].mean() for steps in ranks])) / 1e6 for part in PARTS}
    sums = {
        "making": sum(means[part] for part in MADE),
        "transfer": means["serialise"] + means["deserialise"],
    }
    return {f"{name}_ms": None if np.isnan(of) else of for name, of in (means | sums).items()}


def bare(answers: Sequence[Answer]) -> dict[str, Any]:
    """The epochs without instruments, and what instruments cost, by the measured windows of the rounds.

    A round has the samples of all ranks and the longest window of a rank; samples/s are all rounds' samples by their
    time, so that a step counts as long as it took, and the mean of the rounds' rates is above it where they differ.
    """
    windows = {kind: _windows(answers, kind) for kind in ("bare", "synchronised")}
    rates = {
        kind: [None if of is None else of[0] / of[1] for of in rounds] for kind, rounds in windows.items()
    }
    steps = min((_bare_steps(answer) for answer in answers), default=0)
    common: dict[str, Any] = {"steps": steps, "rounds": len(rates["bare"])}
    pairs = [
        with_ / without
        for with_, without in zip(rates["synchronised"], rates["bare"], strict=False)
        if with_ and without
    ]
    samples, seconds = np.array([of for of in windows["bare"] if of]).reshape(-1, 2).T
    if steps < LEAST_STEPS or len(samples) < 3:
        reason = (
            f"{steps} measured steps in {len(samples)} rounds are too few: a figure needs {LEAST_STEPS} in 3"
        )
        nothing = {"samples_per_s": None, "samples_per_s_ci95": None, "instrumented_ratio": None}
        return {**common, **nothing, "each_round": rates["bare"], "reason": reason}
    return {
        **common,
        "samples_per_s": float(samples.sum() / seconds.sum()),
        "samples_per_s_ci95": interval_of_rate(samples, seconds),
        "each_round": rates["bare"],
        #: Samples/s of the epoch with instruments by those of the bare one beside it, mean of the rounds.
        "instrumented_ratio": float(np.mean(pairs)) if pairs else None,
        "reason": None,
    }


def jade(answers: Sequence[Answer]) -> dict[str, Any] | None:
    """Jade's own timing, of rank 0 as its tables are (``jade.of_epochs``); None where it was not asked for."""
    epochs = [epoch for epoch in answers[0].epochs if epoch.kind == "jade"]
    return of_epochs(epochs) if epochs else None


def loss(answers: Sequence[Answer]) -> dict[str, Any]:
    """The mean loss of the first and the last epoch, each sample counting once; the first step whose loss is no finite
    number.
    """
    epochs = [epoch for answer in answers for epoch in answer.epochs]
    if not any(epoch.losses for epoch in epochs):
        return {"first": None, "last": None, "not_finite": None}
    for index in range(len(answers[0].epochs)):
        for answer in answers:
            epoch = answer.epochs[index]
            if None in epoch.losses:
                where = {"rank": answer.rank, "round": epoch.round, "timing": epoch.kind}
                return {
                    "first": None,
                    "last": None,
                    "not_finite": {**where, "step": epoch.losses.index(None)},
                }
    first, last = (_mean_loss(answers, at) for at in (0, -1))
    return {"first": first, "last": last, "not_finite": None}


def loader_start_ms(answers: Sequence[Answer]) -> float:
    """How long the loader's processes take to be started, ms: the mean of all epochs."""
    epochs = [epoch for answer in answers for epoch in answer.epochs]
    return float(np.mean([epoch.ready_ns - epoch.started_ns for epoch in epochs])) / 1e6


def probes(answers: Sequence[Answer]) -> dict[str, float | None]:
    """The median of the ranks' probes, by name; None where a rank has none."""
    names = answers[0].probes
    of = {name: [answer.probes.get(name) for answer in answers] for name in names}
    return {
        name: None if None in values else float(np.median([value for value in values if value is not None]))
        for name, values in of.items()
    }


def _mean_loss(answers: Sequence[Answer], at: int) -> float:
    """A step's loss is the mean of its batch: the last, smaller batch weighs what it has."""
    losses = [np.array(answer.epochs[at].losses, dtype=np.float64) for answer in answers]
    sizes = [_batches(answer, len(of)) for answer, of in zip(answers, losses, strict=True)]
    return float(np.average(np.concatenate(losses), weights=np.concatenate(sizes)))


def _batches(answer: Answer, steps: int) -> NDArray[np.float64]:
    """Samples of each step of an epoch: they are the same in all of them."""
    for epoch in answer.epochs:
        if len(epoch.rows) == steps:
            return np.array([row[HEAD.index("samples")] for row in epoch.rows], dtype=np.float64)
    return np.ones(steps)


def _mean_of(ranks: Sequence[Steps], column: str, count: int) -> NDArray[np.float64]:
    mean_ns: NDArray[np.float64] = np.mean([steps[column][:count] for steps in ranks], axis=0)
    return mean_ns / 1e6


def _phase(ranks: Sequence[Steps], phase: str, count: int, rounds: int) -> dict[str, Any]:
    wall, cpu, *others = (
        _mean_of(ranks, f"{phase}_{of}_ns", count) for of in ("wall", "cpu", "wait", "own_cpu", "own_wait")
    )
    wait, own_cpu, own_wait = (None if np.isnan(of).any() else float(of.mean()) for of in others)
    return {
        "wall_ms": of_steps(np.array_split(wall, rounds)),
        "cpu_ms": float(cpu.mean()),
        "wait_ms": wait,
        "own_cpu_ms": own_cpu,
        "own_wait_ms": own_wait,
    }


def _rank(rank: int, steps: Steps, phases: Sequence[str]) -> dict[str, Any]:
    def mean_ms(column: str) -> float | None:
        value = float(steps[column].mean()) / 1e6
        return None if np.isnan(value) else value

    times = {
        phase: {f"{of}_ms": mean_ms(f"{phase}_{of}_ns") for of in ("wall", "cpu", "wait")} for phase in phases
    }
    return {"rank": rank, "step_ms": mean_ms("step_ns"), "phases": times}


def _part(answers: Sequence[Answer], part: int) -> dict[str, Any]:
    steps = [steps_of(answer, part) for answer in answers]
    values = np.concatenate([of["step_ns"] for of in steps if of] or [np.array([])])
    each = len(values) // max(1, len(answers))
    return {"steps": each, "mean_step_ms": float(values.mean()) / 1e6 if len(values) else None}


def _window_s(epoch: Epoch) -> float | None:
    if epoch.window_start_ns is None or epoch.window_end_ns is None:
        return None
    return (epoch.window_end_ns - epoch.window_start_ns) / 1e9


def _windows(answers: Sequence[Answer], kind: EpochKind | str) -> list[tuple[int, float] | None]:
    """Samples and seconds of each round; None of one that a rank has no window of, or that had no sample."""
    rounds: list[tuple[int, float] | None] = []
    of_kind = [[epoch for epoch in answer.epochs if epoch.kind == kind] for answer in answers]
    for round_ in zip(*of_kind, strict=True):
        windows = [seconds for epoch in round_ if (seconds := _window_s(epoch))]
        samples = sum(epoch.window_samples for epoch in round_)
        rounds.append((samples, max(windows)) if len(windows) == len(answers) and samples else None)
    return rounds


def _bare_steps(answer: Answer) -> int:
    # All kinds of epoch have the same steps; where one round is missing, so it is here.
    with_instruments = [epoch for epoch in answer.epochs if epoch.rows and epoch.kind == "synchronised"]
    each = [sum(row[1] == MEASURED for row in epoch.rows) for epoch in with_instruments]
    return min(each, default=0) * sum(epoch.kind == "bare" for epoch in answer.epochs)
