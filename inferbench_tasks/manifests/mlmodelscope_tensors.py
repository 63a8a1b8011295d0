"""Inputs and outputs of MLModelScope's manifests: names, types, shapes and what is done to pictures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from inferbench_tasks.manifests.mlmodelscope_left import Imported
from inferbench_tasks.problem import FieldPath

#: Their words for where a tensor is in the model.
_LAYERS = ("input_layer", "layer_name", "layer", "probabilities_layer")
#: Their layouts, in which the batch is left out.
_LAYOUTS = {"CHW": "NCHW", "HWC": "NHWC"}
_OF_PICTURES = ("mean", "scale", "color_mode", "crop_ratio", "crop_method")
_DTYPE = re.compile(r"u?int(8|16|32|64)|float(16|32|64)|bool|string")
_USED = frozenset({"element_type", "dimensions", "layout", *_LAYERS, *_OF_PICTURES})


def inputs_of(found: Imported) -> list[dict[str, Any]]:
    """Those whose name, type and shape are told; the others are listed."""
    tensors = []
    for at, each in enumerate(_list(found.file.data.get("inputs"))):
        path: FieldPath = ("inputs", at)
        if (tensor := _input(found, each, path)) is not None:
            tensors.append(tensor)
    # Inputs that are told in part would look like all that the model takes.
    return tensors if len(tensors) == len(_list(found.file.data.get("inputs"))) else []


def _input(found: Imported, each: Any, path: FieldPath) -> dict[str, Any] | None:
    words = each.get("parameters") if isinstance(each, Mapping) else None
    if not isinstance(words, Mapping):
        found.leave(path, "it has no parameters: what the model takes is told by making it")
        return None
    name = _layer(words)
    dtype = _dtype(words.get("element_type") or each.get("element_type"))
    shape, layout = _shape(found, words, (*path, "parameters"))
    if name is None or dtype is None or shape is None:
        lacking = [
            what
            for what, value in (("the layer's name", name), ("element_type", dtype), ("dimensions", shape))
            if value is None
        ]
        found.leave(path, f"not told: {', '.join(lacking)}; what the model takes is told by making it")
        return None
    for key in words:
        if key not in _USED:
            found.leave((*path, "parameters", key), "there is nothing like it in our manifests")
    steps = _steps(found, each, words, shape, layout, (*path, "parameters"))
    return {
        "name": name,
        "dtype": dtype,
        "shape": shape,
        **({"layout": layout} if layout else {}),
        **({"steps": steps} if steps else {}),
    }


def _layer(words: Mapping[str, Any]) -> str | None:
    """The tensor's name; None where only its place among the tensors is told."""
    value = next((words[key] for key in _LAYERS if words.get(key) is not None), None)
    return value if isinstance(value, str) and value and not value.isdigit() else None


def _dtype(value: Any) -> str | None:
    """numpy's name of a type, if it is one: there are manifests with ``float32s``."""
    return value if isinstance(value, str) and _DTYPE.fullmatch(value) else None


def _shape(found: Imported, words: Mapping[str, Any], path: FieldPath) -> tuple[list[int] | None, str | None]:
    """Without the batch, in the order of the layout; their dimensions of pictures are channels first, whatever that."""
    sizes = words.get("dimensions")
    if not isinstance(sizes, list) or not sizes or not all(isinstance(size, int) for size in sizes):
        return None, None
    layout = _LAYOUTS.get(str(words.get("layout") or "").upper())
    if layout is not None and len(sizes) == 4:
        sizes = sizes[1:]
    if layout == "NHWC" and len(sizes) == 3 and sizes[0] in (1, 3) and sizes[2] not in (1, 3):
        sizes = [*sizes[1:], sizes[0]]
        found.leave((*path, "dimensions"), f"channels first, though the layout is HWC: taken as {sizes}")
    return list(sizes), layout


def _steps(
    found: Imported,
    each: Mapping[str, Any],
    words: Mapping[str, Any],
    shape: list[int],
    layout: str | None,
    path: FieldPath,
) -> list[dict[str, Any]]:
    """What becomes of a picture, as our processor says it; none where it can't."""
    if str(each.get("type", "")).lower() != "image" or layout is None or len(shape) != 3:
        return []
    if str(words.get("color_mode") or "RGB").upper() != "RGB":
        found.leave((*path, "color_mode"), "our processor image gives RGB only: the input has no steps")
        return []
    mean, scale = words.get("mean", 0), words.get("scale", 1)
    if not _numbers(mean) or not _numbers(scale):
        found.leave((*path, "mean"), "mean and scale must be numbers: the input has no steps")
        return []
    for key in ("crop_ratio", "crop_method"):
        if words.get(key) is not None:
            found.leave((*path, key), "our processor cuts out the middle")
    height, width, channels = (shape[1], shape[2], shape[0]) if layout == "NCHW" else shape
    settings = {"size": [height, width], "mean": mean, "std": scale, "layout": layout.lower()}
    return [{"kind": "image", "settings": settings | ({"channels": 1} if channels == 1 else {})}]


def _numbers(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(
        isinstance(each, int | float) and not isinstance(each, bool) for each in values
    )


def outputs_of(found: Imported) -> list[dict[str, Any]]:
    """Scores of classes, whose one axis is told by their task; shapes of others are told by making the model."""
    key = "outputs" if "outputs" in found.file.data else "output"
    tensors = []
    for at, each in enumerate(outputs := _list(found.file.data.get(key))):
        path: FieldPath = (key, at) if isinstance(found.file.data.get(key), list) else (key,)
        words = each.get("parameters") if isinstance(each, Mapping) else None
        words = words if isinstance(words, Mapping) else {}
        for name in words:
            if name not in _USED:
                found.leave(
                    (*path, "parameters", name), _LATER.get(name, "there is nothing like it in our manifests")
                )
        layer, dtype = _layer(words), _dtype(words.get("element_type"))
        scores = isinstance(each, Mapping) and str(each.get("type", "")).lower() == "classification"
        if not scores or layer is None or dtype is None:
            found.leave(path, "its name or shape is not told: what the model gives is told by making it")
            continue
        tensors.append({"name": layer, "dtype": dtype, "shape": [-1]})
    return tensors if len(tensors) == len(outputs) else []


_LATER = {
    "features_url": "the names of the classes: put them into a classes.txt beside the data that it is evaluated on",
    "features_checksum": "of the names of the classes",
}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
