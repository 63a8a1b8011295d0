"""Which device is slow in each of its groups, though not by itself: the link that it has to all others.

A device's pairs are all slow by its link, so that they hide each other among all pairs. So each device is judged by
the fastest of its groups, beside the groups that it is not in: as the next one of these would lie (Student's t,
one-sided). The chance that the fastest of several lies beyond is at most that of one, so that the stated rate, divided
among the devices (Bonferroni), is an upper bound. The most suspicious are taken away one by one, and as many are named
as the last one that lies beyond (Rosner's generalised ESD, 1983): two slow links do not hide each other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from inferbench_tasks.training.fleet.outliers import FALSE_ALARMS, Outlier, bound_of

#: Groups without a device that make its baseline: those of three others.
LEAST_GROUPS = 3


def slow_members(
    times: Mapping[tuple[str, ...], Sequence[float]], rate: float = FALSE_ALARMS
) -> list[Outlier]:
    """Of positive times of the same work, by group of devices: members whose every group is slow, the slowest first.

    Only devices of two groups at least are judged: of one group nobody can tell which of its members it is. Never
    half of the devices or more are named. ``ratio``: the fastest of its groups by those with nobody named in them.
    """
    left = {group: float(np.mean(np.log(values))) for group, values in times.items() if len(values)}
    of_groups = Counter(device for group in left for device in group)
    known = {device for device, groups in of_groups.items() if groups > 1}
    alpha = rate / max(1, len(known))
    tried: list[Outlier] = []
    named = 0
    while len(tried) < (len(of_groups) - 1) // 2:
        candidates = {
            device: beside
            for device in sorted(known)
            if len(beside := [value for group, value in left.items() if device not in group]) >= LEAST_GROUPS
            and len(beside) < len(left)
        }
        if not candidates:
            break
        excess = {
            device: _fastest(left, device) - float(np.mean(beside)) for device, beside in candidates.items()
        }
        slow = max(excess, key=lambda device: excess[device])
        bound = bound_of(candidates[slow], alpha)
        tried.append(Outlier(slow, math.exp(excess[slow]), math.exp(bound)))
        if excess[slow] > bound:
            named = len(tried)
        left = {group: value for group, value in left.items() if slow not in group}
    return _beside_the_healthy(times, [one.device for one in tried[:named]], alpha)


def _beside_the_healthy(
    times: Mapping[tuple[str, ...], Sequence[float]], named: Sequence[str], alpha: float
) -> list[Outlier]:
    """Those that are named, each by the groups that none of them is in."""
    points = {group: float(np.mean(np.log(values))) for group, values in times.items() if len(values)}
    healthy = [value for group, value in points.items() if not set(named) & set(group)]
    bound = math.exp(bound_of(healthy, alpha)) if named else 1.0
    ratios = {device: math.exp(_fastest(points, device) - float(np.mean(healthy))) for device in named}
    return [
        Outlier(device, ratio, bound) for device, ratio in sorted(ratios.items(), key=lambda one: -one[1])
    ]


def _fastest(points: Mapping[tuple[str, ...], float], device: str) -> float:
    return min(value for group, value in points.items() if device in group)
