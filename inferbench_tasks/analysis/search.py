"""The search: which configurations to run so that few runs find one that is nearly the best.

Ask and tell over a discrete space, seeded. A few far-apart points come first; then each next one has the largest
expected improvement of the objective times the probability that it keeps every bound (Schonlau, Welch and Jones,
"Global versus local search in constrained optimization of computer models", 1998), by a Gaussian process for the
objective and one for each bound. It starts nothing and reads nothing: who asks also measures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.analysis.candidates import Bound
from inferbench_tasks.analysis.surrogate import Array, GaussianProcess, encode

#: The share of the space that a search may run, and the least that it needs to learn anything.
BUDGET_RATIO, MIN_BUDGET = 0.08, 8
#: The share of the runs that go far apart before the models choose, and their least and largest number.
FIRST_RATIO, FIRST_RUNS = 0.25, (4, 10)
#: Where the logarithm of a figure is taken, nothing is below this.
_TINY = 1e-12


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
        found: dict[str, float | None] = {}
        for name in self.runs[0]:
            values = [run.get(name) for run in self.runs]
            known = [value for value in values if value is not None]
            found[name] = sum(known) / len(known) if len(known) == len(values) else None
        return found


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
        self._size = len(points)
        self._rng = np.random.default_rng(seed)
        least, most = FIRST_RUNS
        self._first = max(least, min(most, round((budget or budget_of(len(points))) * FIRST_RATIO)))
        self._open = np.ones(len(points), dtype=bool)
        self._theta: dict[str, Array] = {}

    def ask(self) -> int | None:
        """The index of the configuration to run next; None once all were."""
        left = np.flatnonzero(self._open)
        if not len(left):
            return None
        if len(self.trials) < min(self._first, self._size):
            return self._farthest(left)
        return int(left[int(np.argmax(self._scores(left)))])

    def tell(self, index: int, figures: Mapping[str, float | None]) -> None:
        """What a run of that configuration showed: the goal's figures, None for those it has not (it failed)."""
        known = {name: figures.get(name) for name in self.goal.figures()}
        self.trials.setdefault(index, Trial(index)).runs.append(known)
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

    def _farthest(self, left: NDArray[np.intp]) -> int:
        """Far from all that is known, in distance over the axes; the first by chance."""
        x = self._encoding.features
        known = np.flatnonzero(~self._open)
        if not len(known):
            return int(self._rng.choice(left))
        distance = np.abs(x[left][:, None] - x[known][None]).sum(axis=2)
        nearest = distance.min(axis=1) + 0.1 * distance.mean(axis=1) + 1e-3 * self._rng.random(len(left))
        return int(left[int(np.argmax(nearest))])

    def _scores(self, left: NDArray[np.intp]) -> Array:
        """Expected improvement x probability of keeping the bounds; while nothing keeps them, that alone."""
        from scipy.stats import norm

        told = list(self.trials.values())
        keeping: Array = np.zeros(len(left))
        for number, bound in enumerate(self.goal.bounds):
            mean, sd = self._model(
                f"bound {number}", told, [excess_of(bound, t.figures) for t in told], worst=max, at=left
            )
            keeping = keeping + norm.logcdf(-mean / sd)
        best = self.best
        if best is None and self.goal.bounds:
            return keeping + 1e-9 * self._rng.random(len(left))
        values = [self._objective(trial) for trial in told]
        if not any(value is not None for value in values):
            return keeping + self._rng.random(len(left))
        mean, sd = self._model("objective", told, values, worst=min, at=left)
        top = self._objective(best) if best else None
        top = max(v for v in values if v is not None) if top is None else top
        z = (mean - top) / sd
        # log of sd (pdf + z cdf); far below the best both underflow, and z itself keeps the order
        improvement = sd * (norm.pdf(z) + z * norm.cdf(z))
        logarithm = np.where(
            improvement > 1e-300, np.log(np.maximum(improvement, 1e-300)), norm.logpdf(z) + np.log(sd)
        )
        found: Array = logarithm + keeping + 1e-9 * self._rng.random(len(left))
        return found

    def _objective(self, trial: Trial) -> float | None:
        """Larger is better; its logarithm where all are positive, since a setting's effect is a factor."""
        value = trial.figures[self.goal.objective]
        if value is None:
            return None
        sign = 1.0 if self.goal.higher else -1.0
        others = (t.figures[self.goal.objective] for t in self.trials.values())
        return sign * (math.log(value) if all(v is None or v > 0 for v in others) else value)

    def _model(
        self, name: str, told: list[Trial], values: list[float | None], *, worst: Any, at: NDArray[np.intp]
    ) -> tuple[Array, Array]:
        """A prediction at these indexes. A run without any figure failed: it counts as the worst seen."""
        known = [value for value in values if value is not None]
        if not known:
            return np.zeros(len(at)), np.ones(len(at))
        pairs = [
            (trial.index, worst(known) if value is None else value)
            for trial, value in zip(told, values, strict=True)
            if value is not None or all(v is None for v in trial.figures.values())
        ]
        x, axis_of = self._encoding.features, self._encoding.axis_of
        indexes = np.array([index for index, _ in pairs], dtype=np.intp)
        model = GaussianProcess(
            x[indexes], axis_of, np.array([value for _, value in pairs]), self._theta.get(name)
        )
        self._theta[name] = model.theta
        return model.predict(x[at])
