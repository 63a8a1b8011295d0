"""What a model is recorded and timed with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inferbench_tasks.errors import InputError

if TYPE_CHECKING:
    from inferbench_tasks.contracts.arrays import Array, Arrays
    from inferbench_tasks.contracts.handles import TensorSpec
    from inferbench_tasks.contracts.models import ModelSource

SEED = 7


def inputs_of(
    source: ModelSource,
    inputs: tuple[TensorSpec, ...],
    batch: int,
    sizes: dict[str, tuple[int, ...]],
    samples: bool = True,
) -> Arrays:
    """The data set's first samples where they have the sizes that were asked for, seeded noise elsewhere; without
    ``samples`` noise alone."""
    import numpy as np

    fixed = sized(inputs, sizes)
    shapes = {spec.name: (batch, *spec.shape) for spec in fixed}
    known = _samples(source, batch) if samples else None
    if known is not None and {name: array.shape for name, array in known.items()} == shapes:
        return known
    noise = source.noise(fixed, batch, np.random.default_rng(SEED))
    return {name: _repeated(noise[name], sizes) for name, sizes in shapes.items()}


def sized(inputs: tuple[TensorSpec, ...], sizes: dict[str, tuple[int, ...]]) -> tuple[TensorSpec, ...]:
    """The inputs with these sizes, without the batch. InputError for a name or sizes that there are not, and for an
    input that stays open."""
    names = ", ".join(spec.name for spec in inputs)
    for name in sizes:
        if name not in {spec.name for spec in inputs}:
            raise InputError(f"the model has no input {name}; it has {names}", field="shape")
    fixed = tuple(spec.model_copy(update={"shape": sizes.get(spec.name, spec.shape)}) for spec in inputs)
    for spec, declared in zip(fixed, inputs, strict=True):
        agrees = len(spec.shape) == len(declared.shape) and all(
            size in (-1, other) for size, other in zip(declared.shape, spec.shape, strict=True)
        )
        if not agrees:
            raise InputError(
                f"{spec.name} takes {list(declared.shape)}, not {list(spec.shape)}", field="shape"
            )
        if -1 in spec.shape:
            raise InputError(
                f"the input {spec.name} has the open sizes {list(spec.shape)}; fix them by --shape {spec.name}="
                + "x".join("N" if size == -1 else str(size) for size in spec.shape)
                + ", or shapes in a submission",
                field="shape",
            )
    return fixed


def _repeated(array: Array, shape: tuple[int, ...]) -> Array:
    """The array's values over and over along each axis: a source's noise may have a length of its own."""
    import numpy as np

    return np.ascontiguousarray(
        array[np.ix_(*(np.arange(n) % old for n, old in zip(shape, array.shape, strict=True)))]
    )


def _samples(source: ModelSource, batch: int) -> Arrays | None:
    dataset = source.dataset()
    if dataset is None or len(dataset) < batch:
        return None
    import numpy as np

    return dataset.inputs(np.arange(batch))
