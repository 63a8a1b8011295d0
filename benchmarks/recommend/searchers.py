"""The searches that are compared: ours, and those that it has to beat. Each is ask and tell."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from benchmarks.recommend.space import Point, as_settings
from inferbench_tasks.analysis.search.searcher import Goal, Search, excess_of


class Searcher(Protocol):
    """See ``analysis.search.Search``."""

    def ask(self) -> int | None: ...
    def tell(self, index: int, figures: Mapping[str, float | None]) -> None: ...


class RandomSearch:
    """Each configuration with the same probability, none twice."""

    def __init__(self, points: Sequence[Point], goal: Goal, seed: int) -> None:
        self._order = random.Random(seed).sample(range(len(points)), len(points))

    def ask(self) -> int | None:
        """The next."""
        return self._order.pop() if self._order else None

    def tell(self, index: int, figures: Mapping[str, float | None]) -> None:
        """Learns nothing."""


class HillClimbing:
    """As Model Analyzer's quick search does: from the smallest settings to the best of the neighbours that differ in
    one step of one axis, and on from there. Where no neighbour is better it begins again at a random place (Model
    Analyzer ends there; so this is the kinder comparison). Of two that break a bound, the one that breaks it less
    is better.
    """

    def __init__(self, points: Sequence[Point], goal: Goal, seed: int) -> None:
        self._points, self._goal, self._rng = points, goal, random.Random(seed)
        self._axes = {axis: list(dict.fromkeys(p[axis] for p in points)) for axis in points[0]}
        self._index = {tuple(p.values()): i for i, p in enumerate(points)}
        self._rank: dict[int, tuple[float, float]] = {}
        smallest = {a: values[0] if isinstance(values[0], str) else min(values) for a, values in self._axes.items()
                    if not any(isinstance(v, str) for v in values)}  # fmt: skip
        chosen = {axis: smallest.get(axis, self._rng.choice(values)) for axis, values in self._axes.items()}
        self._here = self._index[tuple(chosen.values())]
        self._queue = [self._here]

    def ask(self) -> int | None:
        """The next neighbour."""
        while len(self._rank) < len(self._points):
            while self._queue:
                if (index := self._queue.pop()) not in self._rank:
                    return index
            around = self._neighbours(self._here)
            better = max([self._here, *around], key=lambda i: self._rank.get(i, (-1e99, 0.0)))
            if better != self._here or any(i not in self._rank for i in around):
                self._here = better
            else:
                self._here = self._rng.choice([i for i in range(len(self._points)) if i not in self._rank])
            self._queue = [self._here, *self._neighbours(self._here)]
            self._rng.shuffle(self._queue)
        return None

    def tell(self, index: int, figures: Mapping[str, float | None]) -> None:
        """Feasible before infeasible; then the objective, or the excess."""
        excess = [excess_of(bound, figures) for bound in self._goal.bounds]
        broken = sum(99.0 if e is None else max(0.0, e) for e in excess)
        gain = self._goal.gain(figures)
        self._rank[index] = (-broken, gain if gain is not None else -1e99)

    def _neighbours(self, index: int) -> list[int]:
        point, found = self._points[index], []
        for axis, values in self._axes.items():
            at = values.index(point[axis])
            ordered = not any(isinstance(v, str) for v in values)
            for other in (at - 1, at + 1) if ordered else [i for i in range(len(values)) if i != at]:
                if 0 <= other < len(values):
                    key = tuple({**point, axis: values[other]}.values())
                    if key in self._index:
                        found.append(self._index[key])
        return found


class Optuna:
    """Optuna's sampler of that name over the ranks of ordered settings, told logarithms and by how much bounds break.

    Where it asks for what is known it is told again at no cost, up to ``_REPEATS`` times, then gets one at random.
    """

    _REPEATS = 100

    def __init__(self, points: Sequence[Point], goal: Goal, seed: int, sampler: str, first: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        self._optuna, self._goal, self._points = optuna, goal, points
        self._rng = random.Random(seed)
        axes = {axis: list(dict.fromkeys(p[axis] for p in points)) for axis in points[0]}
        self._ranked = {a: sorted(v) for a, v in axes.items() if not any(isinstance(x, str) for x in v)}
        self._space = {
            axis: optuna.distributions.IntDistribution(0, len(values) - 1)
            if axis in self._ranked
            else optuna.distributions.CategoricalDistribution(values)
            for axis, values in axes.items()
        }
        self._index = {tuple(p.values()): i for i, p in enumerate(points)}
        kinds = {"TPE": optuna.samplers.TPESampler, "GP": optuna.samplers.GPSampler}
        self._study = optuna.create_study(
            direction="maximize" if goal.higher else "minimize",
            sampler=kinds[sampler](seed=seed, n_startup_trials=first),
        )
        self._known: dict[int, Mapping[str, float | None]] = {}
        self._trial: Any = None

    def ask(self) -> int | None:
        """What the sampler wants to know next."""
        for _ in range(self._REPEATS):
            self._trial = self._study.ask(self._space)
            chosen = self._trial.params
            index = self._index[tuple(self._value(axis, chosen[axis]) for axis in self._space)]
            if index not in self._known:
                return index
            self._report(self._known[index])
        unknown = [index for index in range(len(self._points)) if index not in self._known]
        if not unknown:
            return None
        index = self._rng.choice(unknown)
        point = self._points[index]
        ranks = {a: self._ranked[a].index(point[a]) if a in self._ranked else point[a] for a in self._space}
        self._study.enqueue_trial(ranks)
        self._trial = self._study.ask(self._space)
        return index

    def tell(self, index: int, figures: Mapping[str, float | None]) -> None:
        """Infinitely bad where a figure is missing."""
        self._known[index] = figures
        self._report(figures)

    def _report(self, figures: Mapping[str, float | None]) -> None:
        for bound in self._goal.bounds:
            excess = excess_of(bound, figures)
            self._trial.set_constraint(str(bound), 99.0 if excess is None else excess)
        value = figures.get(self._goal.objective)
        failed = self._optuna.trial.TrialState.FAIL
        if value is None:
            self._study.tell(self._trial, state=failed)
        else:
            self._study.tell(self._trial, math.log(value))

    def _value(self, axis: str, given: Any) -> Any:
        return self._ranked[axis][given] if axis in self._ranked else given


SEARCHERS: dict[str, Callable[[Sequence[Point], Goal, int, int], Searcher]] = {
    "this search": lambda points, goal, seed, budget: Search(
        [as_settings(point) for point in points], goal, seed=seed, budget=budget
    ),
    "Optuna TPE": lambda points, goal, seed, budget: Optuna(points, goal, seed, "TPE", budget // 3),
    "Optuna GP": lambda points, goal, seed, budget: Optuna(points, goal, seed, "GP", budget // 3),
    "hill climbing": lambda points, goal, seed, budget: HillClimbing(points, goal, seed),
    "random": lambda points, goal, seed, budget: RandomSearch(points, goal, seed),
}
