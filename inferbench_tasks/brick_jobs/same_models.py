"""Which models of a list are one model, so that none of them tells of another how well it is predicted.

They have the same operators in the same order, or at least 90% of the time of either is in bricks that both have (each
as often as it stands in both): made by another framework or exporter a model has a transposition more, and all the rest
is the same. Models that repeat the same bricks in other numbers (ResNet-50 and 101) are two.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.bricks.results import Result

#: From so much of both models' time in the same bricks on they are one model.
SAME_RATIO = 0.9


def kinds(cuts: Sequence[CutModel], known: Mapping[str, Result]) -> list[int]:
    """Of each of these models, all of whose bricks are known, a number that all have that are the same model at its
    batch size and granularity. What is the same as two others makes one of all three."""
    found = list(range(len(cuts)))
    warm_ns = {part: _mean_ns(known[part]) for cut in cuts for part in cut.parts}
    times = [{part: count * warm_ns[part] for part, count in Counter(cut.parts).items()} for cut in cuts]
    sums = [math.fsum(of.values()) for of in times]
    for at, cut in enumerate(cuts):
        for before, other in enumerate(cuts[:at]):
            if found[before] == found[at]:
                continue
            if (other.batch_size, other.granularity) != (cut.batch_size, cut.granularity):
                continue
            most = max(sums[at], sums[before])
            if other.operators == cut.operators or (
                min(sums[at], sums[before]) >= SAME_RATIO * most
                and _shared_ns(times[at], times[before]) >= SAME_RATIO * most
            ):
                mine = found[at]
                found = [found[before] if one == mine else one for one in found]
    return found


def _shared_ns(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    return math.fsum(min(ns, other[part]) for part, ns in one.items() if part in other)


def _mean_ns(result: Result) -> float:
    times = result.rounds_ns["warm"]
    return math.fsum(times) / len(times)
