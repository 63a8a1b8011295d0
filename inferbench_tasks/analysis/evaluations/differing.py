"""Which samples two evaluations differ in: another class, or a part of a measure that is another beyond rounding."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

#: Columns of what a measure needs of each sample begin with it.
PARTS = "parts_"
#: The column of how many scores go before the label's, and the measure that is of it.
RANK, TOP5 = "label_rank", "top5_ratio"
#: The column of all classes' scores, which parts have, and the measure that is of it.
SCORES, AUC = "scores", "auc"
#: The columns of how far the answer under load is from the one to the sample alone, and of whether it is another one.
APART, OTHERWISE = "apart_ratio", "otherwise"
#: Nearer than this share of the largest value two figures are one: sums in another order, fp32's last bits.
ROUNDING_RATIO = 1e-6
ANSWERS, MEASURES = (
    "They answer {:,} of {:,} samples otherwise.",
    "They differ in a measure of {:,} of {:,} samples.",
)


def differing(one: pa.Table, two: pa.Table) -> tuple[NDArray[np.bool_], str] | None:
    """Of each sample whether the two differ, and the sentence for how many; None where nothing is kept that tells.

    Of answers that are no classes only the measures' parts are kept, and answers that differ may have equal ones.
    """
    if all(table["answer"].null_count < table.num_rows for table in (one, two)):
        pairs = zip(one["answer"].to_pylist(), two["answer"].to_pylist(), strict=True)
        return np.array([a != b for a, b in pairs], dtype=bool), ANSWERS
    names = [name for name in one.column_names if name.startswith(PARTS) and name in two.column_names]
    if not names:
        return None
    found = np.zeros(one.num_rows, dtype=bool)
    for name in names:
        sides = [[_of(each) for each in table[name].to_pylist()] for table in (one, two)]
        finite = [np.abs(part[np.isfinite(part)]) for side in sides for part in side]
        bound = ROUNDING_RATIO * max((float(part.max(initial=0.0)) for part in finite), default=0.0)
        found |= np.array([not _same(a, b, bound) for a, b in zip(*sides, strict=True)], dtype=bool)
    return found, MEASURES


def beyond_rounding(difference: float, *figures: float) -> bool:
    """Whether a difference of these figures is more than rounding."""
    return abs(difference) > ROUNDING_RATIO * max(map(abs, figures), default=0.0)


def _of(part: list[float | None] | None) -> NDArray[np.float64]:
    return np.array([np.nan if each is None else each for each in part or ()], dtype=np.float64)


def _same(a: NDArray[np.float64], b: NDArray[np.float64], bound: float) -> bool:
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=0.0, atol=bound, equal_nan=True))
