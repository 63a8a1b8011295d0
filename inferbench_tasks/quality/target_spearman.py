"""Spearman's rho against the targets: whether larger answers belong to larger targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.quality.base import Answered
from inferbench_tasks.quality.ranks import spearman
from inferbench_tasks.quality.targets import Parts, TargetMeasure, finite


class TargetSpearman(TargetMeasure):
    """Equal values have their mean rank (C. Spearman, 1904); the scale of the answers does not matter."""

    title = "Order of the answers as the targets' (Spearman)"
    formula = "Pearson's correlation of the ranks of answers and targets, equal values with their mean rank"
    target = "numbers"

    def unfit(self, answered: Answered, targets: NDArray[Any]) -> str | None:
        if targets.size != len(targets) or targets.dtype.kind not in "fiu":
            return f"targets must be a number for each sample, not {targets.dtype} of shape {targets.shape}"
        if not np.isfinite(targets).all():
            return "some targets are no finite numbers"
        output = _numbers(answered)
        if output is None:
            return "no output is one number for each sample"
        if len(targets) < 3:
            return "fewer than three samples have no order"
        if reason := finite(output):
            return reason
        return "all answers or all targets are equal" if np.ptp(output) == 0 or np.ptp(targets) == 0 else None

    def parts(self, answered: Answered) -> Parts:
        output = _numbers(answered)
        assert output is not None
        targets = answered.targets[self.target].reshape(-1)
        return list(np.stack([output, targets.astype(np.float64)], axis=1))

    def figure(self, parts: Parts) -> float:
        table = np.asarray(parts)
        return spearman(table[:, 0], table[:, 1])


def _numbers(answered: Answered) -> NDArray[np.float64] | None:
    for output in answered.ordered:
        if output.dtype.kind in "fiu" and output.size == len(output):
            numbers: NDArray[np.float64] = output.reshape(-1).astype(np.float64)
            return numbers
    return None
