"""How far models' times are off the sums of their bricks, told by models that were measured as a whole.

One factor for all of a model's time, from three models on; with more of them a factor for each class of bricks: what
is dense arithmetic, what is bound by memory, and the rest. The factors of classes are a ridge regression of relative
errors: they minimise sum_i (sum_c f_c T_ic / T_i - 1)^2 + RIDGE * sum_c (f_c - f)^2, with T_ic the constructed time of
model i in class c, T_i its measured time, f the one factor: a class that the models say little of keeps that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from inferbench_tasks.bricks.prediction import CONFIDENCE, FEWEST_CALIBRATING, Estimate, widened

CLASSES = ("dense", "memory-bound", "other")
#: From so much arithmetic for each byte that it moves a brick is dense, FLOP.
DENSE_FLOP_PER_BYTE = 8.0
#: How much a factor of a class costs that is not the one factor; in models.
RIDGE = 0.1
#: Operators whose arithmetic is not counted, by the end of their names: they are of neither class.
UNCOUNTED = {
    "LSTM", "GRU", "RNN", "DynamicQuantizeLSTM", "Attention", "MultiHeadAttention", "QAttention", "If", "Loop", "Scan",
    "GroupQueryAttention", "NonMaxSuppression", "TopK", "Einsum", "MatMulNBits", "DeformConv", "DFT", "STFT",
}  # fmt: skip


def uncounted(operators: Iterable[str]) -> bool:
    """Whether the arithmetic of a brick with these operators is not counted: what is known of it is too low."""
    return not UNCOUNTED.isdisjoint(operator.rpartition(".")[2] for operator in operators)


def class_of(operators: Sequence[str], flops: float, moved_bytes: float) -> str:
    """The class of a brick, by its operators and its work."""
    if uncounted(operators):
        return "other"
    return "dense" if flops >= DENSE_FLOP_PER_BYTE * moved_bytes else "memory-bound"


@dataclass(frozen=True)
class Whole:
    """A model that was measured as a whole: its time, and the constructed time of its bricks by class, ns."""

    ns: float
    class_ns: Mapping[str, float]

    @property
    def log_ratio(self) -> float:
        """The logarithm of measured over constructed."""
        return math.log(self.ns / math.fsum(self.class_ns.values()))


@dataclass(frozen=True)
class ClassFactors:
    """``factors``: class -> measured over constructed. ``spread``: the root mean square of the logarithms by which each
    of the models is off what the others' factors say; ``one_spread``: the same of one factor for all."""

    models: int
    factors: Mapping[str, float]
    spread: float
    one_spread: float

    def constructed_ns(self, class_ns: Mapping[str, float]) -> float:
        """A model's time of its bricks' times by class."""
        return _predicted(self.factors, class_ns)

    def calibrated(self, estimate: Estimate, class_ns: Mapping[str, float]) -> Estimate:
        """The model's time, with the estimate's relative interval and Student's of how far one more model is off."""
        half = float(stats.t.ppf((1 + CONFIDENCE) / 2, self.models - 1)) * self.spread
        return widened(estimate, self.constructed_ns(class_ns), half)


def class_factors(wholes: Sequence[Whole]) -> ClassFactors | None:
    """Of more than three models; else None: one factor is all that three can tell."""
    if len(wholes) <= FEWEST_CALIBRATING:
        return None
    off, one_off = [], []
    for own, others in _each_without(wholes):
        off.append(math.log(_predicted(_fitted(others), own.class_ns) / own.ns))
        one_off.append(math.log(_one(others)) - own.log_ratio)
    return ClassFactors(len(wholes), _fitted(wholes), _rms(off), _rms(one_off))


def _each_without(wholes: Sequence[Whole]) -> Iterator[tuple[Whole, list[Whole]]]:
    for at, own in enumerate(wholes):
        yield own, [*wholes[:at], *wholes[at + 1 :]]


def _one(wholes: Sequence[Whole]) -> float:
    return math.exp(math.fsum(whole.log_ratio for whole in wholes) / len(wholes))


def _fitted(wholes: Sequence[Whole]) -> dict[str, float]:
    table = np.array([[whole.class_ns.get(name, 0.0) / whole.ns for name in CLASSES] for whole in wholes])
    one = _one(wholes)
    missing = 1.0 - one * table.sum(axis=1)
    found = np.linalg.solve(table.T @ table + RIDGE * np.eye(len(CLASSES)), table.T @ missing)
    # A time can't be negative, however far a class is extrapolated.
    return {name: max(one / 4, one + float(more)) for name, more in zip(CLASSES, found, strict=True)}


def _predicted(factors: Mapping[str, float], class_ns: Mapping[str, float]) -> float:
    return math.fsum(factors[name] * ns for name, ns in class_ns.items())


def _rms(logs: Sequence[float]) -> float:
    return math.sqrt(math.fsum(log * log for log in logs) / len(logs))
