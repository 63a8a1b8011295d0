"""Which of several devices of one kind is slower than the others, at a stated rate of false alarms.

Of each device the mean of its values is one point; each point is set beside the others' mean and standard deviation, as
the next one of their kind would lie (Student's t with n - 2 degrees of freedom, one-sided: the externally studentised
residual). The rate is divided among the devices (Bonferroni), so that of fleets without a slow device no more than that
share has one named. What is named is taken away and the rest looked at again (Rosner, 1983): two sick devices
do not hide each other as long as there are enough others.
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


@dataclass(frozen=True)
class Outlier:
    """``ratio``: its time by the others' geometric mean; ``bound``: the least ratio that is named."""

    device: str
    ratio: float
    bound: float


def outliers(times: Mapping[str, Sequence[float]], rate: float = FALSE_ALARMS) -> list[Outlier]:
    """Of positive times of the same work, by device, the slowest first; [] with fewer than ``LEAST_OTHERS`` others.

    Ratios are taken on the logarithm: half as fast is as far from the others as twice as fast.
    """
    from scipy.special import stdtrit

    points = {device: float(np.mean(np.log(values))) for device, values in times.items() if len(values)}
    alpha, found = rate / max(1, len(points)), []
    while len(points) > LEAST_OTHERS:
        slow = max(points, key=lambda device: points[device])
        others = np.array([value for device, value in points.items() if device != slow])
        spread = float(others.std(ddof=1)) * math.sqrt(1 + 1 / len(others))
        bound = max(math.log1p(LEAST_EXCESS), float(stdtrit(len(others) - 1, 1 - alpha)) * spread)
        excess = points[slow] - float(others.mean())
        if excess <= bound:
            break
        found.append(Outlier(slow, math.exp(excess), math.exp(bound)))
        del points[slow]
    return found
