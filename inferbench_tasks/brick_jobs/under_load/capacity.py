"""The highest rate at which an objective holds; without one, from which on the queue only grows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from inferbench_tasks.arrivals.base import ArrivalProcess
from inferbench_tasks.arrivals.poisson import Poisson
from inferbench_tasks.brick_jobs.under_load.objective import LEAST_ERROR_RATIO, LONGEST, Objective
from inferbench_tasks.brick_jobs.under_load.simulated import MOST_REQUESTS, worst_ratio
from inferbench_tasks.queueing.server import Server
from inferbench_tasks.submission.schema import LoadSpec

#: A rate is found to within this share of it.
WITHIN_RATIO = 0.01
#: Below this share of the saturation rate requests hardly meet: an objective that fails there fails alone.
_LEAST_RATIO = 0.01
#: From one rate to the next lower one that is looked at; a narrower range in which an objective holds may be missed.
_STEP_RATIO = 0.8
#: Random paths, each with a highest rate of its own; an odd number, for its median.
SEEDS = 5
#: As many of them at each end of the model's interval, where the search takes as long again.
_END_SEEDS = 3
#: Over so many draws the mean of a service is taken that is not known.
_DRAWS = 100_000
#: So many times longer than a queue takes to forget is a path long enough.
_RELAXATIONS = 100
#: So many requests lie beyond the percentile that is looked at, where the longest path has as many.
_BEYOND = 100


def at_rate(arrivals: ArrivalProcess, rate_rps: float) -> ArrivalProcess:
    """The same at another rate; Poisson's where the kind has none that can be chosen, or changes it by itself: a
    capacity is of one rate."""
    if arrivals.stationary and "rate_rps" in type(arrivals).model_fields:
        return arrivals.model_copy(update={"rate_rps": rate_rps})
    return Poisson(kind="poisson", rate_rps=rate_rps)


@dataclass(frozen=True)
class Capacity:
    """``rps``: None where it can't be told, within ``interval_rps``, which always holds it: it is too close to
    saturation, or fewer may fail than ``least_error_ratio``, which else is None.

    ``fails_at_rps``: a lower rate at which the objective fails, None where none was found; 0 is the capacity where it
    holds at no rate that was looked at.
    """

    rps: float | None
    interval_rps: tuple[float, float]
    fails_at_rps: float | None = None
    least_error_ratio: float | None = None


def capacity(
    server: Callable[[float], Server],
    factors: tuple[float, float],
    load: LoadSpec,
    arrivals: ArrivalProcess,
    objective: Objective,
    seed: int,
) -> Capacity:
    """``server``: with every time of the model so many times as long; ``factors``: the longest and the shortest that
    its interval allows.

    The median of ``SEEDS`` random paths; the interval is from the lowest with the longest times to the highest with
    the shortest, and ``WITHIN_RATIO`` more, within which each is found.

    Of a share that may fail below ``LEAST_ERROR_RATIO`` only a bound is told: less than where so many may.
    """
    if 0 < (objective.error_ratio or 0) < LEAST_ERROR_RATIO:
        looser = replace(objective, error_ratio=LEAST_ERROR_RATIO)
        above = capacity(server, factors, load, arrivals, looser, seed)
        if above.rps == 0:
            return above
        return Capacity(None, (0.0, above.interval_rps[1]), above.fails_at_rps, LEAST_ERROR_RATIO)
    slow, fast = factors
    searches = {
        factor: [Search(server(factor), load, arrivals, objective, (seed, at)) for at in range(paths)]
        for factor, paths in {slow: _END_SEEDS, fast: _END_SEEDS, 1.0: SEEDS}.items()
    }
    first = searches[1.0][0]
    most = searches[fast][0].saturation_rps
    if not objective.percentiles_ms:
        return Capacity(first.saturation_rps, (searches[slow][0].saturation_rps, most))
    found = {1.0: list(_each_rps(searches[1.0], None))}
    rps = float(np.median(found[1.0]))
    for factor in {slow, fast} - {1.0}:
        found[factor] = list(_each_rps(searches[factor], rps / factor if 0 < rps < math.inf else None))
    low = min(*found[slow], *found[1.0], searches[slow][0].highest_rps) / (1 + WITHIN_RATIO)
    high = min(max(*found[fast], *found[1.0]) * (1 + WITHIN_RATIO), most)
    fails_at_rps = first.fails_below(min(rps, first.highest_rps))
    return Capacity(None if rps == math.inf else rps, (low, high), fails_at_rps)


def _each_rps(searches: Iterable[Search], near_rps: float | None) -> Iterator[float]:
    """That of each path; all but the first begin near the one before."""
    for search in searches:
        rps = search.rps(near_rps)
        near_rps = rps if 0 < rps < math.inf else near_rps
        yield rps


@dataclass(frozen=True)
class Search:
    """Of one server under one kind of load, along one random path: ``seed``'s, the same at every rate.

    The objective is that of a queue that has forgotten how it began, however short the load is.
    """

    server: Server
    load: LoadSpec
    arrivals: ArrivalProcess
    objective: Objective
    seed: tuple[int, ...]

    @cached_property
    def saturation_rps(self) -> float:
        """At that rate a queue grows, whatever the latencies of a short load say: it bounds every capacity."""
        rng = np.random.default_rng(self.seed)
        return self.server.capacity_rps(self.load.samples_per_request, rng, _DRAWS)

    @cached_property
    def highest_rps(self) -> float:
        """The highest rate that is looked at: close to saturation a queue forgets so slowly that the longest path says
        nothing of it.

        It takes (1 - utilisation)^-2 requests or some, times the mean of the squared coefficients of variation of gaps
        and services (heavy traffic; Whitt, Planning queueing simulations, 1989).
        """
        longest = 1 - math.sqrt(_RELAXATIONS * self.variability / LONGEST)
        return self.saturation_rps * min(1 - WITHIN_RATIO, max(longest, _LEAST_RATIO))

    def rps(self, near_rps: float | None = None) -> float:
        """The highest rate at which it holds, to ``WITHIN_RATIO``; infinite where it is beyond ``highest_rps``, 0 where
        it holds at no rate that is looked at. ``near_rps``: about where that may be, which saves time and changes
        nothing.

        From the top down: where batches wait for more requests, latencies fall with the rate before they rise. Far
        above its capacity a rate costs little: it fails for certain after few requests.
        """
        above = math.inf
        for rate_rps in self._grid():
            if (ratio := self.ratio(rate_rps)) <= 1:
                return math.inf if above == math.inf else self._between(rate_rps, ratio, above, near_rps)
            above = rate_rps
        return 0.0

    def fails_below(self, rps: float) -> float | None:
        """The highest of the lower rates that are looked at, below ``rps``, at which it fails; None where it holds at
        all of them."""
        waits, sleeps = self.server.batcher.delay_ns, self.server.batch_idle_ns
        # Else fewer requests never wait longer; where the server only sleeps longer, the fewest wait longest.
        if not waits and (not sleeps or self.holds(min(rps, self.saturation_rps * _LEAST_RATIO))):
            return None
        return next((rate for rate in self._grid() if rate < rps and not self.holds(rate)), None)

    def holds(self, rate_rps: float) -> bool:
        """No more fail than may, and every percentile is within its bound."""
        return self.ratio(rate_rps) <= 1

    def ratio(self, rate_rps: float) -> float:
        """The worst percentile over its bound; see ``worst_ratio``."""
        requests = self._requests(rate_rps)
        load = self.load.model_copy(
            update={
                "max_requests": None, "duration_s": requests / rate_rps, "warmup_s": requests / rate_rps / 10
            }
        )  # fmt: skip
        arrivals, rng = at_rate(self.arrivals, rate_rps), np.random.default_rng(self.seed)
        return worst_ratio(self.server, load, arrivals, rng, LONGEST, self.objective.percentiles_ms)

    def _grid(self) -> Iterator[float]:
        rate_rps, least_rps = self.highest_rps, self.saturation_rps * _LEAST_RATIO
        while rate_rps > least_rps:
            yield rate_rps
            rate_rps *= _STEP_RATIO
        yield least_rps

    def _between(self, low: float, ratio: float, high: float, near: float | None) -> float:
        """Of equal steps in the logarithm the highest from ``low`` at which it holds, ``high`` being one at which it
        does not; ``ratio``: that of ``low``.

        Which steps are looked at depends on ``near``, and on where the line through the last two ratios crosses 1; the
        answer does not, where it holds at each step below and at none above.
        """
        steps = 1
        while (high / low) ** (1 / steps) > 1 + WITHIN_RATIO:
            steps *= 2
        holds, fails = 0, steps
        seen = [(0, math.log(ratio))]
        while fails - holds > 1:
            at = (holds + fails) // 2
            if len(seen) > 1 and (line := seen[-1][1] - seen[-2][1]):
                at = math.floor(seen[-1][0] - seen[-1][1] * (seen[-1][0] - seen[-2][0]) / line)
            elif len(seen) == 1 and near is not None:
                at = round(steps * math.log(near / low) / math.log(high / low))
            at = min(max(at, holds + 1), fails - 1)
            ratio = self.ratio(low * (high / low) ** (at / steps))
            holds, fails = (at, fails) if ratio <= 1 else (holds, at)
            if ratio < math.inf:
                seen.append((at, math.log(ratio)))
            else:
                near = None
        return float(low * (high / low) ** (holds / steps))

    def forgets_in(self, rate_rps: float) -> float:
        """Requests after which a queue at that rate has forgotten how it began; see ``highest_rps``."""
        return _RELAXATIONS * self.variability / max(1 - rate_rps / self.saturation_rps, 1e-9) ** 2

    def _requests(self, rate_rps: float) -> int:
        # Of requests of which none may fail every number of them is as good: some fail in the long run.
        tails = [100 / (100 - percent) for percent in self.objective.percentiles_ms if percent < 100]
        wanted = max(MOST_REQUESTS, _BEYOND * max(tails, default=0), self.forgets_in(rate_rps))
        return math.ceil(min(wanted, LONGEST))

    @cached_property
    def variability(self) -> float:
        """The mean of the squared coefficients of variation of gaps and services."""
        rng, rows, rate = np.random.default_rng(self.seed), self.load.samples_per_request, self.saturation_rps
        gaps = np.diff(at_rate(self.arrivals, rate).offsets_ns(MOST_REQUESTS / rate, rng))
        times = [self.server.service(rows, rng) for _ in range(MOST_REQUESTS)]
        squared = [float(np.var(one) / np.mean(one) ** 2) for one in (gaps, times)]
        return sum(squared) / 2
