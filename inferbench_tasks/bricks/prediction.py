"""A model's latency from its bricks' times, with an interval; and calibrated by whole models that were measured."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from inferbench_tasks.bricks.constructors import constructor_of
from inferbench_tasks.bricks.results import Result

CONFIDENCE = 0.95
#: Fewer whole models say nothing of how far predictions are off.
FEWEST_CALIBRATING = 3


@dataclass(frozen=True)
class Estimate:
    """A time and its 95% interval, ns."""

    ns: float
    low_ns: float
    high_ns: float


@dataclass(frozen=True)
class Calibration:
    """Of ``models`` whole models: the geometric mean of measured over constructed, and the spread of its logarithm."""

    models: int
    factor: float
    spread: float


def constructed(
    bricks: Sequence[Result], needs: Sequence[Sequence[int]], state: str, constructor: str = "sequential"
) -> Estimate:
    """The model's time of its bricks' times: constructed in each round, then the mean of the rounds.

    The interval is Student's over the rounds: it knows how rounds differ, and nothing of what cutting leaves out.
    """
    construct = constructor_of(constructor)
    rounds = min(len(brick.rounds_ns[state]) for brick in bricks)
    totals = [construct([brick.rounds_ns[state][i] for brick in bricks], needs) for i in range(rounds)]
    return _student(totals)


def measured(whole: Result) -> Estimate:
    """A whole model's time, with Student's interval over its rounds."""
    return _student(whole.rounds_ns["warm"])


def calibration_by(logs: Sequence[float]) -> Calibration | None:
    """Of the logarithms of other models' measured over constructed times; None of fewer than three."""
    if len(logs) < FEWEST_CALIBRATING:
        return None
    return Calibration(len(logs), math.exp(float(np.mean(logs))), float(np.std(logs, ddof=1)))


def calibrated(estimate: Estimate, by: Calibration) -> Estimate:
    """The estimate times the factor; its interval also has that of one more model's factor (Student's).

    Both half-widths are relative and independent: they add as squares, on the logarithm.
    """
    own = math.log(estimate.high_ns / estimate.ns)
    t = float(stats.t.ppf((1 + CONFIDENCE) / 2, by.models - 1))
    half = math.hypot(own, t * by.spread * math.sqrt(1 + 1 / by.models))
    ns = estimate.ns * by.factor
    return Estimate(ns, ns * math.exp(-half), ns * math.exp(half))


def coverage_ratio(bricks: Sequence[Result], estimated: Collection[str], state: str) -> float:
    """The share of the bricks' summed time that is measured."""
    times = [(brick.identity in estimated, float(np.mean(brick.rounds_ns[state]))) for brick in bricks]
    return math.fsum(time for guess, time in times if not guess) / math.fsum(time for _, time in times)


def with_estimates(estimate: Estimate, share: float, spread: float, families: int) -> Estimate:
    """The same with the interval of what is estimated of it, ``share`` of its time.

    ``spread``: the root mean square of the logarithms by which sums of estimates were off, of so many families.
    Student's quantile of that is how far this sum may be off; it adds to the rounds' as a square.
    """
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, families)) * spread
    part = share * estimate.ns
    low = math.hypot(estimate.ns - estimate.low_ns, part * -math.expm1(-half))
    high = math.hypot(estimate.high_ns - estimate.ns, part * math.expm1(half))
    return Estimate(estimate.ns, max(0.0, estimate.ns - low), estimate.ns + high)


def by_operators(
    bricks: Sequence[Result], state: str, estimated: Collection[str] = ()
) -> list[dict[str, object]]:
    """Where the time goes: a row for each type of brick, the largest share first; how many of them are estimated."""
    times: defaultdict[str, float] = defaultdict(float)
    counts: Counter[str] = Counter()
    guesses: Counter[str] = Counter()
    for brick in bricks:
        name = " > ".join(brick.operators)
        times[name] += float(np.mean(brick.rounds_ns[state]))
        counts[name] += 1
        guesses[name] += brick.identity in estimated
    total = math.fsum(times.values())
    return [
        {"operators": name, "bricks": counts[name], "ms": time / 1e6, "share_ratio": time / total}
        | ({"estimated": guesses[name]} if estimated else {})
        for name, time in sorted(times.items(), key=lambda item: (-item[1], item[0]))
    ]


def _student(values: Sequence[float]) -> Estimate:
    mean = float(np.mean(values))
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * error
    return Estimate(mean, max(0.0, mean - half), mean + half)
