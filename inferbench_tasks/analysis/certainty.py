"""When two results are the same, and how sure it is that they differ: what ranks, recommends or compares asks here.

The spread between runs of one configuration is estimated as for many small samples (Smyth, "Linear models and
empirical Bayes methods", 2004): a configuration's own runs count, and so do those of all others, and what a quiet
machine usually shows (``DRIFT_RATIO``) counts like ``PRIOR_RUNS`` runs more (``spread``). What a run says of its own
error is the floor of that spread. The ratio of two means is then judged by Student's t with Welch's degrees of freedom:
spreads are shares of the mean, and ln(a / b) has the variance of both together (the delta method). What a method is
wrong by drops out where both have it by the same method on the same machine. Two results differ if the sign of their
difference is real with a probability of ``SETTLED``; otherwise they are the same within noise.

Where a run's data can't bound a percentile, its error is a guess from other queues. But where the requests of two runs
lie apart altogether (``Stated.extremes``), no episode's luck made the difference: the nearest and the furthest ends,
with the spread between runs alone, bound it then. So do the ends of one by itself: its interval, and a bound that all
of it is on one side of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from inferbench_tasks.analysis.same_samples import paired_error
from inferbench_tasks.analysis.spread import DRIFT_RATIO as DRIFT_RATIO
from inferbench_tasks.analysis.spread import PRIOR_RUNS, scale_of
from inferbench_tasks.analysis.spread import pooled_ratio as pooled_ratio
from inferbench_tasks.analysis.stated import NOTHING, Stated
from inferbench_tasks.figure import Figure

#: Below this probability the order of two results, or that one keeps a bound, is not settled. One in ten may be wrong:
#: a wrong choice between two that are so close costs little, and to be surer of it would cost runs. Of single runs on a
#: quiet machine it takes a difference of a tenth.
SETTLED = 0.90
#: With this probability all intervals of one comparison hold together, however many figures it has.
JOINT = 0.95
#: Degrees of freedom of an error that follows from a known number of samples: the normal distribution's, nearly.
KNOWN_FREEDOM = 1e6
#: What is said of results that share a rank.
WITHIN_NOISE = "within noise"
NOT_KNOWN = "not known which is better"
NO_INTERVAL = f"{NOT_KNOWN}: a run has no interval of its own"
METHOD_WRONG = f"{NOT_KNOWN}: the method of the energy may be wrong by more, and not alike in both"
LOWER_BOUND = f"{NOT_KNOWN}: a search ended early, and has a lower bound"
#: More runs of both than this are not worth proposing.
MOST_RUNS = 20
#: Nor are runs that are so many times as long.
MOST_TIMES = 1e6


@dataclass(frozen=True)
class Estimate:
    """A mean over ``runs``; ``between`` is one run's standard deviation from run to run, with so many degrees of
    freedom; ``stated``: what the runs say of their own error.
    """

    mean: float
    between: float
    runs: int
    freedom: float
    stated: Stated = NOTHING

    @property
    def sd(self) -> float:
        """Standard deviation of one run."""
        return max(self.between, self.stated.within)

    @property
    def own_error(self) -> float:
        """Standard error of the mean by the runs alone, without that of the method."""
        return math.hypot(self.sd / math.sqrt(self.runs), self.stated.moved)

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return math.hypot(self.own_error, self.stated.systematic)

    @property
    def ends(self) -> tuple[float, float]:
        """Between what the figure of this run lies whatever its own error; the figure itself where that is known."""
        return self.stated.extremes or (self.mean, self.mean)

    def at(self, end: float) -> Estimate:
        """As if the figure were that end of its own, with what differs from run to run, and what those of its runs
        state that know their own error.
        """
        if self.stated.extremes is None:
            return self
        known = replace(self.stated, within=self.stated.beside, extremes=None)
        return replace(self, mean=end, between=abs(self.between * end / self.mean), stated=known)

    def interval95(self, comparisons: int = 1) -> list[float]:
        """The 95% interval of the mean, by Student's t; of one of so many that hold together (Bonferroni)."""
        half = _quantile(1 - 0.025 / comparisons, self.freedom) * self.error
        low, high = self.mean - half, self.mean + half
        if self.stated.extremes is None:
            return [low, high]
        least, most = (self.at(end).interval95(comparisons) for end in self.ends)
        return [max(low, least[0]), min(high, most[1])]

    def below(self, bound: float) -> float:
        """The probability that it is really at most that."""
        own = above(bound - self.mean, self.error, self.freedom)
        low, high = self.ends
        if self.stated.extremes is None or low <= bound <= high:
            return own
        if bound > high:
            return max(own, self.at(high).below(bound))
        return min(own, self.at(low).below(bound))


@dataclass(frozen=True)
class Change:
    """Of two estimates: how far apart they are, with the standard error of that and its degrees of freedom.

    On the scale of logarithms where both are above 0 and neither says that its error is ``plain``, else as it is.
    """

    size: float
    error: float
    freedom: float
    #: Whether it is on the scale of logarithms.
    shares: bool = True
    #: The change from the nearest, and from the furthest, ends of two whose requests lie apart; None of others.
    apart: tuple[Change, Change] | None = None

    @classmethod
    def between(cls, first: Estimate, second: Estimate) -> Change:
        """The change of the second estimate against the first."""
        plain = first.stated.plain or second.stated.plain
        shares = first.mean > 0 and second.mean > 0 and not plain
        paired = paired_error(first.stated.answers, second.stated.answers)
        if shares and paired is not None:
            return cls(math.log(second.mean) - math.log(first.mean), paired, KNOWN_FREEDOM)
        scales = (first.mean, second.mean) if shares else (1.0, 1.0)
        # One method on one machine is wrong by the same factor in both.
        alike = shares and first.stated.source is not None and first.stated.source == second.stated.source
        errors = [
            (e.own_error if alike else e.error) / scale
            for e, scale in zip((first, second), scales, strict=True)
        ]
        error = math.hypot(*errors)
        weights = [(e / error) ** 2 if error else 0.0 for e in errors]
        below = sum(w**2 / e.freedom for w, e in zip(weights, (first, second), strict=True))
        freedom = 1 / below if below else first.freedom + second.freedom
        size = math.log(second.mean) - math.log(first.mean) if shares else second.mean - first.mean
        return cls(size, error, freedom, shares, _apart(first, second) if shares else None)

    @property
    def rises(self) -> float:
        """The probability that the second is really above the first."""
        own = above(self.size, self.error, self.freedom)
        if self.apart is None:
            return own
        least, most = self.apart
        return max(own, least.rises) if self.size > 0 else min(own, most.rises)

    @property
    def probability(self) -> float:
        """That its sign is real."""
        return max(self.rises, 1 - self.rises)

    @property
    def settled(self) -> bool:
        """Whether the two differ; else they are the same within noise."""
        return self.probability >= SETTLED

    def expected_loss(self, *, higher: bool) -> float | None:
        """What it costs on average to take the second although the first may be better, as a share of the figure.

        The mean of how far the first is better where it is, over all that the change may be by Student's t: with
        z = gain / error that is error x (f(z) (v + z^2) / (v - 1) - z (1 - F(z))), f and F of Student's t with v
        degrees of freedom. None where the change is no ratio, or so few runs are known that there is no mean (v <= 1).
        """
        from scipy.special import stdtr

        if self.shares is False or self.freedom <= 1:
            return None
        gain = self.size if higher else -self.size
        if self.error == 0:
            return max(0.0, -gain)
        z, v = gain / self.error, self.freedom
        log_density = math.lgamma((v + 1) / 2) - math.lgamma(v / 2) - 0.5 * math.log(v * math.pi)
        density = math.exp(log_density - (v + 1) / 2 * math.log1p(z * z / v))
        loss = max(0.0, self.error * (density * (v + z * z) / (v - 1) - z * float(stdtr(v, -z))))
        if self.apart is None or gain <= 0:
            return loss
        # Of two that lie apart the nearest ends bound it, as they do the probability.
        nearest = self.apart[0 if self.size > 0 else 1].expected_loss(higher=higher)
        return loss if nearest is None else min(loss, nearest)

    def interval(self, comparisons: int = 1) -> tuple[float, float]:
        """Of its size, by Student's t: one of so many that hold together with ``JOINT`` (Bonferroni's correction)."""
        half = _quantile(1 - (1 - JOINT) / 2 / comparisons, self.freedom) * self.error
        low, high = self.size - half, self.size + half
        if self.apart is None:
            return low, high
        least, most = (end.interval(comparisons) for end in self.apart)
        return max(low, least[0]), min(high, most[1])

    def excludes_none(self, comparisons: int = 1) -> bool:
        """Whether that interval excludes no change: who looks at so many figures at once claims by this."""
        low, high = self.interval(comparisons)
        return low > 0 or high < 0


def _apart(first: Estimate, second: Estimate) -> tuple[Change, Change] | None:
    """The least and the most that the second may be above the first, where the requests of both lie apart."""
    unbounded = first.stated.extremes or second.stated.extremes
    (low, high), (other_low, other_high) = first.ends, second.ends
    if not unbounded or (other_low <= high and low <= other_high):
        return None
    least = Change.between(first.at(high), second.at(other_low))
    return least, Change.between(first.at(low), second.at(other_high))


def estimate(
    values: Sequence[float], pooled: float = DRIFT_RATIO, stated: Stated = NOTHING, *, share: bool = False
) -> Estimate:
    """Of a configuration by its runs; ``pooled``, ``share``: see ``spread``."""
    mean = sum(values) / len(values)
    own = sum((value - mean) ** 2 for value in values)
    freedom = PRIOR_RUNS + len(values) - 1
    sd = math.sqrt((PRIOR_RUNS * (pooled * scale_of(mean, share=share)) ** 2 + own) / freedom)
    return Estimate(mean, sd, len(values), freedom, stated)


def of_one_run(
    value: float,
    same: Sequence[float] = (),
    pooled: float = DRIFT_RATIO,
    stated: Stated = NOTHING,
    *,
    share: bool = False,
) -> Estimate:
    """Of one run alone; ``same``: the runs of its configuration, by which its spread is known better."""
    own = estimate(same or (value,), pooled, share=share)
    scale = scale_of(own.mean, share=share)
    ratio = own.between / scale if scale else 0.0
    return Estimate(value, ratio * scale_of(value, share=share), 1, own.freedom, stated)


def of_answers(values: Sequence[float], stated: Stated = NOTHING) -> Estimate:
    """Of a measure of answers by the runs of a configuration, which were asked the same samples.

    No machine is quicker or slower at being right: runs differ by what they show, not by ``DRIFT_RATIO``. The error is
    that of the samples' choice, which more runs of the same samples don't lessen.
    """
    mean = sum(values) / len(values)
    squares = sum((value - mean) ** 2 for value in values)
    between = math.sqrt(squares / (len(values) - 1)) if len(values) > 1 else 0.0
    whole = replace(stated, within=0.0, systematic=math.hypot(stated.within, stated.systematic))
    return Estimate(mean, between, len(values), KNOWN_FREEDOM, whole)


def of_result(
    figure: Figure,
    value: float,
    same: Sequence[float] = (),
    pooled: float = DRIFT_RATIO,
    stated: Stated = NOTHING,
) -> Estimate:
    """``of_one_run`` of any figure, ``of_answers`` of how right answers are."""
    if not figure.drifts:
        return of_answers((value,), stated)
    return of_one_run(value, same, pooled, stated, share=figure.share)


def why_equal(figure: Figure | None, leader: Estimate, own: Estimate) -> str:
    """Why the two, which do not differ, share a rank: they are within noise, or nobody knows which is better.

    The latter where a run could not bound its own error, or where it is only the method of an energy that may be wrong
    by more than they are apart.
    """
    if not (leader.stated.bounded and own.stated.bounded):
        return NO_INTERVAL
    if figure is not None and figure.energy_based:
        sides = (replace(e, stated=replace(e.stated, systematic=0.0)) for e in (leader, own))
        if Change.between(*sides).settled:
            return METHOD_WRONG
    return WITHIN_NOISE


def above(difference: float, error: float, freedom: float) -> float:
    """The probability that a quantity with that estimate and standard error is above 0."""
    from scipy.special import stdtr  # scipy.stats takes a second to import

    if error == 0:
        return 0.5 if difference == 0 else float(difference > 0)
    return float(stdtr(freedom, difference / error))


def runs_to_settle(a: Estimate, b: Estimate) -> int | None:
    """How many more runs of both would settle which is more, if the means stay; None above ``MOST_RUNS``."""
    for more in range(1, MOST_RUNS + 1):
        grown = [replace(e, runs=e.runs + more, freedom=e.freedom + more) for e in (a, b)]
        if Change.between(*grown).settled:
            return more
    return None


def length_to_settle(a: Estimate, b: Estimate) -> float | None:
    """How many times as long runs of both would settle it, if the means stay; None where no length would.

    A run's own error shrinks with the square root of its length; what differs from run to run stays.
    """
    times = 1.0
    while times < MOST_TIMES:
        longer = [replace(e, stated=e.stated.after(times)) for e in (a, b)]
        if Change.between(*longer).settled:
            return times
        times *= 1.02
    return None


def _quantile(probability: float, freedom: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))
