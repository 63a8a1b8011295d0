"""How right a model's answers are: measures over the samples of a data set, each with a 95% interval."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.answers import Meaning
from inferbench_tasks.contracts.arrays import Arrays

#: The level of all intervals.
CONFIDENCE = 0.95
#: Why a measure that is ``ruled`` has no figure.
NO_RULE = "the model has no rule of its own for what it says"


@dataclass(frozen=True)
class Quality:
    """One measure of one run: its value, and the ends of its 95% interval, None where there is none."""

    value: float
    low: float | None = None
    high: float | None = None
    #: How the interval was made, for people.
    method: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As it is stored; ``ci95`` as of other figures."""
        ci95 = None if self.low is None or self.high is None else [self.low, self.high]
        return {"value": self.value, "ci95": ci95, "method": self.method}


@dataclass(frozen=True)
class Answered:
    """Answers to the samples of a data set, row by row.

    ``outputs``: by name, first axis = samples. ``source``: the source model's answers to the same samples.
    ``labels``: int64 class ids, None without, and then ``unlabelled`` says why.
    ``meaning``: what the answers are. ``targets``: by kind (``contracts.targets``), what is right where that is no
    class; ``untargeted`` says why they may not be used, "" where nothing forbids it. ``texts``: what the answers say in
    words where their outputs have to be read for that (``quality.spans``), a text for each sample, or why they can't.
    ``processed``: what the submission's processors make of the outputs, or why they can't; measures against targets are
    of that.
    """

    outputs: Arrays
    source: Arrays
    labels: NDArray[np.int64] | None = None
    meaning: Meaning = "classes"
    unlabelled: str = "the data set has no labels"
    targets: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    untargeted: str = ""
    texts: NDArray[Any] | str | None = None
    processed: Arrays | str | None = None

    @property
    def ordered(self) -> Sequence[NDArray[Any]]:
        """The outputs in the model's order."""
        return [self.outputs[name] for name in _names(self.outputs, self.source)]

    @cached_property
    def scores(self) -> NDArray[np.float64] | None:
        """``samples x classes``: see ``scores_of``."""
        return scores_of(self.outputs, self.source)

    @cached_property
    def decided(self) -> NDArray[np.int64]:
        """The class that each answer names."""
        return decisions(self.outputs, self.source)

    @cached_property
    def source_decided(self) -> NDArray[np.int64]:
        """The class that each of the source model's answers names."""
        return decisions(self.source, self.source)


def decisions(outputs: Arrays, like: Arrays) -> NDArray[np.int64]:
    """The class that each answer names: an output of one whole number, else the largest score (see ``scores_of``), or,
    without scores, the largest number of the first output of numbers.

    ``like`` has the names and the order of the model's outputs. Of equal scores the first class is named. Scores among
    which is a NaN or +inf, or that are all -inf, name no class: -1 (-inf alone is how classes are masked).
    """
    numbers = _class_numbers(outputs, like)
    if numbers is not None:
        return numbers
    scores = scores_of(outputs, like)
    if scores is None:
        of_numbers = [outputs[name] for name in _names(outputs, like) if outputs[name].dtype.kind in "fiub"]
        if not of_numbers:
            return np.full(len(next(iter(outputs.values()))), -1, dtype=np.int64)
        scores = _flat(of_numbers[0])
    named: NDArray[np.int64] = np.argmax(scores, axis=1).astype(np.int64)
    named[~ranked(scores)] = -1
    return named


def ties(outputs: Arrays, like: Arrays) -> int:
    """Samples whose largest score several classes have: which of them is named is a matter of their order. None
    where the answers name their classes themselves."""
    scores = scores_of(outputs, like)
    if scores is None or _class_numbers(outputs, like) is not None:
        return 0
    largest = scores.max(axis=1, keepdims=True)
    return int((((scores == largest).sum(axis=1) > 1) & ranked(scores)).sum())


def ranked(scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The samples whose scores name a class."""
    ranked: NDArray[np.bool_] = ~np.isnan(scores).any(axis=1) & np.isfinite(
        scores.max(axis=1, initial=-np.inf)
    )
    return ranked


def scores_of(outputs: Arrays, like: Arrays) -> NDArray[np.float64] | None:
    """The first output of several numbers for each sample; None where answers name classes and give no scores."""
    for name in _names(outputs, like):
        output = outputs[name]
        if output.dtype.kind == "f" and output.size > len(output):
            return _flat(output)
    return None


def _class_numbers(outputs: Arrays, like: Arrays) -> NDArray[np.int64] | None:
    """The first output of one whole number for each sample; None without one."""
    for name in _names(outputs, like):
        output = outputs[name]
        if output.dtype.kind in "iu" and output.size == len(output):
            numbers: NDArray[np.int64] = output.reshape(-1).astype(np.int64)
            return numbers
    return None


def _names(outputs: Arrays, like: Arrays) -> list[str]:
    return [name for name in like if name in outputs] or list(outputs)


def _flat(output: NDArray[Any]) -> NDArray[np.float64]:
    flat: NDArray[np.float64] = output.reshape(len(output), -1).astype(np.float64)
    return flat


class Measure(ABC):
    """One measure of how right answers are; one file each.

    ``title``, ``formula``: for people. ``meanings``: what answers it is of. ``labelled``: it needs labels. ``scored``:
    it needs a score for each class. ``ruled``: it is of the model's own rule for what it says (``NamedClasses``).
    ``better``: which way is good.
    """

    title: ClassVar[str]
    formula: ClassVar[str]
    meanings: ClassVar[tuple[Meaning, ...]] = ("classes",)
    better: ClassVar[Literal["higher", "lower"]] = "higher"
    labelled: ClassVar[bool] = True
    scored: ClassVar[bool] = False
    ruled: ClassVar[bool] = False

    @abstractmethod
    def of(self, answered: Answered) -> Quality:
        """The measure over all samples; what it needs is there."""

    def missing(self, answered: Answered) -> str | None:
        """What it needs and these answers lack; None if nothing."""
        if answered.meaning not in self.meanings:
            return f"it is of {' and '.join(self.meanings)}; the model answers {answered.meaning}"
        if self.labelled and answered.labels is None:
            return answered.unlabelled
        if self.scored and answered.scores is None:
            return "the answers are classes without scores"
        return None
