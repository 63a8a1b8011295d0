"""Whether the first axis of a model's inputs and outputs is a batch axis: each row is answered as it is by itself."""

from __future__ import annotations

import numpy as np

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.base import Predict
from inferbench_tasks.formats.check import compare
from inferbench_tasks.requests.ragged import is_ragged, rows_of

#: Rows that are asked for together, and then each by itself.
ROWS = 7


def require_rows(predict: Predict, arrays: Arrays, tolerance_ratio: float) -> None:
    """Ask the first samples together and one by one; InputError, which says what differs, beyond the tolerance.

    Fewer than ``ROWS`` samples are repeated. A model that mixes its rows, or draws random numbers, would be compared
    with itself only as long as every batch has the same samples.
    """
    batch = _alike(arrays)
    together, again = predict(batch), predict(batch)
    if any(array.dtype.kind == "f" and np.isnan(array).any() for array in together.values()):
        return  # which is said where all samples are answered
    twice = compare(again, together)
    if twice.undecidable or not twice.ratio <= tolerance_ratio:
        raise InputError(
            f"The model answers the same samples differently each time "
            f"({twice.undecidable or f'output {twice.output}'}): no answer of its server could be checked; export it "
            f"without random operators",
            field="model",
        )
    for name, array in together.items():
        if array.ndim == 0 or len(array) != ROWS:
            raise InputError(
                f"Output {name} has shape {list(array.shape)} for {ROWS} samples: it has no batch axis, so that "
                f"answers can't be told apart",
                field="model",
            )
    for row in range(ROWS):
        alone = predict({name: array[row : row + 1] for name, array in batch.items()})
        worst = compare(alone, {name: array[row : row + 1] for name, array in together.items()})
        if worst.undecidable:
            raise InputError(f"A sample by itself: {worst.undecidable} in a batch of {ROWS}", field="model")
        if not worst.ratio <= tolerance_ratio:
            raise InputError(
                f"Output {worst.output} at {list(worst.index)} is {worst.converted} for a sample by itself and "
                f"{worst.source} for the same one in a batch of {ROWS} (by {worst.ratio:.3g} of the largest value): "
                f"rows influence each other, so the first axis is no batch axis. Where that is acceptable, as with "
                f"scales that are taken from each batch, set convert.tolerance_ratio",
                field="model",
            )


def _alike(arrays: Arrays) -> Arrays:
    """The first samples, repeated where they are fewer; of samples of different shapes those like the first."""
    first = {name: array[0].shape for name, array in arrays.items() if is_ragged(array)}
    count = len(next(iter(arrays.values())))
    same = [i for i in range(count) if all(arrays[name][i].shape == shape for name, shape in first.items())]
    return {name: rows_of(array, np.resize(same, ROWS)) for name, array in arrays.items()}
