"""A data set in the form that one model takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts import pictures
from inferbench_tasks.contracts.answers import classes_scored
from inferbench_tasks.contracts.arrays import Array, Arrays
from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.contracts.models import ModelSource
from inferbench_tasks.contracts.named_classes import NamedClasses
from inferbench_tasks.datasets.base import Collection
from inferbench_tasks.datasets.questions import Questions
from inferbench_tasks.datasets.same_classes import ModelClasses, why_others
from inferbench_tasks.errors import InputError
from inferbench_tasks.processors.pipeline import Pipeline
from inferbench_tasks.requests import digits
from inferbench_tasks.requests.prepare import usable_labels
from inferbench_tasks.submission.spans import SpansSpec

_FIELD = "evaluate.dataset"
#: Whose samples are files or texts, which processors can begin with.
RAW_FORMS = ("pictures", "scenes", "texts", "bytes")
#: Of a picture that has to be seen whole, such a share may be cut off at its edges.
_MOST_CUT_RATIO = 0.02


class Fitted(Dataset):
    """Samples of a collection as the model's inputs. ``characters``: see ``ModelSource.characters``.
    ``named_classes``: see ``ModelSource.named_classes``; None where the
    data set's classes are the model's by their numbers."""

    name = ""

    def __init__(
        self,
        collection: Collection,
        source: ModelSource,
        model: ModelArtifact,
        before: Pipeline | None = None,
        characters: tuple[str, ...] | None = None,
        named_classes: NamedClasses | None = None,
    ) -> None:
        self.name = collection.shown_name  # type: ignore[misc]  # of this one, not of its class
        self.collection, self._source, self._model = collection, source, model
        self._before, self.characters, self.named_classes = before, characters, named_classes

    def __len__(self) -> int:
        return self.collection.count

    def inputs(self, indices: NDArray[np.int64]) -> Arrays:
        rows = self.collection.rows(indices)
        if self._before is not None:
            return self._before.each_before(rows)
        arrays: Arrays = _FORMS[self.collection.form](rows, self._source, self._model)
        return arrays

    def labels(self) -> NDArray[np.int64] | None:
        return self.collection.labels

    def targets(self) -> Mapping[str, Array]:
        sizes = self.collection.sizes
        if sizes is None:
            return self.collection.targets
        height, width = self._frame()
        boxes = in_frame(self.collection.targets["boxes"], sizes, width, height)
        return {**self.collection.targets, "boxes": boxes}

    def _frame(self) -> tuple[int, int]:
        """Height and width of the images that the model is given."""
        if self._before is None:
            height, width = image_settings(self._source, self._model)["size"]
            return height, width
        made = self.inputs(np.arange(1)).values()
        shape = next((array.shape[1:] for array in made if array.ndim == 4), None)
        if shape is None:
            raise InputError(
                "boxes lie in an image, and what the processors make is none", field="processors.before"
            )
        return shape[1:] if shape[0] in (1, 3) else shape[:2]


def fitted(
    collection: Collection,
    source: ModelSource,
    model: ModelArtifact,
    spans: SpansSpec | None = None,
    base_dir: Path | None = None,
    before: Pipeline | None = None,
) -> Dataset:
    """The data set for that model. InputError where samples or labels don't fit it; the first sample is tried.

    ``spans``: of questions, as usual without; its tokenizer lies below ``base_dir``. ``before``: the submission's own
    processors, which make inputs of raw samples in place of what the model is known to want.
    """
    if before is not None and collection.form not in RAW_FORMS:
        raise InputError(
            f"samples of {collection.name} are {collection.form}, and no raw ones; leave processors.before out",
            field="processors.before",
        )
    if collection.form == "questions":
        questions = Questions(collection, source, model, spans or SpansSpec(), base_dir or Path.cwd())
        questions.inputs(np.arange(1))
        return questions
    named = (
        source.named_classes(Path(model.path)) if collection.form == "bytes" and collection.classes else None
    )
    labels = usable_labels(collection.labels, model, _FIELD)
    if labels is not None and collection.classes and named is None:
        others = why_others(
            collection.name,
            collection.classes,
            ModelClasses.of(source, model.name, classes_scored(model.outputs)),
            by_name=collection.by_name,
            listed=collection.users and not collection.by_name,
        )
        if others and not collection.targets:
            raise InputError(others, field=_FIELD)
        if others:
            # Numbers, pictures or boxes are held to targets, whatever the classes are: these alone are left out.
            collection = replace(collection, labels=None, classes=())
    _require_whole(collection, source, model)
    characters = source.characters(Path(model.path))
    if characters is not None and collection.written and collection.labels is not None:
        written = np.array(collection.classes, dtype=np.str_)[collection.labels]
        collection = replace(collection, targets={**collection.targets, "texts": written})
    dataset = Fitted(collection, source, model, before, characters, named)
    first = dataset.inputs(np.arange(1))
    for spec in model.inputs:
        shape = first[spec.name].shape[1:]
        if len(shape) != len(spec.shape) or any(
            want not in (-1, size) for want, size in zip(spec.shape, shape, strict=True)
        ):
            raise InputError(
                f"input {spec.name} of {collection.name} has shape {list(shape)}, {model.name} takes "
                f"{list(spec.shape)}",
                field=_FIELD,
            )
    return dataset


def in_frame(boxes: Array, sizes: NDArray[np.int64], width: int, height: int) -> Array:
    """Boxes n x m x 8 (``contracts.targets``) of pictures of these sizes as they lie in the model's input, into which
    each picture is squeezed. How far two boxes overlap is the same in both; areas stay those of the picture."""
    across, down = width / sizes[:, 0, None], height / sizes[:, 1, None]
    framed: Array = boxes.copy()
    framed[:, :, [1, 3]] *= across[..., None]
    framed[:, :, [2, 4]] *= down[..., None]
    framed[:, :, 7] /= across * down
    return framed


def _require_whole(collection: Collection, source: ModelSource, model: ModelArtifact) -> None:
    """InputError where the middle part that the model takes would lack something that the labels are of."""
    if collection.whole is None:
        return
    width, height = collection.whole
    shape = image_shape(source, _only(model, "images"))
    if len(shape) != 3 or -1 in shape:
        return  # which is no image, and is said where its inputs are made
    rows, columns = shape[1:] if shape[0] in (1, 3) else shape[:2]
    if abs(columns / rows / (width / height) - 1) > _MOST_CUT_RATIO:
        raise InputError(
            f"pictures of {collection.name} are {width} x {height}, {model.name} takes {columns} x {rows}, and only "
            f"their middle part of that shape: the rest of each word would be cut off. Take a model whose pictures are "
            f"{width / height:.3g} times as wide as high",
            field=_FIELD,
        )


def image_shape(source: ModelSource, spec: TensorSpec) -> tuple[int, ...]:
    """The input's shape; a height and width that it leaves open are those that the model is known to be given."""
    shape = spec.shape
    if len(shape) != 3 or source.picture_size is None:
        return shape
    first = 1 if shape[0] in (1, 3) else 0
    known = {first + at: size for at, size in enumerate(source.picture_size)}
    return tuple(known.get(at, size) if size == -1 else size for at, size in enumerate(shape))


def _only(model: ModelArtifact, what: str) -> TensorSpec:
    if len(model.inputs) != 1:
        names = ", ".join(spec.name for spec in model.inputs)
        raise InputError(f"{model.name} takes {names}; {what} are one input", field=_FIELD)
    return model.inputs[0]


def _grey(images: NDArray[np.float32], source: ModelSource, model: ModelArtifact) -> Arrays:
    """Resized as the digits are, copied to each colour, normalised as the model wants pixels."""
    spec = _only(model, "images")
    shape = spec.shape
    if spec.dtype not in ("float32", "float64", "float16") or -1 in shape or not 1 <= len(shape) <= 3:
        raise InputError(
            f"{model.name} takes {spec.name} {spec.dtype}{list(shape)}, which is no image", field=_FIELD
        )
    if len(shape) == 3 and shape[0] in (1, 3):
        fitting = digits.fit(images, shape)
    elif len(shape) == 3 and shape[-1] in (1, 3):
        grey = digits.fit(images, shape[:2])[..., None]
        fitting = np.ascontiguousarray(np.broadcast_to(grey, (len(images), *shape)))
    elif len(shape) == 3:
        raise InputError(f"{model.name} takes {list(shape)}, which is no image", field=_FIELD)
    else:
        fitting = digits.fit(images, shape)
    mean, std = source.pixels
    if (mean, std) != (0.0, 255.0):
        fitting = (fitting * np.float32(255) - np.float32(mean)) / np.float32(std)
    return {spec.name: fitting.astype(spec.dtype, copy=False)}


def image_settings(source: ModelSource, model: ModelArtifact) -> dict[str, Any]:
    """The settings of the processor ``image`` by which files of pictures become that model's inputs; InputError where
    it takes none."""
    spec = _only(model, "images")
    shape = image_shape(source, spec)
    settings = pictures.image_settings(shape, source.pixels, source.colour_order)
    if settings is None:
        raise InputError(
            f"{model.name} takes {spec.name} {spec.dtype}{list(shape)}, which is no image", field=_FIELD
        )
    return settings


def _pictures(files: list[bytes], source: ModelSource, model: ModelArtifact) -> Arrays:
    """Decoded, the middle of the wanted shape resized bilinearly, normalised as the model wants pixels."""
    from inferbench_tasks.processors.image import Image

    image = Image(**image_settings(source, model))
    spec = model.inputs[0]
    return {spec.name: image(files).astype(spec.dtype, copy=False)}


def _scenes(files: list[bytes], source: ModelSource, model: ModelArtifact) -> Arrays:
    """Decoded, the whole of each resized bilinearly into the wanted shape, normalised as the model wants pixels."""
    from inferbench_tasks.processors.image import Image

    image = Image(**image_settings(source, model), squeezed=True)
    spec = model.inputs[0]
    return {spec.name: image(files).astype(spec.dtype, copy=False)}


def _texts(texts: list[str], source: ModelSource, model: ModelArtifact) -> Arrays:
    encoded = source.encode(texts)
    if encoded is None:
        raise InputError(
            f"{model.name} takes no texts here: nothing is known that makes its inputs of them; give "
            f"{{dataset: arrays, path: FILE.npz}}",
            field=_FIELD,
        )
    return encoded


def _files(contents: list[bytes], source: ModelSource, model: ModelArtifact) -> Arrays:
    inputs = source.file_inputs(contents)
    if inputs is None:
        raise InputError(
            f"{model.name} takes no whole files here: nothing is known that makes its inputs of them; make them "
            f"yourself and give {{dataset: arrays, path: FILE.npz}}",
            field=_FIELD,
        )
    return inputs


def _tensors(arrays: Arrays, source: ModelSource, model: ModelArtifact) -> Arrays:
    if arrays.keys() == {""}:  # columns of numbers have no input's name
        arrays = {_only(model, "columns of numbers").name: arrays[""]}
    specs = {spec.name: spec for spec in model.inputs}
    if arrays.keys() != specs.keys():
        raise InputError(
            f"the arrays are {', '.join(sorted(arrays))}; {model.name} takes {', '.join(specs)}", field=_FIELD
        )
    return {name: _typed(arrays[name], spec) for name, spec in specs.items()}


def _typed(array: Array, spec: TensorSpec) -> Array:
    if not np.can_cast(array.dtype, spec.dtype, "same_kind"):
        raise InputError(f"array {spec.name} is {array.dtype}, the model takes {spec.dtype}", field=_FIELD)
    with np.errstate(over="ignore"):
        typed: Array = array.astype(spec.dtype, copy=False)
    if typed.dtype.kind == "f":
        lost = bool((np.isinf(typed) & np.isfinite(array)).any())
    else:
        lost = typed.dtype.kind in "iu" and not np.array_equal(typed, array)
    if lost:
        raise InputError(f"array {spec.name} has values that {spec.dtype} can't hold", field=_FIELD)
    return typed


_FORMS: dict[str, Any] = {
    "grey": _grey,
    "pictures": _pictures,
    "scenes": _scenes,
    "texts": _texts,
    "tensors": _tensors,
    "bytes": _files,
}
