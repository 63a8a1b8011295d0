"""Pictures with one step of the pre-processing changed: what the variants are, their inputs, and what they cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.arrays import Array
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.contracts.models import ModelSource, Watch
from inferbench_tasks.datasets.fit import image_settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.submission.vary import Change, VarySpec

_FIELD = "evaluate.vary"
#: Mean and deviation in units of 0 to 255; of ImageNet by colour, red first, as torchvision's models are trained
#: ((0.485, 0.456, 0.406) and (0.229, 0.224, 0.225) times 255).
NORMALISATIONS: dict[str, tuple[Any, Any]] = {
    "none": (0.0, 1.0),
    "unit": (0.0, 255.0),
    "minus_one_to_one": (127.5, 127.5),
    "imagenet": ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
}


@dataclass(frozen=True)
class Recipe:
    """How a file becomes an input: the settings of the processor ``image``, and what is done to its values then."""

    settings: dict[str, Any]
    then: Callable[[Array], Array] = field(default=lambda values: values)


def recipes(vary: VarySpec, source: ModelSource, model: ModelArtifact) -> list[tuple[Change, Recipe]]:
    """A recipe for each variant; InputError, at its field, for one that the model makes no difference or no sense."""
    plain = image_settings(source, model)
    return [(change, _recipe(*change, plain, source, model.inputs[0])) for change in vary.changes]


def _recipe(
    step: str, to: str | float, plain: dict[str, Any], source: ModelSource, spec: TensorSpec
) -> Recipe:
    def refuse(reason: str) -> InputError:
        return InputError(f"{to}: {reason}; leave it out", field=f"{_FIELD}.{step}")

    grey, layout = plain["channels"] == 1, plain["layout"]
    if step in ("decoder", "resize"):
        return Recipe({**plain, step: to})
    if step == "crop":
        return Recipe({**plain, **({"squeezed": True} if to == "none" else {"crop_ratio": to})})
    if step == "colour_order":
        if grey:
            raise refuse("the model takes one colour, which has no order")
        if to == plain["colour_order"]:
            raise refuse("that is the order in which the model takes colours anyway")
        return Recipe({**plain, step: to})
    if step == "normalise":
        mean, std = NORMALISATIONS[str(to)]
        if (mean, std) == source.pixels:
            raise refuse("that is how the model's pixels are normalised anyway")
        if grey and to == "imagenet":
            raise refuse("it is of three colours, the model takes one")
        if to == "imagenet" and plain["colour_order"] == "bgr":
            mean, std = mean[::-1], std[::-1]
        return Recipe({**plain, "mean": mean, "std": std})
    if step == "dtype":
        if np.dtype(spec.dtype).kind != "f":
            raise refuse(f"the model takes {spec.dtype}, in which there is nothing left to round")
        if to == "fp16" and spec.dtype == "float16":
            raise refuse("the model takes just that")
        return Recipe(plain, _halves if to == "fp16" else _bytes)
    if to == layout:
        raise refuse("that is the model's own layout; the other one is the wrong one")
    if grey:
        raise refuse("of one colour both layouts are the same")
    return Recipe(plain, _misread(layout))


def _halves(values: Array) -> Array:
    with np.errstate(over="ignore"):  # a value beyond 65,504 becomes infinite, as it would
        return values.astype(np.float16).astype(values.dtype)


def _bytes(values: Array) -> Array:
    return np.clip(np.rint(values), 0, 255).astype(values.dtype)


def _misread(layout: str) -> Callable[[Array], Array]:
    """The same numbers in the order of the other layout, read as if they stood in this one."""
    axes = (0, 2, 3, 1) if layout == "nchw" else (0, 3, 1, 2)
    return lambda values: np.ascontiguousarray(values.transpose(axes)).reshape(values.shape)


@dataclass(frozen=True)
class Made:
    """``inputs``: of each recipe, a row for each file. ``took_ms``: recipes x files, ms of CPU time, all threads."""

    inputs: list[Array]
    took_ms: NDArray[np.float64]


def made(files: Sequence[bytes], chosen: Sequence[Recipe], dtype: str, watch: Watch) -> Made:
    """Every file by every recipe, one file at a time as requests come; in turns, each recipe as often the first of a
    file as any other, so that what a file's first reading costs is nobody's. InputError for a file that one of them
    can't decode.
    """
    from inferbench_tasks.processors.image import Image

    images = [Image(**recipe.settings) for recipe in chosen]

    def one(which: int, data: bytes) -> Array:
        return chosen[which].then(images[which]([data])).astype(dtype, copy=False)

    first = [one(which, files[0]) for which in range(len(chosen))]  # what is imported is imported by this
    inputs = [np.empty((len(files), *row.shape[1:]), row.dtype) for row in first]
    took_ms = np.zeros((len(chosen), len(files)))
    for at, data in enumerate(files):
        if at % 16 == 0:
            watch.step(at, len(files), "varying the pre-processing")
        for turn in range(len(chosen)):
            which = (at + turn) % len(chosen)
            started_ns = time.process_time_ns()
            inputs[which][at] = one(which, data)[0]
            took_ms[which, at] = (time.process_time_ns() - started_ns) / 1e6
    return Made(inputs, took_ms)
