"""Which of OpenVINO's nodes ran which of oneDNN's primitives: nobody tells, but order, kind and size do."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from inferbench_tasks.servers.sources.onednn import Primitive

#: What nodes of a type may run as. Each runs one at most: a run with more is not understood.
_RUN_AS = {
    "Convolution": ("convolution",),
    "GroupConvolution": ("convolution",),
    "Deconvolution": ("deconvolution",),
    "ConvolutionBackpropData": ("deconvolution",),
    "GroupConvolutionBackpropData": ("deconvolution",),
    "Reorder": ("reorder",),
    "MaxPool": ("pooling",),
    "AvgPool": ("pooling",),
    "FullyConnected": ("inner_product", "matmul"),
    "MatMul": ("matmul",),
    "Softmax": ("softmax",),
}
#: Types that run as nothing else, so that one without a primitive shows that something was mistaken.
_ALWAYS = ("Convolution", "GroupConvolution")


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Node:
    """A node as it ran; ``shape``: of what it gives, -1 where it is free, None where it is not known."""

    type: str
    shape: tuple[int, ...] | None


def add_kernels(layers: Sequence[dict[str, Any]], primitives: Sequence[Primitive]) -> None:
    """Put inside each layer its node's kernel, which is all of it, and inside that the primitive that it ran.

    As nodes' times are means, so are primitives'; each begins where its node does.
    """
    nodes = [Node(layer["type"], _shape(layer)) for layer in layers]
    places = matched(nodes, primitives)
    if places is not None and not _fit(layers, primitives, places):
        places = None
    if places is None:
        log.warning("oneDNN's primitives do not fit OpenVINO's nodes: kernels are told by their names alone")
    for at, layer in enumerate(layers):
        span = {name: layer[name] for name in ("type", "start_ns", "end_ns")}
        attributes = {"library": "OpenVINO", "mean_of_runs": layer["attributes"]["mean_of_runs"]}
        kernel = {"name": layer["attributes"]["kernel"], **span, "attributes": attributes, "inside": []}
        if places is not None and at in places:
            found = primitives[places[at]]
            kernel["inside"].append(
                {
                    "name": found.name,
                    "type": found.type,
                    "start_ns": layer["start_ns"],
                    "end_ns": layer["start_ns"] + found.end_ns - found.start_ns,
                    "attributes": found.attributes | {"mean_of_runs": attributes["mean_of_runs"]},
                    "inside": [],
                }
            )
        layer["inside"] = [kernel]


def mean_of(runs: Sequence[Sequence[Primitive]]) -> list[Primitive]:
    """The primitives of all these runs with the means of their times; [] where the runs did not run the same ones."""

    def ran(run: Sequence[Primitive]) -> list[tuple[str, str, Any]]:
        return [(each.type, each.name, each.attributes["problem"]) for each in run]

    if any(ran(run) != ran(runs[0]) for run in runs[1:]):
        return []
    means = (round(fmean(each.end_ns - each.start_ns for each in same)) for same in zip(*runs, strict=True))
    return [replace(first, end_ns=first.start_ns + mean) for first, mean in zip(runs[0], means, strict=True)]


def _shape(layer: dict[str, Any]) -> tuple[int, ...] | None:
    shapes = layer["attributes"].get("output_shapes")
    return tuple(shapes[0]) if shapes else None


def matched(nodes: Sequence[Node], primitives: Sequence[Primitive]) -> dict[int, int] | None:
    """Place among ``nodes`` -> place among ``primitives``, both in the order in which they ran; None if not all fit.

    A primitive may be that of any node of its kind that gives as many values, in this order. Laid to the first nodes
    that they may be of and then to the last ones, those that come to the same node can be of no other: only these are
    told.
    """
    first = _laid(nodes, primitives)
    last = _laid(nodes[::-1], primitives[::-1])
    if first is None or last is None:
        return None
    backwards = [len(nodes) - 1 - at for at in reversed(last)]
    found = {
        at: number for number, (at, other) in enumerate(zip(first, backwards, strict=True)) if at == other
    }
    lacking = any(node.type in _ALWAYS and place not in found for place, node in enumerate(nodes))
    return None if lacking else found


def _laid(nodes: Sequence[Node], primitives: Sequence[Primitive]) -> list[int] | None:
    """The place of each primitive's node, the first that it may be of behind the one before; None if not all fit."""
    places: list[int] = []
    at = 0
    for primitive in primitives:
        while at < len(nodes) and not _may_be(nodes[at], primitive):
            at += 1
        if at == len(nodes):
            return None
        places.append(at)
        at += 1
    return places


def _fit(
    layers: Sequence[dict[str, Any]], primitives: Sequence[Primitive], places: Mapping[int, int]
) -> bool:
    """Whether no primitive takes longer than its node, whose mean may be off by ``error_us``: else order and size
    misled."""
    return all(
        primitives[number].end_ns - primitives[number].start_ns
        <= layers[at]["end_ns"] - layers[at]["start_ns"] + 1000 * layers[at]["attributes"].get("error_us", 0)
        for at, number in places.items()
    )


def _may_be(node: Node, primitive: Primitive) -> bool:
    if primitive.type not in _RUN_AS.get(node.type, ()):
        return False
    if node.shape is None or primitive.results is None:
        return True
    known = math.prod(size for size in node.shape if size >= 0)
    free = any(size < 0 for size in node.shape)
    return primitive.results % known == 0 if free and known else primitive.results == known
