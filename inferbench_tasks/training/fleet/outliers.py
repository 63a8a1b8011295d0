"""Which of several devices of one kind is slower than the others, at a stated rate of false alarms.

Of each device the mean of its values is one point; each point is set beside the others' mean and standard deviation, as
the next one of their kind would lie (Student's t with n - 2 degrees of freedom, one-sided: the externally studentised
residual). The rate is divided among the devices (Bonferroni), so that of fleets without a slow device no more than that
share has one named. The slowest are taken away one by one, never half of them, and as many are named as the last one
that lies beyond the rest (Rosner's generalised ESD, 1983): two devices that are as slow as each other do not hide each
other. Most of the rate is for the slowest alone, the rest is divided among the looks at several.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

#: Of fleets with equal devices so many have one named.
FALSE_ALARMS = 0.01
#: Others that make a baseline.
LEAST_OTHERS = 4
#: A device that is slower by less is none that anybody would take out.
LEAST_EXCESS = 0.05
#: So much of the rate is for the slowest alone, the rest for several that are slow.
_ALONE = 0.8


@dataclass(frozen=True)
class Outlier:
    """``ratio``: its time by the others' geometric mean; ``bound``: the least ratio that is named."""

    device: str
    ratio: float
    bound: float


def outliers(times: Mapping[str, Sequence[float]], rate: float = FALSE_ALARMS) -> list[Outlier]:
    """Of positive times of the same work, by device, the slowest first; [] with fewer than ``LEAST_OTHERS`` others.

    Ratios are taken on the logarithm: half as fast is as far from the others as twice as fast. Each that is named is
    set beside those of whom nobody is.
    """
    points = {device: float(np.mean(np.log(values))) for device, values in times.items() if len(values)}
    slowest = sorted(points, key=lambda device: -points[device])
    most = max(0, min((len(points) - 1) // 2, len(points) - LEAST_OTHERS))
    named, bound = 0, 1.0
    for count in range(1, most + 1):
        others = [points[device] for device in slowest[count:]]
        beyond = bound_of(others, _share(count, most) * rate / len(points))
        if points[slowest[count - 1]] - float(np.mean(others)) > beyond:
            named, bound = count, math.exp(beyond)
    healthy = [points[device] for device in slowest[named:]]
    return [
        Outlier(device, math.exp(points[device] - float(np.mean(healthy))), bound)
        for device in slowest[:named]
    ]


def _share(count: int, most: int) -> float:
    """Of the rate what the look at the so many slowest has, of so many looks: one alone is what is sick most often."""
    if most == 1:
        return 1.0
    return _ALONE if count == 1 else (1 - _ALONE) / (most - 1)


def bound_of(others: Sequence[float], alpha: float) -> float:
    """The least excess over their mean, on the logarithm, that chance does not explain."""
    from scipy.special import stdtrit

    spread = float(np.std(others, ddof=1)) * math.sqrt(1 + 1 / len(others))
    return max(math.log1p(LEAST_EXCESS), float(stdtrit(len(others) - 1, 1 - alpha)) * spread)
