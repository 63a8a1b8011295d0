"""Macro F1: the mean over the classes of the harmonic mean of precision and recall."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.quality.base import Answered, Measure, Quality
from inferbench_tasks.quality.bootstrap import with_interval
from inferbench_tasks.quality.confusion import confusion

_DRAWS = 2_000
_SEED = 0xF1
#: With fewer samples of a class the interval is left out. Resamples then lose whole classes, and lack mistakes where
#: the sample has few: of 2 to 40 simulated classes it held the true value in 71 to 94% with ten samples of each, in 16
#: to 95% with two to seven, in 91 to 96% with twenty.
FEWEST_OF_A_CLASS = 20
#: Above it the interval is left out: so many counts would be drawn.
_MOST_CELLS = 20_000_000


class MacroF1(Measure):
    """Over the classes that stand among the labels or the answers; a class that nobody named right has an F1 of 0.

    An answer that names no class is none of them: it counts as a miss of its label's.
    """

    title = "Macro F1"
    formula = "mean over classes of 2 TP / (2 TP + FP + FN)"

    def of(self, answered: Answered) -> Quality:
        assert answered.labels is not None
        found = confusion(answered.labels, answered.decided)
        matrix, classes = found.counts, np.array(found.classes) >= 0
        value = float(f1(matrix[None], classes)[0])
        cells = np.flatnonzero(matrix.reshape(-1))
        if np.unique(answered.labels, return_counts=True)[1].min() < FEWEST_OF_A_CLASS:
            few = f"no interval: a class has fewer than {FEWEST_OF_A_CLASS} samples"
            return Quality(value, method=few)
        if len(cells) * _DRAWS > _MOST_CELLS:
            return Quality(value, method="no interval: too many classes to draw")
        samples = int(matrix.sum())
        drawn = np.random.default_rng(_SEED).multinomial(
            samples, matrix.reshape(-1)[cells] / samples, size=_DRAWS
        )
        values = [float(f1(_filled(matrix.shape, cells, row)[None], classes)[0]) for row in drawn]
        return with_interval(value, values, f"bootstrap of the samples, {_DRAWS:,} draws")


def f1(counts: NDArray[np.int64], classes: NDArray[np.bool_]) -> NDArray[np.float64]:
    """``draws x classes x classes`` (label, answer) -> the macro F1 of each over ``classes`` that occur."""
    right = np.diagonal(counts, axis1=1, axis2=2).astype(np.float64)
    both = counts.sum(axis=1) + counts.sum(axis=2)
    with np.errstate(invalid="ignore"):
        each = np.where(both > 0, 2 * right / both, np.nan)[:, classes]
    mean: NDArray[np.float64] = np.nanmean(each, axis=1)
    return mean


def of_classes(labels: NDArray[np.int64], answers: NDArray[np.int64]) -> float:
    """The macro F1 of classes that are named, without an interval."""
    matrix = confusion(labels, answers)
    return float(f1(matrix.counts[None], np.array(matrix.classes) >= 0)[0])


def _filled(shape: tuple[int, ...], cells: NDArray[np.intp], row: NDArray[np.int64]) -> NDArray[np.int64]:
    matrix = np.zeros(shape[0] * shape[1], dtype=np.int64)
    matrix[cells] = row
    return matrix.reshape(shape)
