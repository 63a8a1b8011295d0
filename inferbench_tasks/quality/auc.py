"""AUC: how surely a sample of a class has a larger score for it than one of another class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.quality.base import Answered, Measure, Quality
from inferbench_tasks.quality.bootstrap import FEWEST_SAMPLES, with_interval
from inferbench_tasks.quality.ranks import ranks

_DRAWS = 400
_SEED = 0xA0C
#: Above it the interval is left out: so many scores would be ranked.
_MOST_RANKED = 100_000_000
#: So many are in memory at once.
_COUNTS_AT_ONCE = 2_000_000


class Auc(Measure):
    """The area under the ROC curve of each class against all others, and its mean over the classes that have both.

    By ranks, ties counted half (J. A. Hanley, B. J. McNeil, Radiology 143, 1982).
    """

    title = "AUC, one against the rest"
    formula = "mean over classes of P(score of a sample of the class > score of another) + P(equal) / 2"
    scored = True

    def missing(self, answered: Answered) -> str | None:
        if reason := super().missing(answered):
            return reason
        assert answered.labels is not None and answered.scores is not None
        if not np.isfinite(answered.scores).all():
            return "some scores are no finite numbers"
        if answered.labels.min() < 0 or answered.labels.max() >= answered.scores.shape[1]:
            return "some labels are classes that the model has no score for"
        return None if len(np.unique(answered.labels)) > 1 else "all samples are of one class"

    def of(self, answered: Answered) -> Quality:
        scores, labels = answered.scores, answered.labels
        assert scores is not None and labels is not None
        value = auc(scores, labels)
        if scores.size * _DRAWS > _MOST_RANKED:
            return Quality(value, method="no interval: too many scores to rank")
        if np.unique(labels, return_counts=True)[1].min() < FEWEST_SAMPLES:
            # Of few samples the resamples vary too little, and each class weighs the same in the mean.
            return Quality(value, method=f"no interval: a class has fewer than {FEWEST_SAMPLES} samples")
        rng = np.random.default_rng(_SEED)
        drawn = resampled(scores, labels, _rows(rng, labels))
        return with_interval(value, drawn, f"bootstrap within the classes, {_DRAWS} draws")


def auc(scores: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """The mean over the classes; ``scores``: samples x classes. Labels are columns, and of two classes at least."""
    values = []
    for name in np.unique(labels):
        own = labels == name
        count, others = int(own.sum()), int((~own).sum())
        by_score = ranks(scores[:, name])
        values.append((by_score[own].sum() - count * (count + 1) / 2) / (count * others))
    return float(np.mean(values))


def resampled(
    scores: NDArray[np.float64], labels: NDArray[np.int64], draws: Sequence[NDArray[np.intp]]
) -> NDArray[np.float64]:
    """``auc`` of the rows of each draw, to the last digit, without sorting them anew: each class is sorted once, and
    a draw says how often each sample counts. Every class is in every draw.
    """
    classes = np.unique(labels)
    values = np.empty((len(draws), len(classes)))
    at_once = max(1, _COUNTS_AT_ONCE // len(labels))
    for column, name in enumerate(classes):
        order = np.argsort(scores[:, name], kind="stable")
        ascending, own = scores[order, name], np.flatnonzero(labels[order] == name)
        below = np.searchsorted(ascending, ascending[own], "left")
        up_to = np.searchsorted(ascending, ascending[own], "right")
        for first in range(0, len(draws), at_once):
            some = draws[first : first + at_once]
            times = np.stack([np.bincount(rows, minlength=len(labels)) for rows in some])[:, order]
            own_times = times[:, own]
            times[:, own] = 0
            others = np.zeros((len(some), len(labels) + 1), dtype=np.int64)
            np.cumsum(times, axis=1, out=others[:, 1:])
            # Others with a lower score, and half of those with the same one: twice their sum is a whole number.
            twice = (own_times * (others[:, below] + others[:, up_to])).sum(axis=1)
            values[first : first + len(some), column] = twice / 2 / (own_times.sum(axis=1) * others[:, -1])
    return np.array([np.mean(row) for row in values])


def _rows(rng: np.random.Generator, labels: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    """Samples drawn anew within each class, so that each class keeps its size."""
    groups = [np.flatnonzero(labels == name) for name in np.unique(labels)]
    return [np.concatenate([rng.choice(group, size=len(group)) for group in groups]) for _ in range(_DRAWS)]
