"""One judge for all who choose between configurations: the recommender, and the advice of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from inferbench_tasks.analysis.certainty import (
    SETTLED,
    Change,
    Estimate,
    estimate,
    of_answers,
    pooled_ratio,
)
from inferbench_tasks.analysis.recommend.candidates import Bound, Candidate
from inferbench_tasks.analysis.stated import Stated, stated, together
from inferbench_tasks.figures import FIGURES


@dataclass(frozen=True)
class Judge:
    """``candidates`` are all that there are, for the spread that their runs show together."""

    candidates: Sequence[Candidate]
    _pooled: dict[str, float] = field(default_factory=dict)

    def estimate(self, candidate: Candidate, figure: str) -> Estimate:
        """A figure with its spread; the candidate has its documents."""
        of, error = FIGURES.named(figure), _error_stated(candidate, figure)
        if not of.drifts:
            return of_answers(candidate.values(figure), error)
        if figure not in self._pooled:
            samples = [values for c in self.candidates if (values := c.values(figure))]
            self._pooled[figure] = pooled_ratio(samples, share=of.share)
        return estimate(candidate.values(figure), self._pooled[figure], error, share=of.share)

    def interval95(self, candidate: Candidate, figure: str, comparisons: int = 1) -> list[float]:
        """Of the estimate, by so many comparisons; never below what a figure can be, and a share's never above 1. One
        run's measure of answers has the interval that it states.
        """
        of = FIGURES.named(figure)
        if not of.drifts and candidate.runs == 1 and (own := of.interval_in(_summary(candidate))):
            return list(own)
        found = self.estimate(candidate, figure)
        low, high = found.interval95(comparisons)
        if of.least is not None and found.mean >= of.least:
            low = max(of.least, low)
        return [low, min(1.0, high)] if of.share and found.mean <= 1 else [low, high]

    def beats(self, a: Candidate, b: Candidate, figure: str) -> float:
        """The probability that ``a`` is really better than ``b``."""
        rises = Change.between(self.estimate(b, figure), self.estimate(a, figure)).rises
        return rises if FIGURES.named(figure).higher else 1 - rises

    def expected_loss(self, a: Candidate, b: Candidate, figure: str) -> float | None:
        """What it costs on average to use ``a`` although ``b`` may be better, as a share of the figure."""
        change = Change.between(self.estimate(b, figure), self.estimate(a, figure))
        return change.expected_loss(higher=FIGURES.named(figure).higher)

    def differ(self, a: Candidate, b: Candidate, figure: str, surely: float = SETTLED) -> bool:
        """Whether they do, beyond noise: the sign of the difference is real with that probability."""
        return Change.between(self.estimate(a, figure), self.estimate(b, figure)).probability >= surely

    def keeps(self, candidate: Candidate, bounds: Sequence[Bound]) -> float | None:
        """The probability that it really keeps every bound, at least; None without bounds.

        Figures of one run depend on each other, nobody knows how: what the bounds are each broken by adds up at most
        (Bonferroni's inequality), so that two of 91% are kept together with 82% at least.
        """
        probabilities = []
        for bound in bounds:
            own = self.estimate(candidate, bound.figure)
            room = bound.value - own.mean if bound.at_most else own.mean - bound.value
            # A figure that never moved and is at its bound keeps it; so does a share that can't keep it any better: no
            # failure in any run, where none is allowed.
            edge = 0.0 if bound.at_most else 1.0
            exact = room == 0 and (own.error == 0 or (own.stated.plain and bound.value == edge))
            below = own.below(bound.value)
            probabilities.append(1.0 if exact else below if bound.at_most else 1 - below)
        return max(0.0, 1 - sum(1 - each for each in probabilities)) if probabilities else None


def _summary(candidate: Candidate) -> dict[str, Any]:
    return candidate.documents[0].get("summary") or {}


def _error_stated(candidate: Candidate, figure: str) -> Stated:
    """What its runs state of themselves, together."""
    of = FIGURES.named(figure)
    each = [
        (of.value(document.get("summary") or {}), stated(of, document)) for document in candidate.documents
    ]
    having = [(value, error) for value, error in each if value is not None]
    return together(having) if having else each[0][1]
