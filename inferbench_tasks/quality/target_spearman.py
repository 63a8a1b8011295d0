"""Spearman's rho against the targets: whether larger answers belong to larger targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.quality.base import Answered, Quality
from inferbench_tasks.quality.rank_interval import of_ranks
from inferbench_tasks.quality.ranks import spearman
from inferbench_tasks.quality.targets import Parts, TargetMeasure, finite, the_output


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
        if isinstance(output, str):
            return output
        if len(targets) < 3:
            return "fewer than three samples have no order"
        if reason := finite(output):
            return reason
        for numbers in (output, targets):
            exact, rounded = np.unique(numbers), np.unique(numbers.astype(np.float64))
            if len(exact) == 1:
                return "all answers or all targets are equal"
            if len(exact) != len(rounded):
                return "some whole numbers are so large that 64-bit floats can't tell them apart"
        return None

    def parts(self, answered: Answered) -> Parts:
        output = _numbers(answered)
        assert isinstance(output, np.ndarray)
        columns = [
            numbers.reshape(-1).astype(np.float64) for numbers in (output, answered.targets[self.target])
        ]
        return list(np.stack(columns, axis=1))

    def of_parts(self, parts: Parts) -> Quality:
        table = np.asarray(parts)
        return of_ranks(table[:, 0], table[:, 1])

    def figure(self, parts: Parts) -> float:
        table = np.asarray(parts)
        return spearman(table[:, 0], table[:, 1])


def _numbers(answered: Answered) -> NDArray[Any] | str | None:
    return the_output(answered, lambda output: output.dtype.kind in "fiu" and output.size == len(output))
