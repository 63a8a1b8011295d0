"""Top-1 and top-5: the share of samples whose label is among the classes with the largest scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.quality.base import Answered, Measure, Quality, ranked
from inferbench_tasks.quality.intervals import share

#: Of how many classes a label is to be one.
FIVE = 5


def label_ranks(scores: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many classes go before each sample's label: those with a larger score, and of those with an equal one the
    smaller ids, as in numpy's ``argmax``. All of them where the scores name no class, or have none for the label.
    """
    known = (labels >= 0) & (labels < scores.shape[1]) & ranked(scores)
    at = np.where(known, labels, 0)
    own = scores[np.arange(len(scores)), at][:, None]
    earlier = np.arange(scores.shape[1])[None, :] < at[:, None]
    rank = ((scores > own) | ((scores == own) & earlier)).sum(axis=1)
    found: NDArray[np.int64] = np.where(known, rank, scores.shape[1]).astype(np.int64)
    return found


class Top1(Measure):
    """The share of samples whose answer names their label."""

    title = "Top-1 accuracy"
    formula = "samples whose largest score, or whose answered class, is their label / samples"

    def of(self, answered: Answered) -> Quality:
        assert answered.labels is not None
        return share(int((answered.decided == answered.labels).sum()), len(answered.labels))


class Top5(Measure):
    """The share of samples whose label has one of the five largest scores, see ``label_ranks``."""

    title = "Top-5 accuracy"
    formula = "samples whose label has one of the five largest scores / samples"
    scored = True

    def missing(self, answered: Answered) -> str | None:
        few = answered.scores is not None and answered.scores.shape[1] <= FIVE
        return super().missing(answered) or ("there are no more than five classes" if few else None)

    def of(self, answered: Answered) -> Quality:
        scores, labels = answered.scores, answered.labels
        assert scores is not None and labels is not None
        return share(int((label_ranks(scores, labels) < FIVE).sum()), len(labels))
