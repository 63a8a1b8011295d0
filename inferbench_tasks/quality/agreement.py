"""Agreement: how often the served model decides as its source does. It is no accuracy, for both may be wrong."""

from __future__ import annotations

from inferbench_tasks.contracts.named_classes import NO_CLASS
from inferbench_tasks.quality.base import Answered, Measure, Quality
from inferbench_tasks.quality.intervals import share


class Agreement(Measure):
    """The share of samples for which served and source model name the same class; two that name none don't agree."""

    title = "Agreement with the source model"
    formula = "samples for which the answer and the source model's name the same class / samples"
    labelled = False

    def of(self, answered: Answered) -> Quality:
        same = (answered.decided == answered.source_decided) & (answered.source_decided != NO_CLASS)
        return share(int(same.sum()), len(same))
