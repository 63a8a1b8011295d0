"""From a model's scores of its own classes to the classes of a data set, by their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.named_classes import NO_CLASS, NamedClasses
from inferbench_tasks.errors import InputError
from inferbench_tasks.quality.base import decisions, scores_of

#: Names of what is read: the best guess, its scores, and what the maker's own rule makes of it.
CLASS, SCORES, OWN_DECISION = "class", "scores", "own_decision"


@dataclass(frozen=True)
class ClassReader:
    """``labels``: of each class of the model the data set's; of one that is none of them ``-2 - its number``, so that
    two different ones never agree. ``least``: see ``NamedClasses``. ``below``: the data set's class that is said below
    it, ``NO_CLASS`` for none. ``count``: classes of the data set. ``rule``: see ``NamedClasses``.
    """

    labels: tuple[int, ...]
    least: tuple[float, ...]
    below: tuple[int, ...]
    count: int
    rule: str

    def __call__(self, outputs: Arrays) -> Arrays:
        """``class``: the data set's class with the largest score, int64. ``scores``: of each of its classes the largest
        of the model's that are that class; the last column is of all the others. ``own_decision``: int64. Of no answers
        none.
        """
        scores = scores_of(outputs, outputs) if outputs else None
        if scores is None or scores.shape[1] != len(self.labels):
            return {}
        labels, below = np.array(self.labels), np.array(self.below)
        best = decisions({SCORES: scores}, {SCORES: scores})
        named, at = best >= 0, np.maximum(best, 0)
        trusted = scores[np.arange(len(scores)), at] >= np.array(self.least)[at]
        return {
            CLASS: np.where(named, labels[at], NO_CLASS),
            SCORES: self._folded(scores, labels),
            OWN_DECISION: np.where(named, np.where(trusted, labels[at], below[at]), NO_CLASS),
        }

    def _folded(self, scores: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
        folded = np.full((len(scores), self.count + 1), -np.inf)
        columns = np.where(labels >= 0, labels, self.count)
        for own, column in enumerate(columns.tolist()):
            np.maximum(folded[:, column], scores[:, own], out=folded[:, column])
        return folded


def reader_of(classes: NamedClasses, wanted: Sequence[str], dataset: str) -> ClassReader:
    """For the classes that a data set has. InputError where the model has none for one of them, or one for two."""
    known = [classes.called.get(name, name) for name in wanted]
    if missing := [name for name, own in zip(wanted, known, strict=True) if own not in classes.said_as]:
        raise InputError(
            f"{dataset} has the classes {', '.join(missing)}, which the model never names; it names "
            f"{', '.join(dict.fromkeys(classes.said_as))}",
            field="evaluate.dataset",
        )
    place = {own: at for at, own in enumerate(known)}
    if twice := [own for own in place if known.count(own) > 1]:
        alike = " and ".join(name for name, own in zip(wanted, known, strict=True) if own == twice[0])
        raise InputError(
            f"{dataset} has the classes {alike}, which the model both calls {twice[0]}: it can't tell them apart. Make "
            f"them one class",
            field="evaluate.dataset",
        )
    return ClassReader(
        labels=tuple(place.get(said, -2 - at) for at, said in enumerate(classes.said_as)),
        least=classes.least,
        below=tuple(place.get(said, NO_CLASS) for said in classes.else_said),
        count=len(wanted),
        rule=classes.rule,
    )
