"""Whether served vectors put pairs of samples in the order in which the source model's do: Spearman's rho."""

from __future__ import annotations

import numpy as np

from inferbench_tasks.quality.base import Answered, Measure, Quality
from inferbench_tasks.quality.rank_interval import of_ranks
from inferbench_tasks.quality.vectors import cosines, vectors, why_not


class Neighbours(Measure):
    """Each sample with the next one, the last with the first: so pairs are as many as samples."""

    title = "Order of similarities as the source model's (Spearman)"
    formula = "Spearman's rho of cos(a_i, a_i+1) and cos(b_i, b_i+1) over samples i; a: answers, b: the source model's"
    meanings = ("vectors",)
    labelled = False

    def missing(self, answered: Answered) -> str | None:
        if reason := super().missing(answered) or why_not(answered):
            return reason
        pair = vectors(answered)
        assert pair is not None
        if len(pair[0]) < 3:
            return "fewer than three samples have no order"
        for part in pair:
            if len(np.unique(cosines(part, np.roll(part, -1, axis=0)))) == 1:
                return "all pairs are equally similar"
        return None

    def of(self, answered: Answered) -> Quality:
        pair = vectors(answered)
        assert pair is not None
        served, source = (cosines(part, np.roll(part, -1, axis=0)) for part in pair)
        return of_ranks(served, source, chained=True)
