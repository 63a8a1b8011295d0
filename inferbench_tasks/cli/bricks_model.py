"""The model that ``inferbench bricks`` takes apart, and what it is fed with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError

if TYPE_CHECKING:
    from inferbench_tasks.contracts.arrays import Array, Arrays
    from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
    from inferbench_tasks.contracts.models import ModelSource, Watch

SEED = 7


def source_of(model: str, framework: str | None) -> ModelSource:
    """A built-in model by its name, or a file or folder by its path. InputError where it is neither."""
    from pydantic import ValidationError

    from inferbench_tasks.modelrepo.resolve import resolve
    from inferbench_tasks.modelrepo.zoo import ZOO
    from inferbench_tasks.submission.model import FileModel, ZooModel

    path = Path(model).expanduser()
    try:
        if model not in ZOO and (path.exists() or path.suffix):
            if framework is not None:
                raise InputError(
                    "a file has the framework that it has; leave --framework out", field="framework"
                )
            file = path.resolve()
            return resolve(FileModel(kind="file", path=file.name), file.parent)
        return resolve(ZooModel.model_validate({"kind": "zoo", "name": model, "framework": framework}), path)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise InputError(f"{model} is no model: {problems}") from None


def onnx_of(source: ModelSource, watch: Watch) -> ModelArtifact:
    """The model made and converted, or from the cache."""
    from inferbench_tasks.formats.conversion import convert_model
    from inferbench_tasks.modelrepo.build import build_model, caches

    data_dir = settings.writable(settings.data_dir())
    artifact = build_model(source, data_dir, watch)
    return convert_model(artifact, "onnx", "fp32", caches(data_dir, source, "conversions"), watch=watch).model


def sizes_of(text: str) -> tuple[str, tuple[int, ...]]:
    """``image=3x224x224`` as a name and its sizes."""
    match = re.fullmatch(r"(.+)=(\d+(?:x\d+)*)", text)
    sizes = tuple(int(size) for size in match[2].split("x")) if match else ()
    if match is None or 0 in sizes:
        raise InputError(
            f"{text!r} is no INPUT=SIZES; for instance image=3x224x224, or input_ids=128 (without the batch)",
            field="shape",
        )
    return match[1], sizes


def inputs_of(
    source: ModelSource, inputs: tuple[TensorSpec, ...], batch: int, sizes: dict[str, tuple[int, ...]]
) -> Arrays:
    """The data set's first samples where they have the sizes that were asked for, seeded noise elsewhere."""
    import numpy as np

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
                + "x".join("N" if size == -1 else str(size) for size in spec.shape),
                field="shape",
            )
    shapes = {spec.name: (batch, *spec.shape) for spec in fixed}
    samples = _samples(source, batch)
    if samples is not None and {name: array.shape for name, array in samples.items()} == shapes:
        return samples
    noise = source.noise(fixed, batch, np.random.default_rng(SEED))
    return {name: _repeated(noise[name], sizes) for name, sizes in shapes.items()}


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
