"""Whether samples influence each other where some are loud and others quiet: random ones are all alike.

A spectrum that is cut off so far below the loudest value of all samples answers those that are alike as if each were
alone.
"""

from __future__ import annotations

import numpy as np

from inferbench_tasks.contracts.arrays import Array, Arrays
from inferbench_tasks.formats.base import Predict
from inferbench_tasks.formats.check import compare

#: Powers of ten, one for each sample.
POWERS = (-6, 0, 3, -3, 6, -1, 1)


def mixes(predict: Predict, samples: Arrays, tolerance_ratio: float) -> str | None:
    """None where each sample is answered among the others as alone, relatively to its own answer; else what differs.

    ``samples``: one for each of ``POWERS``; only floats are scaled. What differs is asked once more, as one of as many
    copies: sums are added in the same order then, which large values may turn into another answer. A sample that is
    answered with NaN, or not at all, even alone, is left out: it is no input of that model.
    """
    if not any(array.dtype.kind == "f" for array in samples.values()):
        return None
    scaled = {name: _scaled(array) for name, array in samples.items()}
    alone: dict[int, Arrays] = {}
    for row in range(len(POWERS)):
        try:
            answer = predict(_rows(scaled, [row]))
        except Exception:  # noqa: BLE001, S112 - whatever a runtime raises: it takes no such values
            continue
        if not any(array.dtype.kind == "f" and np.isnan(array).any() for array in answer.values()):
            alone[row] = answer
    if len(alone) < 2:
        return None
    rows = [int(row) for row in np.resize(list(alone), len(POWERS))]
    try:
        together = predict(_rows(scaled, rows))
        for at, row in enumerate(rows):
            answer = _rows(together, [at])
            if differs(answer, alone[row], tolerance_ratio) is None:
                continue
            copies = predict(_rows(scaled, [row] * len(rows)))
            if reason := differs(answer, _rows(copies, [at]), tolerance_ratio):
                return f"for a sample times 1e{POWERS[row]} among louder and quieter ones {reason}"
    except Exception as error:  # noqa: BLE001
        return f"loud and quiet samples are refused together: {' '.join(str(error).split())[-300:]}"
    return None


def differs(answer: Arrays, expected: Arrays, tolerance_ratio: float) -> str | None:
    """How an answer is not the one expected, beyond a part of its largest value; None if it is."""
    difference = compare(answer, expected)
    if difference.undecidable:
        return difference.undecidable
    if not difference.ratio <= tolerance_ratio:
        return f"output {difference.output} differs by {difference.ratio:.2g} of its largest value"
    return None


def _scaled(array: Array) -> Array:
    if array.dtype.kind != "f":
        return array
    factors = 10.0 ** np.array(POWERS, np.float64).reshape(-1, *[1] * (array.ndim - 1))
    most = float(np.finfo(array.dtype).max)  # half precision ends before a million
    return np.clip(array * factors, -most, most).astype(array.dtype)


def _rows(arrays: Arrays, rows: list[int]) -> Arrays:
    return {name: array[rows] for name, array in arrays.items()}
