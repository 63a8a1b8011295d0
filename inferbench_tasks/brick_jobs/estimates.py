"""Bricks that were never measured at a setting, estimated from those that were; and how far off such estimates are.

The logarithm of a brick's time is a ridge regression (scikit-learn) on the logarithms of its arithmetic, its bytes and
a guess of both, each by itself and for its operator. How far off it is comes from families that are held back: all
bricks of a family's models are estimated by what was measured of bricks that are in none of them, and added up, each as
often as it stands in these models: as a model's time is. The root mean square of these sums' log ratios is the error of
what is estimated in any other model, of warm sums that of warm ones, of streamed sums that of streamed ones. All of it
is of one precision and one view of models: what an int8 brick takes tells nothing of one in fp32.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inferbench_tasks.brick_jobs.counting import outdated
from inferbench_tasks.brick_jobs.cutting import BrickWork
from inferbench_tasks.brick_jobs.families import family_of
from inferbench_tasks.brick_jobs.filling import run_s
from inferbench_tasks.bricks.measure.method import STATES
from inferbench_tasks.bricks.results import Result

#: Fewer measured bricks, or families of models to hold back, say nothing of others.
FEWEST_BRICKS, FEWEST_FAMILIES = 20, 3
#: Of the ridge regression: how much a coefficient costs, in columns of unit scale.
_ALPHA = 0.01


@dataclass(frozen=True)
class Known:
    """A measured brick: its work, its times, the families of the models that it is in, with how often it stands in
    these models, and ``places``, home and host of where it was measured."""

    work: BrickWork
    times_ns: Mapping[str, float]
    families: Mapping[str, int]
    places: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Estimates:
    """``ns``: identity -> state -> time. ``spreads``: state -> that of the logarithm of a family's sum, held back;
    ``families``: how many were. ``bricks``: what was learned from; ``places``: where that was measured."""

    ns: dict[str, dict[str, float]]
    spreads: dict[str, float]
    families: int
    bricks: int
    places: tuple[tuple[str, str], ...] = ()


def estimated(missing: Iterable[BrickWork], known: Sequence[Known]) -> Estimates | None:
    """Of each missing brick; None where too few others are known, or none of its type: nothing is known of that."""
    missing = list(missing)
    if not missing or not {_type(work) for work in missing} <= {_type(one.work) for one in known}:
        return None
    spreads, families = held_back(known)
    if spreads is None:
        return None
    by_state = _fitted(known)(missing)
    ns = {one.identity: {state: by_state[state][at] for state in STATES} for at, one in enumerate(missing)}
    places = tuple(sorted({place for one in known for place in one.places}))
    return Estimates(ns, spreads, families, len(known), places)


@dataclass(frozen=True)
class HeldBack:
    """One family, estimated without its bricks, in one state of the caches. ``bricks``: how many different ones;
    ``ratio``: its models' estimated over their measured sum; ``median_ratio``: the median of how far each brick is
    off."""

    family: str
    bricks: int
    ratio: float
    median_ratio: float


def by_family(known: Sequence[Known]) -> dict[str, list[HeldBack]]:
    """State -> each family, estimated by the others; see the module. Bricks of a type that no other family has are left
    out: such a one is never estimated."""
    rows: dict[str, list[HeldBack]] = {state: [] for state in STATES}
    for family in sorted({family for one in known for family in one.families}):
        others = [one for one in known if family not in one.families]
        types = {_type(one.work) for one in others}
        own = [one for one in known if family in one.families and _type(one.work) in types]
        if len(others) < FEWEST_BRICKS or not own:
            continue
        guesses = _fitted(others)([one.work for one in own])
        counts = [one.families[family] for one in own]
        for state in STATES:
            times = [one.times_ns[state] for one in own]
            off = [abs(guess / time - 1) for guess, time in zip(guesses[state], times, strict=True)]
            ratio = _times(counts, guesses[state]) / _times(counts, times)
            rows[state].append(HeldBack(family, len(own), ratio, statistics.median(off)))
    return rows


def held_back(known: Sequence[Known]) -> tuple[dict[str, float] | None, int]:
    """(State -> root mean square of the logarithms of the families' ratios, how many families there are); None for too
    few."""
    found = by_family(known)
    families = len(found[STATES[0]])
    if families < FEWEST_FAMILIES:
        return None, families
    return {state: _rms([math.log(row.ratio) for row in rows]) for state, rows in found.items()}, families


def _times(counts: Sequence[int], times: Sequence[float]) -> float:
    return math.fsum(count * time for count, time in zip(counts, times, strict=True))


def _rms(logs: Sequence[float]) -> float:
    return math.sqrt(math.fsum(log * log for log in logs) / len(logs))


def _fitted(known: Sequence[Known]) -> Callable[[Sequence[BrickWork]], dict[str, list[float]]]:
    """A function: works -> state -> their times, ns. Of all states at once: they are of the same works."""
    from sklearn.linear_model import Ridge

    operators = sorted({_type(one.work) for one in known})
    table = np.array([_row(one.work, operators) for one in known])
    target = np.log([[one.times_ns[state] for state in STATES] for one in known])
    model = Ridge(alpha=_ALPHA).fit(table, target)
    low, high = target.min(axis=0), target.max(axis=0)

    def predict(works: Sequence[BrickWork]) -> dict[str, list[float]]:
        rows = np.array([_row(work, operators) for work in works])
        # A straight line goes on for ever: not further than what was seen, and its work beyond that.
        times = np.exp(np.clip(model.predict(rows), low - 1, high + 3))
        return {state: [float(ns) for ns in times[:, at]] for at, state in enumerate(STATES)}

    return predict


def _row(work: BrickWork, operators: Sequence[str]) -> list[float]:
    amounts = [
        math.log(1e9 * run_s(work.flops, work.moved_bytes)) / 10,
        math.log1p(work.flops) / 10,
        math.log1p(work.moved_bytes) / 10,
    ]
    own = [float(_type(work) == operator) for operator in operators]
    return [*amounts, *own, *(mark * amount for mark in own for amount in amounts)]


def _type(work: BrickWork) -> str:
    return " > ".join(work.operators)


def known_bricks(cuts: Iterable[Mapping[str, Any]], results: Mapping[str, Result]) -> list[Known]:
    """What was measured of bricks that these models are made of (documents of ``decompositions``), and whose work was
    counted as it is now."""
    works: dict[str, BrickWork] = {}
    families: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for cut in cuts:
        family, counts = family_of(cut.get("model") or ""), Counter(cut.get("parts") or ())
        for values in cut.get("work") or ():
            work = BrickWork.model_validate(values)
            if outdated(work.operators, cut.get("work_count")):
                continue
            works[work.identity] = work
            families[work.identity][family] += max(1, counts[work.identity])
    return [
        Known(
            work,
            {state: float(np.mean(results[identity].rounds_ns[state])) for state in STATES},
            families[identity],
            results[identity].places,
        )
        for identity, work in works.items()
        if identity in results
    ]
