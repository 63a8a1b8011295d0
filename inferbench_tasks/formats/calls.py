"""A model that takes exactly so many rows, asked for any number of them."""

from __future__ import annotations

import numpy as np

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.base import Predict


def by_calls(predict: Predict, arrays: Arrays, batch: int) -> Arrays:
    """Answers to all rows, ``batch`` to a call; the last call is filled up. InputError for outputs of other lengths."""
    count = len(next(iter(arrays.values())))
    parts: list[Arrays] = []
    for start in range(0, count, batch):
        rows = np.arange(start, start + batch)
        part = predict({name: np.take(a, rows, axis=0, mode="wrap") for name, a in arrays.items()})
        for name, array in part.items():
            if array.ndim == 0 or len(array) != batch:
                raise InputError(
                    f"Output {name} has shape {list(array.shape)} for {batch} samples: it has no batch axis, so that "
                    f"answers can't be told apart",
                    field="model",
                )
        parts.append(part)
    return {name: array[:count] for name, array in joined(parts).items()}


def joined(parts: list[Arrays]) -> Arrays:
    """Answers one after the other. InputError where they have no batch axis, or not all one shape."""
    for name, array in parts[0].items():
        if array.ndim == 0:
            raise InputError(
                f"Output {name} is a single number, whatever the batch: one a sample is needed", field="model"
            )
        shapes = sorted({part[name].shape[1:] for part in parts})
        if len(shapes) > 1:
            raise InputError(
                f"Output {name} has the shape {list(shapes[0])} for one sample and {list(shapes[-1])} for another: "
                f"answers of one shape are needed; pad the output in the model",
                field="model",
            )
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
