"""The search: which configurations to run so that few runs find one that is nearly the best.

Ask and tell over a discrete space, seeded. A few points come first that have many pairs of settings between them; then
each next one has the largest expected improvement of the objective where every bound is kept (Schonlau, Welch and
Jones, "Global versus local search in constrained optimization of computer models", 1998), by the ``outlook`` on all
figures of the goal together. It starts nothing and reads nothing: who asks also measures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.search.covering import Covering
from inferbench_tasks.analysis.search.outlook import ByServers, BySettings, Evidence, Indexes, Prior
from inferbench_tasks.analysis.search.servers import MODELLED
from inferbench_tasks.analysis.search.surrogate import Array, GaussianProcess, encode
from inferbench_tasks.blas import one_thread

#: The share of the space that a search may run, and the least that it needs to learn anything.
BUDGET_RATIO, MIN_BUDGET = 0.08, 8
#: The share of the runs that go apart before the outlook chooses, and their least and largest number.
FIRST_RATIO, FIRST_RUNS = 0.25, (4, 10)
#: Where the logarithm of a figure is taken, nothing is below this.
_TINY = 1e-12
#: Figures that tell of others.
TELLING = ("throughput_samples_per_s", "mean_ms")
#: Draws from the outlook, and how far below them (a logarithm) stands what figures say one by one.
_DRAWS, _ALONE = 400, math.log(1e-6)


@dataclass(frozen=True)
class Goal:
    """What is best, and what has to be kept."""

    objective: str
    higher: bool
    bounds: tuple[Bound, ...] = ()

    def figures(self) -> tuple[str, ...]:
        """The figures that a run has to tell."""
        return tuple(dict.fromkeys((self.objective, *(bound.figure for bound in self.bounds))))

    def keeps(self, figures: Mapping[str, float | None]) -> bool:
        """Whether all bounds are kept; a figure that is missing keeps none."""
        return all((excess := excess_of(bound, figures)) is not None and excess <= 0 for bound in self.bounds)

    def gain(self, figures: Mapping[str, float | None]) -> float | None:
        """The objective, larger is better; None if it was not measured."""
        value = figures.get(self.objective)
        return None if value is None else value if self.higher else -value


def excess_of(bound: Bound, figures: Mapping[str, float | None]) -> float | None:
    """How far beyond its bound a figure is, as a logarithm of their ratio; None if it was not measured."""
    value = figures.get(bound.figure)
    if value is None:
        return None
    ratio = math.log(max(value, _TINY)) - math.log(max(bound.value, _TINY))
    return ratio if bound.at_most else -ratio


def budget_of(size: int) -> int:
    """How many runs a search over so many configurations takes by default: 8%, at least 8, at most all."""
    return min(size, max(MIN_BUDGET, int(BUDGET_RATIO * size)))


@dataclass
class Trial:
    """All that was told of one configuration; ``figures`` are the means over its runs."""

    index: int
    runs: list[dict[str, float | None]] = field(default_factory=list)

    @property
    def figures(self) -> dict[str, float | None]:
        """None for a figure that any of its runs lacks."""
        means: dict[str, float | None] = {}
        for name in self.runs[0]:
            values = [run.get(name) for run in self.runs]
            numbers = [value for value in values if value is not None]
            means[name] = sum(numbers) / len(numbers) if len(numbers) == len(values) else None
        return means

    def complete(self, names: Sequence[str]) -> bool:
        """Whether it has all of these figures."""
        return all(self.figures.get(name) is not None for name in names)


class Search:
    """``points``: the whole space, each a mapping of settings. ``budget``: the runs in view; it only shapes how
    many of them explore at first. The same seed and answers give the same questions.
    """

    def __init__(
        self, points: Sequence[Mapping[str, Any]], goal: Goal, *, seed: int = 1, budget: int | None = None
    ) -> None:
        if not points:
            raise ValueError("a search needs at least one configuration")
        self.goal = goal
        self.trials: dict[int, Trial] = {}
        self._encoding = encode(points)
        self._covering = Covering(points)
        self._rng = np.random.default_rng(seed)
        least, most = FIRST_RUNS
        self._first = max(least, min(most, round((budget or budget_of(len(points))) * FIRST_RATIO)))
        self._open = np.ones(len(points), dtype=bool)
        self._theta: dict[str, Array] = {}
        self._normal = np.random.default_rng(seed).standard_normal((len(goal.figures()), _DRAWS))
        modelled = [name for name in self.figures() if name in MODELLED]
        self._prior = Prior(points, modelled, self._encoding, seed)

    def figures(self) -> tuple[str, ...]:
        """What a run should tell: the goal's figures, and those that tell of them."""
        return tuple(dict.fromkeys((*self.goal.figures(), *TELLING)))

    def ask(self) -> int | None:
        """The index of the configuration to run next; None once all were."""
        candidates = np.flatnonzero(self._open)
        if not len(candidates):
            return None
        if len(self.trials) < self._first:
            return self._covering.next(candidates, list(self.trials), self._rng)
        with one_thread():
            return int(candidates[int(np.argmax(self._scores(candidates)))])

    def tell(self, index: int, figures: Mapping[str, float | None]) -> None:
        """What a run of that configuration showed: None for figures that it has not (it failed)."""
        values = {name: figures.get(name) for name in self.figures()}
        self.trials.setdefault(index, Trial(index)).runs.append(values)
        self._open[index] = False

    def skip(self, index: int) -> None:
        """Don't ask for it again though nothing is known of it (its run was disturbed)."""
        self._open[index] = False

    @property
    def best(self) -> Trial | None:
        """The best that keeps all bounds; None if none does."""
        fitting = [
            (gain, trial)
            for trial in self.trials.values()
            if self.goal.keeps(trial.figures) and (gain := self.goal.gain(trial.figures)) is not None
        ]
        return max(fitting, key=lambda pair: pair[0])[1] if fitting else None

    def _scores(self, candidates: Indexes) -> Array:
        """Logarithm of the expected improvement where all bounds are kept; while nothing keeps them, of the probability
        that they are. By draws from the outlook, and by its figures one by one where no draw is good.
        """
        from scipy.stats import norm

        trials = [trial for trial in self.trials.values() if trial.complete(self.goal.figures())]
        chance = self._works(candidates) + 1e-9 * self._rng.random(len(candidates))
        if len(trials) < 2:
            return chance + self._rng.random(len(candidates))
        names = self.goal.figures()
        mean, covariance = self._outlook(trials, candidates)
        sd = np.sqrt(np.maximum(covariance[:, range(len(names)), range(len(names))], 1e-12))
        root = np.linalg.cholesky(covariance + 1e-6 * np.eye(len(names)))
        draws = mean[:, :, None] + root @ self._normal  # points x figures x draws
        good, alone = np.ones((len(candidates), _DRAWS)), np.zeros(len(candidates))
        for bound in self.goal.bounds:
            number, sign = names.index(bound.figure), 1.0 if bound.at_most else -1.0
            limit = math.log(max(bound.value, _TINY))
            good *= sign * (draws[:, number] - limit) <= 0
            alone += norm.logcdf(sign * (limit - mean[:, number]) / sd[:, number])
        best = self.best
        if best is not None or not self.goal.bounds:
            sign = 1.0 if self.goal.higher else -1.0
            top = max(sign * _log(t.figures[self.goal.objective]) for t in ([best] if best else trials))
            good *= np.maximum(sign * draws[:, 0] - top, 0.0)
            z = (sign * mean[:, 0] - top) / sd[:, 0]
            improvement = sd[:, 0] * (norm.pdf(z) + z * norm.cdf(z))
            alone += np.where(
                improvement > 1e-300,
                np.log(np.maximum(improvement, 1e-300)),
                norm.logpdf(z) + np.log(sd[:, 0]),
            )
        together = np.log(np.maximum(good.mean(axis=1), 1e-300))
        scores: Array = np.logaddexp(together, alone + _ALONE) + chance
        return scores

    def _outlook(self, trials: list[Trial], candidates: Indexes) -> tuple[Array, Array]:
        """Logarithms of the goal's figures: means (points, figures) and covariances (points, figures, figures).

        Figures that servers are known to have are seen by the view that foretells them better.
        """
        names = self.goal.figures()
        logs = {
            name: np.array([_log(trial.figures[name]) for trial in trials])
            for name in self.figures()
            if all(trial.figures[name] is not None for trial in trials)
        }
        evidence = Evidence(np.array([trial.index for trial in trials], dtype=np.intp), logs)
        mean, covariance = (
            np.zeros((len(candidates), len(names))),
            np.zeros((len(candidates), len(names), len(names))),
        )
        for modelled in (True, False):
            numbers = [n for n, name in enumerate(names) if (name in self._prior.figures) is modelled]
            if not numbers:
                continue
            part = [names[number] for number in numbers]
            view: BySettings | ByServers = BySettings(self._encoding, evidence, part, self._theta)
            if modelled and (by_servers := ByServers(self._prior, evidence, part)).foretold >= view.foretold:
                view = by_servers
            mean[:, numbers], covariance[np.ix_(range(len(candidates)), numbers, numbers)] = view.at(
                candidates
            )
        return mean, covariance

    def _works(self, candidates: Indexes) -> Array:
        """Logarithm of the probability that a configuration has all figures, once some had not."""
        from scipy.stats import norm

        trials = list(self.trials.values())
        works = np.array([1.0 if t.complete(self.goal.figures()) else -1.0 for t in trials])
        if len(set(works)) < 2:
            return np.zeros(len(candidates))
        x = self._encoding.features
        model = GaussianProcess(
            x[[t.index for t in trials]], self._encoding.axis_of, works, self._theta.get("works")
        )
        self._theta["works"] = model.theta
        mean, sd = model.predict(x[candidates])
        scores: Array = norm.logcdf(mean / np.sqrt(sd**2 + 0.1))
        return scores


def _log(value: float | None) -> float:
    return math.log(max(value or 0.0, _TINY))
