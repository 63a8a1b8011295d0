"""Where the level of a baseline changed though its code did not: the machine did.

E-Divisive over the levels of each series, as long as the baseline's code is the same. A night has many series, so that
changes are called at a false discovery rate over all of them (Benjamini and Hochberg 1995), as suspicions are: where k
of m histories have a change, each is tested at k / m of the rate. In those k further changes are looked for at that
level, too (Benjamini and Bogomolov 2014, "Selective inference on multiple families of hypotheses").
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from inferbench_tasks.regression.base import SeriesKey, Session, percent
from inferbench_tasks.regression.changepoint import PERMUTATIONS, chance, change_points
from inferbench_tasks.regression.decide import adjusted

#: The share of false ones among the changes that are called in a night, in the mean.
RATE = 0.01
#: The smallest p-value of so many permutations is that of one series among 100 at the rate.
MOST_PERMUTATIONS = 19_999
#: A level that was divided and multiplied by the same numbers.
_ROUNDING = 1 + 1e-9


def machine_changes(
    histories: Mapping[SeriesKey, Sequence[Session]],
) -> dict[SeriesKey, list[dict[str, Any]]]:
    """Of each series its changes; those with the same newest session are one night's. ``p_value``: corrected."""
    nights: dict[str, dict[SeriesKey, list[list[Session]]]] = defaultdict(dict)
    for key, history in histories.items():
        same_code = itertools.groupby(history, key=lambda session: session.baseline_id)
        nights[history[-1].id][key] = [list(sessions) for _, sessions in same_code]
    changes: dict[SeriesKey, list[dict[str, Any]]] = {}
    for night in nights.values():
        level, permutations = corrected([_levels(part) for parts in night.values() for part in parts])
        for key, parts in night.items():
            changes[key] = [
                {
                    "session": part[point.index].id,
                    "change_percent": percent(point.after - point.before),
                    "p_value": min(1.0, point.p_value * RATE / level),
                }
                for part in parts
                for point in change_points(_levels(part), level, permutations)
            ]
    return changes


def corrected(histories: Sequence[Sequence[float]], rate: float = RATE) -> tuple[float, int]:
    """The level at which each of these histories is to be searched, so that the rate is of all of them together, and
    the permutations by which it can be reached; 0 where none of them has a change."""
    chances = {at: p for at, history in enumerate(histories) if (p := chance(history, rate)) is not None}
    promising = [at for at, p in chances.items() if p <= rate]
    level = _level(chances.values(), rate)
    if all(chances[at] <= level for at in promising):
        return level, PERMUTATIONS
    # More series than permutations can tell apart: as many as one series alone would need.
    finer = min(MOST_PERMUTATIONS, math.ceil(2 * len(chances) / rate))
    again = {at: chance(histories[at], rate, finer) or 1.0 for at in promising}
    return _level((chances | again).values(), rate), finer


def _level(chances: Iterable[float], rate: float) -> float:
    p_values = list(chances)
    called = sum(p <= rate * _ROUNDING for p in adjusted(p_values))
    return rate * called / max(1, len(p_values)) * _ROUNDING


def _levels(sessions: Sequence[Session]) -> list[float]:
    return [math.log(float(np.median(session.baseline))) for session in sessions]
