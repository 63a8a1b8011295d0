"""A device's configurations under an objective: which keep it, the best of them, and how far a ratio of two is known.

Latencies have errors, so a configuration close to the objective keeps it with a probability: surely from
``certainty.SETTLED`` on, possibly down to 1 - ``SETTLED``. With the 95% interval [l, h] of the ratio of two throughputs
(``certainty``) the interval of a speed-up is

    [max over sure i of min over possible j of l(i, j),  max over possible i of min over sure j of h(i, j)]

over the device's configurations i and the reference's j: what stands on a configuration that may break the objective
widens it. It begins at 0 where no configuration surely keeps it. Each end is the extreme of several bounds, one of
which errs more often than one alone: l is Bonferroni's of as many comparisons as there are sure i, h of as many as
there are sure j.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from inferbench_tasks.analysis.certainty import SETTLED, Change
from inferbench_tasks.analysis.recommend.candidates import Candidate
from inferbench_tasks.analysis.recommend.judge import Judge

THROUGHPUT = "throughput_samples_per_s"


@dataclass(frozen=True)
class Place:
    """A configuration: its samples/s, its latency, and the probability that it keeps the objective."""

    candidate: Candidate
    throughput: float
    latency_ms: float
    keeps: float

    @property
    def sure(self) -> bool:
        return self.keeps >= SETTLED

    @property
    def possible(self) -> bool:
        return self.keeps >= 1 - SETTLED


def places_of(group: Sequence[Candidate], base: Candidate, statistic: str, judge: Judge) -> list[Place]:
    """Those that have both figures; the objective is the latency of ``base``."""
    objective = judge.estimate(base, statistic)
    places = []
    for one in group:
        latency, throughput = one.mean(statistic), throughput_of(one)
        if latency is None or not throughput:
            continue
        # The objective is its own latency: no error of that counts against it.
        keeps = 1.0 if one is base else Change.between(judge.estimate(one, statistic), objective).rises
        places.append(Place(one, throughput, latency, keeps))
    return places


def throughput_of(one: Candidate) -> float:
    """Samples per second; 0 where a run lacks them."""
    return one.mean(THROUGHPUT) or 0.0


def best_of(places: Iterable[Place], bound_ms: float) -> Place | None:
    """The largest throughput within the bound; of equal ones the quickest."""
    return _largest(one for one in places if one.latency_ms <= bound_ms)


def possibly_best(places: Iterable[Place]) -> Place | None:
    """The largest throughput that may be within the bound."""
    return _largest(one for one in places if one.possible)


def interval(own: Sequence[Place], base: Sequence[Place], judge: Judge) -> list[float]:
    """Of the speed-up; the module says how. One of ``own`` has to be possible, one of ``base`` sure."""
    sure_own, sure_base = ([one for one in group if one.sure] for group in (own, base))

    def ratios(one: Place, others: Iterable[Place], end: int, comparisons: int) -> float:
        estimate = judge.estimate(one.candidate, THROUGHPUT)
        return min(
            math.exp(
                Change.between(judge.estimate(other.candidate, THROUGHPUT), estimate).interval(comparisons)[
                    end
                ]
            )
            for other in others
        )

    possible = [one for one in base if one.possible]
    low = max((ratios(one, possible, 0, len(sure_own)) for one in sure_own), default=0.0)
    return [low, max(ratios(one, sure_base, 1, len(sure_base)) for one in own if one.possible)]


def _largest(places: Iterable[Place]) -> Place | None:
    return max(places, key=lambda one: (one.throughput, -one.latency_ms, one.candidate.key), default=None)
