"""Word and character error rates: edits that make the answers right, by the length of what is right."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.quality.base import Answered
from inferbench_tasks.quality.targets import Parts, TargetMeasure
from inferbench_tasks.quality.texts import answers, distance, right_ones, why_not


class _Errors(TargetMeasure):
    """Over all samples together: long ones count for more. It can be above 1. Case and punctuation count."""

    target = "texts"
    better = "lower"
    of_what: ClassVar[str]

    @abstractmethod
    def units(self, text: str) -> Sequence[str]:
        """What is counted of a text."""

    def unfit(self, answered: Answered, targets: NDArray[Any]) -> str | None:
        if reason := why_not(answered, targets, several=False):
            return reason
        nothing = not any(self.units(row[0]) for row in right_ones(targets))
        return f"no target has a {self.of_what}" if nothing else None

    def parts(self, answered: Answered) -> Parts:
        given = answers(answered)
        assert isinstance(given, list)
        rows = []
        for text, (right, *_) in zip(given, right_ones(answered.targets[self.target]), strict=True):
            units = self.units(right)
            rows.append(np.array([distance(self.units(text), units), len(units)], dtype=np.float64))
        return rows

    def figure(self, parts: Parts) -> float:
        edits, units = np.asarray(parts).sum(axis=0)
        return float(edits / units) if units else float("nan")


class WordErrors(_Errors):
    """Words are what white space parts."""

    title = "Word error rate"
    formula = (
        "words inserted + deleted + replaced, fewest that make the answers right / words of the right texts"
    )
    of_what = "word"

    def units(self, text: str) -> Sequence[str]:
        return text.split()


class CharacterErrors(_Errors):
    """Unicode's code points, spaces too but for those at the ends."""

    title = "Character error rate"
    formula = "characters inserted + deleted + replaced, fewest that make the answers right / those of the right texts"
    of_what = "character"

    def units(self, text: str) -> Sequence[str]:
        return text.strip()
