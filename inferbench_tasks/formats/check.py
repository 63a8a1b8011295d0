"""Whether a converted model still answers as its source does, relatively: an absolute bound proves nothing
for a model whose outputs are about 1e-10."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import BaseModel

from inferbench_tasks.contracts.arrays import Array, Arrays
from inferbench_tasks.errors import ConversionError


class Difference(BaseModel):
    """The largest difference of one model's outputs: ``ratio`` = max|converted - source| / max|source|.

    ``output`` and ``index`` say where, ``converted`` and ``source`` what the two models answer there.
    ``undecidable`` says why the answers can't be compared at all.
    """

    ratio: float = 0.0
    output: str = ""
    index: tuple[int, ...] = ()
    converted: float | str = 0.0
    source: float | str = 0.0
    undecidable: str | None = None


def compare(converted: Arrays, source: Arrays, exact_integers: bool = True) -> Difference:
    """The worst output; outputs are matched by name, by position where the names differ.

    Integer, boolean and text outputs must be equal (``exact_integers``), else only of the same shape.
    """
    if len(converted) != len(source):
        return Difference(undecidable=f"it has the outputs {list(converted)}, its source {list(source)}")
    by_name = converted.keys() == source.keys()
    worst = Difference()
    for position, (name, expected) in enumerate(source.items()):
        actual = converted[name] if by_name else list(converted.values())[position]
        difference = _compare(name, actual, expected, exact_integers)
        if difference.undecidable:
            return difference
        if difference.ratio >= worst.ratio:
            worst = difference
    return worst


def _compare(name: str, actual: Array, expected: Array, exact_integers: bool) -> Difference:
    if actual.shape != expected.shape:
        return Difference(
            output=name,
            undecidable=f"output {name} has shape {list(actual.shape)}, the source's {list(expected.shape)}",
        )
    if expected.dtype.kind not in "fc":
        return _compare_exact(name, actual, expected) if exact_integers else Difference(output=name)
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    # Infinities that both have are equal; everything else that is not finite is wrong.
    same = (actual == expected) & ~np.isfinite(expected)
    bad = ~np.isfinite(actual) & ~same
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        return Difference(
            output=name,
            index=at,
            converted=str(actual[at]),
            source=str(expected[at]),
            undecidable=f"output {name} has {int(bad.sum())} values that are NaN or infinite, for instance "
            f"{actual[at]} at {list(at)} where its source answers {expected[at]:.6g}",
        )
    distance = np.where(same, 0.0, np.abs(actual - np.where(np.isfinite(expected), expected, 0.0)))
    if not distance.size:
        return Difference(output=name)
    finite = np.abs(expected[np.isfinite(expected)])
    scale = float(finite.max()) if finite.size else 0.0
    at = tuple(int(i) for i in np.unravel_index(int(distance.argmax()), distance.shape))
    largest = float(distance[at])
    # A source that answers nothing but zeros leaves no scale: then any difference is a whole one.
    ratio = largest / scale if scale else float(largest > 0)
    return Difference(
        ratio=ratio, output=name, index=at, converted=float(actual[at]), source=float(expected[at])
    )


def _compare_exact(name: str, actual: Array, expected: Array) -> Difference:
    differs = actual.astype(expected.dtype) != expected
    if not np.any(differs):
        return Difference(output=name)
    at = tuple(int(i) for i in np.argwhere(differs)[0])
    return Difference(
        ratio=1.0, output=name, index=at, converted=_plain(actual[at]), source=_plain(expected[at])
    )


def _plain(value: Any) -> float | str:
    return float(value) if np.issubdtype(type(value), np.number) else str(value)


def require_within(difference: Difference, tolerance_ratio: float, what: str) -> None:
    """Raise ConversionError, with both values, where a difference is beyond the tolerance."""
    if difference.undecidable:
        raise ConversionError(f"{what}: {difference.undecidable}")
    if not difference.ratio <= tolerance_ratio:  # a NaN is beyond every tolerance
        raise ConversionError(
            f"{what}: output {difference.output} at {list(difference.index)} differs from the source's by "
            f"{difference.ratio:.3g} of its largest value, {tolerance_ratio:.3g} is allowed: converted "
            f"{_show(difference.converted)}, source {_show(difference.source)}. If that is acceptable, set "
            f"convert.tolerance_ratio"
        )


def _show(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.7g}"
