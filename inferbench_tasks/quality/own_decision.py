"""How often a model's own decision is right, where its maker's rule says another class than the best guess."""

from __future__ import annotations

from inferbench_tasks.quality.base import NO_RULE, Answered, Measure, Quality
from inferbench_tasks.quality.intervals import share
from inferbench_tasks.quality.named_classes import OWN_DECISION


class OwnDecision(Measure):
    """The share of samples for which the maker's tool would say their label: a guess of which it is not sure enough
    becomes a general word, or none."""

    title = "Right by the model's own rule"
    formula = (
        "samples for which the maker's rule (least scores, classes said as others) says their label / samples"
    )
    ruled = True

    def missing(self, answered: Answered) -> str | None:
        if reason := super().missing(answered):
            return reason
        return None if OWN_DECISION in answered.outputs else NO_RULE

    def of(self, answered: Answered) -> Quality:
        assert answered.labels is not None
        return share(int((answered.outputs[OWN_DECISION] == answered.labels).sum()), len(answered.labels))
