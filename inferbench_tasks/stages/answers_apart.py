"""Part of ``evaluate``: how far answers to the same samples are from each other, and which are answered otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from inferbench_tasks.analysis.evaluations.differing import APART, OTHERWISE
from inferbench_tasks.contracts.arrays import Arrays, blocks
from inferbench_tasks.contracts.columns import numbers
from inferbench_tasks.formats.computed_precision import computed_in
from inferbench_tasks.formats.stored_precision import FULL
from inferbench_tasks.quality.base import decisions
from inferbench_tasks.quality.noise import NOISE_RATIO, noise_ratio

if TYPE_CHECKING:
    from inferbench_tasks.contracts.answers import Meaning
    from inferbench_tasks.stages.asked import Asked
    from inferbench_tasks.submission.schema import JobSpec

#: So many samples are listed by their ids; all of them stand in the file of answers.
LISTED = 50


@dataclass(frozen=True)
class Apart:
    """The answers under load beside those to single samples.

    ``ratio``: of each sample, see ``apart_ratio``. ``other_class``: whether they name another class, as far as answers
    are classes. ``both``: whether there are both answers. ``bound_ratio``: what the noise of arithmetic may do.
    """

    ratio: NDArray[np.float64]
    other_class: NDArray[np.bool_]
    both: NDArray[np.bool_]
    bound_ratio: float

    @cached_property
    def beyond(self) -> NDArray[np.bool_]:
        """Those that are further apart than the bound."""
        return _known(self.ratio, self.both) > self.bound_ratio

    @cached_property
    def otherwise(self) -> NDArray[np.bool_]:
        """Those that are answered otherwise: further apart than the bound, or another class within it."""
        return self.beyond | self.other_class

    def document(self, ids: NDArray[np.int64]) -> dict[str, Any]:
        """{compared, bound_ratio, beyond_tolerance, other_class, otherwise, largest_ratio, samples}: counts, and the
        ids of those that are answered otherwise."""
        return {
            "compared": int(self.both.sum()),
            "bound_ratio": self.bound_ratio,
            "beyond_tolerance": int(self.beyond.sum()),
            "other_class": int(self.other_class.sum()),
            "otherwise": int(self.otherwise.sum()),
            **largest_first(self.ratio, self.both, self.otherwise, ids),
        }


def passes_apart(
    under_load: Asked, alone: Asked, source: Arrays, meaning: Meaning, bound_ratio: float
) -> Apart:
    """The two passes, by the names and the order of ``source``'s outputs."""
    both = under_load.answered & alone.answered
    ratio = apart_ratio(under_load.outputs, alone.outputs, source, both)
    other_class = np.zeros(len(both), dtype=np.bool_)
    if meaning == "classes" and both.any():
        other_class = both & (decisions(under_load.outputs, source) != decisions(alone.outputs, source))
    return Apart(ratio, other_class, both, bound_ratio)


def bound_of(job: JobSpec, served: str = FULL) -> float:
    """What a server's answers under load may differ from its own to single samples, see ``quality.noise``.

    ``served``: what its weights are in. Where nobody knows what a quantised file computes in, it is allowed what one
    that computes in whole numbers may do.
    """
    if job.evaluate is not None and job.evaluate.tolerance_ratio is not None:
        return job.evaluate.tolerance_ratio
    precision = computed_in(job.convert.precision, served, job.convert.format)
    if precision is None:
        precision = served if served in NOISE_RATIO else FULL
    noise = noise_ratio(precision, job.serve.device.kind)
    # In full precision nothing is lost: who allows a conversion more there says what another order of sums does.
    return max(noise, job.convert.tolerance_ratio or 0.0) if precision == FULL else noise


def with_apart(table: pa.Table, apart: Apart) -> pa.Table:
    """The table of answers with ``apart_ratio`` (infinite for other texts, class numbers or shapes) and ``otherwise``
    of each sample; null where one of both answers is missing."""
    otherwise = pa.Array.from_buffers(
        pa.bool_(),
        len(apart.both),
        [pa.py_buffer(np.packbits(bits, bitorder="little")) for bits in (apart.both, apart.otherwise)],
    )
    return table.append_column(APART, numbers(apart.ratio, apart.both)).append_column(OTHERWISE, otherwise)


def largest_first(
    ratio: NDArray[np.float64], both: NDArray[np.bool_], chosen: NDArray[np.bool_], ids: NDArray[np.int64]
) -> dict[str, Any]:
    """{largest_ratio, samples}: of all samples, None where it is infinite or of none; ids of chosen ones, the
    furthest first."""
    known = _known(ratio, both)
    order = np.argsort(-known, kind="stable")
    largest = float(known.max(initial=0.0))
    return {
        "largest_ratio": largest if np.isfinite(largest) and both.any() else None,
        "samples": [int(ids[at]) for at in order[chosen[order]][:LISTED]],
    }


def beyond(
    ratio: NDArray[np.float64], both: NDArray[np.bool_], tolerance_ratio: float, ids: NDArray[np.int64]
) -> dict[str, Any]:
    """{compared, beyond_tolerance, largest_ratio, samples} of answers and what they are held against."""
    further = _known(ratio, both) > tolerance_ratio
    counts: dict[str, Any] = {"compared": int(both.sum()), "beyond_tolerance": int(further.sum())}
    return counts | largest_first(ratio, both, further, ids)


def _known(ratio: NDArray[np.float64], both: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.where(both, ratio, 0.0)


def apart_ratio(one: Arrays, other: Arrays, like: Arrays, both: NDArray[np.bool_]) -> NDArray[np.float64]:
    """max|one - other| of each sample by the largest |value| of all samples, over all outputs; inf for other texts,
    classes, or where one alone is no finite number; NaN of samples that do not have both answers.
    """
    if not both.any():  # then outputs may have no names at all
        return np.full(len(both), np.nan)
    worst = np.zeros(len(both))
    for a, b in _pairs(one, other, like):
        if a.size != b.size:
            return np.where(both, np.inf, np.nan)
        apart = _rows_apart(a, b, both) if _floats(a, b) else np.where(_same(a, b), 0.0, np.inf)
        worst = np.maximum(worst, apart)
    worst[~both] = np.nan
    return worst


def floats_apart(
    one: Arrays, other: Arrays, like: Arrays, both: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """``apart_ratio`` of floats alone, of which samples it is of any, and of which some are left out.

    Floats in rows that follow whole numbers or texts, as boxes follow their classes, are left out of a sample that has
    others: two rows of nearly the same score change places there. Not so one float for each row, the scores: these are
    nearly the same in any order. All have to be of the same size.
    """
    worst, any_held, any_left_out = np.zeros(len(both)), np.zeros_like(both), np.zeros_like(both)
    if not both.any():
        return np.full(len(both), np.nan), any_held, any_left_out
    pairs = _pairs(one, other, like)
    if any(a.size != b.size for a, b in pairs):
        return np.where(both, np.inf, np.nan), both, any_left_out
    texts = [(_row_count(b), _same(a, b)) for a, b in pairs if not _floats(a, b)]
    for a, b in pairs:
        if not _floats(a, b):
            continue
        held = both.copy()
        for count, same in texts:
            if count > 1 and count == _row_count(b) and b[0].size > count:
                held &= same
        worst = np.maximum(worst, np.where(held, _rows_apart(a, b, both), 0.0))
        any_held, any_left_out = any_held | held, any_left_out | (both & ~held)
    worst[~any_held] = np.nan
    return worst, any_held, any_left_out


def _pairs(one: Arrays, other: Arrays, like: Arrays) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """The same outputs of both: by ``like``'s names, else in their order."""
    names = [name for name in like if name in one and name in other]
    pairs = [(name, name) for name in names] or list(zip(one, other, strict=True))
    return [(one[mine], other[theirs]) for mine, theirs in pairs]


def _floats(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return a.dtype.kind == "f" and b.dtype.kind == "f"


def _row_count(array: NDArray[Any]) -> int:
    """How many rows a sample has."""
    return array.shape[1] if array.ndim > 1 else 1


def _same(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = (a.reshape(len(a), -1) == b.reshape(len(b), -1)).all(axis=1)
    return same


def _rows_apart(a: NDArray[Any], b: NDArray[Any], both: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Of each sample, by the largest |value| of all samples with both answers."""
    a, b = a.reshape(len(both), -1), b.reshape(len(both), -1)
    scale = max((_largest(a[rows], b[rows], both[rows]) for rows in blocks(b)), default=0.0) or 1.0
    return np.concatenate([_apart(a[rows], b[rows], scale) for rows in blocks(b)])


def _largest(a: NDArray[Any], b: NDArray[Any], both: NDArray[np.bool_]) -> float:
    """The largest |b| where both are finite, of the samples with both answers."""
    finite = np.isfinite(a) & np.isfinite(b)
    return float(np.abs(np.where(finite, b.astype(np.float64), 0.0)[both]).max(initial=0.0))


def _apart(a: NDArray[Any], b: NDArray[Any], scale: float) -> NDArray[np.float64]:
    """Of each row the largest |a - b| / scale; inf where only one is finite or they are infinite otherwise."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        apart = np.where(np.isfinite(x) & np.isfinite(y), np.abs(x - y) / scale, np.where(same, 0, np.inf))
    worst: NDArray[np.float64] = apart.max(axis=1, initial=0.0)
    return worst
