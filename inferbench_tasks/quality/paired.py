"""Two variants on the same samples: McNemar's test, and the difference of their shares of right answers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, norm

from inferbench_tasks.quality.base import CONFIDENCE


@dataclass(frozen=True)
class Paired:
    """``difference_ratio``: the second's share of right answers less the first's, with its 95% interval.

    ``only_first``, ``only_second``: samples that only that one answered right. ``p_value``: how likely so uneven a
    split, or a more uneven one, is if both are equally good (McNemar's test, exact).
    """

    samples: int
    only_first: int
    only_second: int
    difference_ratio: float
    low: float
    high: float
    p_value: float


def paired(first_right: NDArray[np.bool_], second_right: NDArray[np.bool_]) -> Paired:
    """Of the same samples in the same order; ValueError for none, or for different numbers of them.

    The test is the exact one of the discordant pairs (Q. McNemar, Psychometrika 12, 1947), the interval the adjusted
    Wald interval of paired shares (D. G. Bonett, R. M. Price, J. of Educational and Behavioral Statistics 37, 2012).
    """
    if len(first_right) != len(second_right) or not len(first_right):
        raise ValueError(f"{len(first_right)} and {len(second_right)} samples are no pairs")
    samples = len(first_right)
    only_first = int((first_right & ~second_right).sum())
    only_second = int((~first_right & second_right).sum())
    discordant = only_first + only_second
    p_value = float(binomtest(only_second, discordant).pvalue) if discordant else 1.0
    lost, gained = (only_first + 1) / (samples + 2), (only_second + 1) / (samples + 2)
    centre = gained - lost
    z = float(norm.ppf(0.5 + CONFIDENCE / 2))
    half = z * math.sqrt((lost + gained - centre**2) / (samples + 2))
    return Paired(
        samples,
        only_first,
        only_second,
        (only_second - only_first) / samples,
        max(-1.0, centre - half),
        min(1.0, centre + half),
        p_value,
    )
