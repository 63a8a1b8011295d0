"""Made-up samples whose free sizes the submission gives: a number for all, or drawn for each by a law."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.dataset import MAX_BYTES
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.contracts.models import ModelSource
from inferbench_tasks.errors import InputError
from inferbench_tasks.requests.ragged import objects, rows_of
from inferbench_tasks.submission.sizes import SizeSpec

FIELD = "requests.sizes"


def sized_noise(
    sizes: tuple[SizeSpec, ...],
    source: ModelSource,
    model: ModelArtifact,
    count: int,
    rng: np.random.Generator,
) -> Arrays:
    """``count`` samples; of different shapes where sizes are drawn (see ``ragged``).

    InputError for an axis that the inputs lack or that is not free, and for more bytes than fit.
    """
    drawn = [_drawn(size, model, count, rng) for size in sizes]
    table = np.stack(drawn, axis=1)
    kinds, which = np.unique(table, axis=0, return_inverse=True)
    groups = [np.flatnonzero(which.reshape(-1) == kind) for kind in range(len(kinds))]
    shaped = [_with_sizes(model.inputs, sizes, chosen.tolist()) for chosen in kinds]
    least = sum(len(rows) * _least_bytes(inputs) for inputs, rows in zip(shaped, groups, strict=True))
    if least > MAX_BYTES:  # before the memory is full of them
        raise InputError(
            f"{count} samples of these sizes have {least / 2**30:,.1f} GiB, more than the {MAX_BYTES >> 30} GiB that "
            "fit; ask for fewer (requests.samples), or smaller ones",
            field=FIELD,
        )
    samples: list[dict[str, NDArray[np.generic]]] = [{} for _ in range(count)]
    for inputs, rows in zip(shaped, groups, strict=True):
        made = source.noise(inputs, len(rows), rng)
        _require_sizes(made, inputs, model)
        for at, row in enumerate(rows.tolist()):
            samples[row] = {name: array[at] for name, array in made.items()}
    ragged = {spec.name: objects([sample[spec.name] for sample in samples]) for spec in model.inputs}
    if len(groups) > 1:
        return ragged
    return {name: rows_of(array, range(count)) for name, array in ragged.items()}


def _drawn(size: SizeSpec, model: ModelArtifact, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    for axis in size.axes:
        _require_free(axis, model)
    if isinstance(size.size, int):
        return np.full(count, size.size, np.int64)
    return size.size.draw(count, rng)


def _require_free(axis: str, model: ModelArtifact) -> None:
    name, number = _parts(axis)
    shapes = {spec.name: spec.shape for spec in model.inputs}
    free = [f"{n}.{at}" for n, shape in shapes.items() for at, size in enumerate(shape, 1) if size == -1]
    words = f"free are: {', '.join(free)}" if free else "none of its inputs has a free axis but the batch"
    if name not in shapes:
        raise InputError(f"{axis}: {model.name} has no input {name!r}; {words}", field=FIELD)
    if number > len(shapes[name]):
        raise InputError(
            f"{axis}: {name} has the axes 0 (batch) to {len(shapes[name])}; {words}", field=FIELD
        )
    if shapes[name][number - 1] != -1:
        raise InputError(f"{axis} is fixed at {shapes[name][number - 1]}; {words}", field=FIELD)


def _parts(axis: str) -> tuple[str, int]:
    name, _, number = axis.rpartition(".")
    return name, int(number)


def _with_sizes(
    inputs: tuple[TensorSpec, ...], sizes: tuple[SizeSpec, ...], chosen: list[int]
) -> tuple[TensorSpec, ...]:
    value = {_parts(axis): number for size, number in zip(sizes, chosen, strict=True) for axis in size.axes}
    return tuple(
        spec.model_copy(
            update={"shape": tuple(value.get((spec.name, at), n) for at, n in enumerate(spec.shape, 1))}
        )
        for spec in inputs
    )


def _least_bytes(inputs: tuple[TensorSpec, ...]) -> int:
    """Of one sample; sizes that the source chooses itself count as 1."""
    total = 0
    for spec in inputs:
        try:
            item = np.dtype(spec.dtype).itemsize
        except TypeError:  # no type of numpy's; its values are made otherwise
            item = 1
        total += math.prod(max(1, size) for size in spec.shape) * item
    return total


def _require_sizes(made: Arrays, inputs: tuple[TensorSpec, ...], model: ModelArtifact) -> None:
    for spec in inputs:
        shape = made[spec.name].shape[1:]
        if len(shape) != len(spec.shape) or any(
            n not in (-1, s) for n, s in zip(spec.shape, shape, strict=True)
        ):
            raise InputError(
                f"{model.name} makes its own samples, of shape {list(shape)} for {spec.name}: leave sizes out",
                field=FIELD,
            )
