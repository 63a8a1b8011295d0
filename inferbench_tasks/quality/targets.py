"""Measures that set answers against targets: figures of parts of samples, with an interval by drawing samples anew."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.answers import MEANINGS
from inferbench_tasks.contracts.targets import PREFIX
from inferbench_tasks.quality.base import Answered, Measure, Quality
from inferbench_tasks.quality.bootstrap import DRAWS, of_samples

#: What a figure needs of each sample, so that samples can be drawn anew, and for two runs together.
Parts = Sequence[NDArray[np.float64]]


class TargetMeasure(Measure):
    """``target``: the kind of targets, see ``contracts.targets``. ``draws``: of the bootstrap."""

    target: ClassVar[str]
    draws: ClassVar[int] = DRAWS
    meanings = MEANINGS
    labelled = False

    @abstractmethod
    def unfit(self, answered: Answered, targets: NDArray[Any]) -> str | None:
        """Why these answers can't be set against these targets; None if they can."""

    @abstractmethod
    def parts(self, answered: Answered) -> Parts:
        """Of each sample what the figure needs of it: one axis, of one length or of several."""

    @abstractmethod
    def figure(self, parts: Parts) -> float:
        """The figure over these samples; NaN where they have none."""

    def missing(self, answered: Answered) -> str | None:
        targets = answered.targets.get(self.target)
        if targets is None:
            return f"the data set has no {PREFIX}{self.target}"
        if answered.untargeted:
            return answered.untargeted
        if not len(targets):
            return "there are no samples"
        if any(len(output) != len(targets) for output in answered.outputs.values()):
            return f"there are {len(targets)} targets and another number of answers"
        return self.unfit(answered, targets)

    def of(self, answered: Answered) -> Quality:
        return self.of_parts(self.parts(answered))

    def of_parts(self, parts: Parts) -> Quality:
        """The figure over these samples, with its interval."""
        if len({len(part) for part in parts}) == 1:
            table = np.stack(parts)
            return of_samples(len(table), lambda rows: self.figure(table[rows]), self.draws)  # type: ignore[arg-type]
        return of_samples(len(parts), lambda rows: self.figure([parts[at] for at in rows]), self.draws)


class MeanMeasure(TargetMeasure):
    """A mean over the samples of one number for each."""

    def figure(self, parts: Parts) -> float:
        return float(np.asarray(parts).mean())


def the_output(answered: Answered, fits: Callable[[NDArray[Any]], bool]) -> NDArray[Any] | str | None:
    """The output that is meant: the only one that fits. Where several do, why nobody can tell; None without any."""
    fitting = {name: output for name, output in answered.outputs.items() if fits(output)}
    if len(fitting) > 1:
        return f"several outputs fit, and which is meant is not known: {', '.join(sorted(fitting))}"
    return next(iter(fitting.values()), None)


def finite(output: NDArray[Any]) -> str | None:
    """Why numbers can't be used; None if they can."""
    return None if np.isfinite(output).all() else "some answers are no finite numbers"
