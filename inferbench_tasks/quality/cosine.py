"""Cosine similarity: whether served and source model's vectors point the same way."""

from __future__ import annotations

from inferbench_tasks.quality.base import Answered, Measure, Quality
from inferbench_tasks.quality.bootstrap import of_samples
from inferbench_tasks.quality.vectors import cosines, vectors, why_not


class CosineToSource(Measure):
    """The mean over the samples. It is no accuracy: both models may be wrong."""

    title = "Cosine similarity to the source model's vectors"
    formula = "mean over samples of a . b / (|a| |b|); a: the answer, b: the source model's"
    meanings = ("vectors",)
    labelled = False

    def missing(self, answered: Answered) -> str | None:
        return super().missing(answered) or why_not(answered)

    def of(self, answered: Answered) -> Quality:
        pair = vectors(answered)
        assert pair is not None
        each = cosines(*pair)
        return of_samples(len(each), lambda rows: float(each[rows].mean()))
