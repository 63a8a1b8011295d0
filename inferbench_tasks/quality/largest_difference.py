"""The largest difference from the source model: of answers that are no classes and no vectors."""

from __future__ import annotations

import numpy as np

from inferbench_tasks.contracts.arrays import blocks
from inferbench_tasks.quality.base import Answered, Measure, Quality


class LargestDifference(Measure):
    """Over all samples, outputs of numbers and values; relative to the largest value of the source model's output."""

    title = "Largest difference from the source model"
    formula = "max over outputs of max|answer - source model's| / max|source model's|, over all samples"
    meanings = ("values",)
    better = "lower"
    labelled = False

    def missing(self, answered: Answered) -> str | None:
        if reason := super().missing(answered):
            return reason
        names = _numbers(answered)
        if not names:
            return "no output of numbers is the source's and the served model's"
        for name in names:
            one, other = answered.outputs[name], answered.source[name]
            if one.shape != other.shape:
                return f"the served output {name} has another shape than the source's"
            if not (np.isfinite(one).all() and np.isfinite(other).all()):
                return f"some values of output {name} are no finite numbers"
            if not np.abs(other).max(initial=0.0):
                return f"the source model's output {name} is zero throughout"
        return None

    def of(self, answered: Answered) -> Quality:
        worst = 0.0
        for name in _numbers(answered):
            one, other = answered.outputs[name], answered.source[name]
            apart = largest = 0.0
            for rows in blocks(other):
                a, b = one[rows].astype(np.float64), other[rows].astype(np.float64)
                apart, largest = max(apart, float(np.abs(a - b).max())), max(largest, float(np.abs(b).max()))
            worst = max(worst, apart / largest)
        return Quality(worst, method="no interval: it is the largest of these samples")


def _numbers(answered: Answered) -> list[str]:
    return [n for n, a in answered.source.items() if a.dtype.kind in "fiu" and n in answered.outputs]
