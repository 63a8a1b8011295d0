"""A model's latency from its bricks' times, with an interval; and calibrated by whole models that were measured."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np
from scipy import stats

from inferbench_tasks.bricks.constructors import SUM, constructor_of
from inferbench_tasks.bricks.results import Result
from inferbench_tasks.errors import InputError

CONFIDENCE = 0.95
#: Fewer whole models say nothing of how far predictions are off.
FEWEST_CALIBRATING = 3
#: By so little times grow where it is asked what of a model's time is theirs, so that no other way through the model
#: becomes the longest for it; and how many digits of a share that leaves.
_LITTLE_RATIO, _SHARE_DIGITS = 1e-6, 8


@dataclass(frozen=True)
class Estimate:
    """A time and its 95% interval, ns."""

    ns: float
    low_ns: float
    high_ns: float


@dataclass(frozen=True)
class Calibration:
    """Of ``models`` whole models: the geometric mean of measured over constructed. ``spread``: the standard deviation
    of its logarithm, of these and of all others that tell how far models differ (``judged_by``)."""

    models: int
    factor: float
    spread: float
    judged_by: int


@dataclass(frozen=True)
class SumError:
    """How far sums are off without a factor: the root mean square of the logarithms of ``judged_by`` models."""

    judged_by: int
    rms: float


def constructed(
    bricks: Sequence[Result], needs: Sequence[Sequence[int]], state: str, constructor: str = SUM
) -> Estimate:
    """The model's time of its bricks' times: constructed in each round, then the mean of the rounds; of several
    sessions constructed of each brick's mean.

    The interval is Student's over the rounds: it knows how rounds differ, and nothing of what cutting leaves out.
    Bricks of one session were timed in the same rounds, so that what disturbed one of them adds up. Sessions have
    nothing to do with each other: each is constructed in its own rounds, the others' bricks at their means; their
    variances add, with the degrees of freedom of Welch and Satterthwaite.
    """
    return _combined(_sessions(bricks, needs, state, constructor))


def measured(whole: Result) -> Estimate:
    """A whole model's time, with Student's interval over its rounds."""
    return _student(whole.rounds_ns["warm"])


def require_calibrating(count: int) -> None:
    """InputError for so few models that they calibrate nothing, and none that are none."""
    if 0 < count < FEWEST_CALIBRATING:
        raise InputError(
            f"{count} models say nothing of how far predictions are off; take at least {FEWEST_CALIBRATING}, or 0",
            field="calibrate_on",
        )


def calibration_by(logs: Sequence[float], beside: Sequence[float] = ()) -> Calibration | None:
    """Of the logarithms of other models' measured over constructed times; None of fewer than three.

    ``beside``: those of still other models, which change no factor but tell how far one more model may be off. Three
    alone tell that badly: Student's quantile of two degrees of freedom is 4.3, of twenty 2.1.
    """
    if len(logs) < FEWEST_CALIBRATING:
        return None
    every = [*logs, *beside]
    return Calibration(len(logs), math.exp(float(np.mean(logs))), float(np.std(every, ddof=1)), len(every))


def calibrated(estimate: Estimate, by: Calibration) -> Estimate:
    """The estimate times the factor; its interval also has that of one more model's factor (Student's).

    Both half-widths are relative and independent: they add as squares, on the logarithm, on each side its own.
    """
    half = _student_quantile(by.judged_by - 1) * by.spread * math.sqrt(1 + 1 / by.models)
    return widened(estimate, estimate.ns * by.factor, half)


def sum_error(logs: Sequence[float]) -> SumError | None:
    """Of the logarithms of other models' measured over constructed times; None of fewer than three."""
    if len(logs) < FEWEST_CALIBRATING:
        return None
    return SumError(len(logs), math.sqrt(math.fsum(log * log for log in logs) / len(logs)))


def uncalibrated(estimate: Estimate, by: SumError) -> Estimate:
    """The same time; its interval also has how far other models' sums were off.

    That is around the sum itself, which nobody corrects: where all are off alike it is wider than it had to be.
    """
    return widened(estimate, estimate.ns, _student_quantile(by.judged_by) * by.rms)


def widened(estimate: Estimate, ns: float, half: float) -> Estimate:
    """Another time with the estimate's relative interval, and a half-width of the logarithm that is independent of it.

    The estimate may reach further down than up: of what is interpolated little may be known on one side alone.
    """
    high = math.hypot(math.log(estimate.high_ns / estimate.ns), half)
    if estimate.low_ns <= 0:
        return Estimate(ns, 0.0, ns * math.exp(high))
    low = math.hypot(math.log(estimate.ns / estimate.low_ns), half)
    return Estimate(ns, ns * math.exp(-low), ns * math.exp(high))


def share_ratio(
    bricks: Sequence[Result],
    needs: Sequence[Sequence[int]],
    identities: Collection[str],
    state: str,
    constructor: str = SUM,
    factor: float = 1.0,
) -> float:
    """Their share of the constructed time, which is by how much it grows with theirs: of a sum that of their times, of
    a critical path what of it is theirs. ``factor``: with theirs so many times as long."""
    whole, grown = (
        _point_ns(_sessions(bricks, needs, state, constructor, identities, factor * more))
        for more in (1.0, 1 + _LITTLE_RATIO)
    )
    return min(1.0, max(0.0, round((grown / whole - 1) / _LITTLE_RATIO, _SHARE_DIGITS)))


@dataclass(frozen=True)
class StandIns:
    """Bricks whose times were not measured, and what the sum of their true times is at least and at most of what is
    taken for it (95%)."""

    identities: frozenset[str]
    low_ratio: float
    high_ratio: float


def stand_ins(identities: Collection[str], spread: float, judged: int) -> StandIns:
    """Of sums of such times that were off by ``spread``, the root mean square of the logarithms of so many sums.

    Student's quantile of that is how far another sum may be off.
    """
    half = _student_quantile(judged) * spread
    return StandIns(frozenset(identities), math.exp(-half), math.exp(half))


def stand_ins_ratio(
    bricks: Sequence[Result],
    needs: Sequence[Sequence[int]],
    of: StandIns,
    state: str,
    constructor: str = SUM,
) -> float:
    """The share of the constructed time that stands in for what was not measured.

    Of anything but a sum it is the larger one of that and of the share that it is where stand-ins are as long as they
    may be: another way through the model may be the longest then, and the time is not measured as long as it may be.
    """
    share = share_ratio(bricks, needs, of.identities, state, constructor)
    if constructor == SUM:
        return share
    return max(share, share_ratio(bricks, needs, of.identities, state, constructor, of.high_ratio))


def with_stand_ins(
    estimate: Estimate,
    of: StandIns,
    bricks: Sequence[Result],
    needs: Sequence[Sequence[int]],
    state: str,
    constructor: str = SUM,
) -> Estimate:
    """The same with the interval of stand-ins, which adds to what is there as a square: the estimate is constructed
    again with all of them as short, and as long, as they may be."""
    least, most = (
        _point_ns(_sessions(bricks, needs, state, constructor, of.identities, ratio))
        for ratio in (of.low_ratio, of.high_ratio)
    )
    low = math.hypot(estimate.ns - estimate.low_ns, max(0.0, estimate.ns - least))
    high = math.hypot(estimate.high_ns - estimate.ns, max(0.0, most - estimate.ns))
    return Estimate(estimate.ns, max(0.0, estimate.ns - low), estimate.ns + high)


def by_operators(
    bricks: Sequence[Result], state: str, marked: Mapping[str, Collection[str]] = MappingProxyType({})
) -> list[dict[str, object]]:
    """Where the bricks' time goes: a row for each type of brick, the largest share first; of the sum of all bricks,
    whatever else is constructed of them.

    ``marked``: a mark, such as ``estimated``, and whose it is; rows then have a count of each.
    """
    times: defaultdict[str, float] = defaultdict(float)
    counts: Counter[str] = Counter()
    marks = {mark: Counter[str]() for mark in marked}
    for brick in bricks:
        name = " > ".join(brick.operators)
        times[name] += float(np.mean(brick.rounds_ns[state]))
        counts[name] += 1
        for mark, identities in marked.items():
            marks[mark][name] += brick.identity in identities
    total = math.fsum(times.values())
    return [
        {"operators": name, "bricks": counts[name], "ms": time / 1e6, "share_ratio": time / total}
        | {mark: of[name] for mark, of in marks.items()}
        for name, time in sorted(times.items(), key=lambda item: (-item[1], item[0]))
    ]


@dataclass(frozen=True)
class _Sessions:
    """A model's times, ns. ``of_means``: constructed of its bricks' means; ``rounds``: of each session that timed some
    of them, the times in its rounds, the other sessions' bricks at their means."""

    of_means: float
    rounds: Sequence[Sequence[float]]


def _sessions(
    bricks: Sequence[Result],
    needs: Sequence[Sequence[int]],
    state: str,
    constructor: str,
    scaled: Collection[str] = (),
    factor: float = 1.0,
) -> _Sessions:
    """Of the bricks ``scaled`` so many times as long. InputError where a constructor makes no time."""
    construct = constructor_of(constructor)
    factors = [factor if brick.identity in scaled else 1.0 for brick in bricks]
    times = [[own * ns for ns in brick.rounds_ns[state]] for own, brick in zip(factors, bricks, strict=True)]
    means = [math.fsum(own) / len(own) for own in times]
    # Rounds of one session are the same moments, and as many for all of its bricks.
    sessions: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    for at, brick in enumerate(bricks):
        sessions[brick.session, len(times[at])].add(at)
    of_means = construct(means, needs)

    def in_round(members: Collection[int], i: int) -> float:
        if constructor == SUM and len(sessions) > 1:  # the same, of fewer numbers
            return of_means + math.fsum(times[at][i] - means[at] for at in members)
        return construct([own[i] if at in members else means[at] for at, own in enumerate(times)], needs)

    rounds = [[in_round(members, i) for i in range(count)] for (_, count), members in sessions.items()]
    totals = [of_means, *(total for own in rounds for total in own)]
    if not all(0 < total < math.inf for total in totals):
        raise InputError(
            f"{constructor} makes {', '.join(f'{total:g}' for total in totals[1:])} ns of {len(bricks)} bricks: a "
            "model's time is a number above 0",
            field="constructor",
        )
    return _Sessions(of_means, rounds)


def _point_ns(of: _Sessions) -> float:
    """The mean of the rounds of one session; of several, which have no rounds in common, what is constructed of the
    means. A sum is the same either way."""
    return float(np.mean(of.rounds[0])) if len(of.rounds) == 1 else of.of_means


def _combined(of: _Sessions) -> Estimate:
    mean = _point_ns(of)
    variances = [float(np.var(own, ddof=1)) / len(own) for own in of.rounds]
    whole = math.fsum(variances)
    if not whole:
        return Estimate(mean, mean, mean)
    freedom = whole**2 / math.fsum(
        one**2 / (len(own) - 1) for one, own in zip(variances, of.rounds, strict=True)
    )
    half = _student_quantile(freedom) * math.sqrt(whole)
    return Estimate(mean, max(0.0, mean - half), mean + half)


def _student(values: Sequence[float]) -> Estimate:
    return _combined(_Sessions(float(np.mean(values)), [values]))


@lru_cache(maxsize=4_096)
def _student_quantile(freedom: float) -> float:
    """So many standard errors hold 95%, on both sides together."""
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom))
