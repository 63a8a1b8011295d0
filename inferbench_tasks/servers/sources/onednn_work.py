"""FLOPs and bytes of oneDNN's primitives, from the problems that its verbose mode describes.

The same rule as for whole models (``formats.costs``): a multiply-add is 2 FLOP, only what multiplies matrices is
counted, padding too; each operand is read once and each result written once. What is not sure is None, never a guess.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

_SIZES = {"f64": 8, "f32": 4, "s32": 4, "f16": 2, "bf16": 2, "s8": 1, "u8": 1, "f8_e5m2": 1, "f8_e4m3": 1}
_NAMED = re.compile(r"([a-z]+)(\d+)")
#: What is done to the result before it is written: ``attr-post-ops:sum+eltwise_relu``.
_FUSED = re.compile(r"post-ops:(\S+)")
#: Between two of these; the plus of a number (``eltwise_clip:0:1e+06``) is none.
_NEXT = re.compile(r"\+(?=[a-z])")
#: The type that is calculated in where that may be less than the weights': ``attr-fpmath:bf16``.
_LOWERED = re.compile(r"fpmath:(?!strict)(\w+)")
#: Kinds that move data and multiply no matrices.
_WITHOUT = frozenset(
    ("batch_normalization", "binary", "concat", "eltwise", "group_normalization", "layer_normalization", "lrn",
     "pooling", "prelu", "reduction", "reorder", "resampling", "shuffle", "softmax", "sum")
)  # fmt: skip
#: Those whose problem is the size of what is read and of what is written alike: ``1x64x56x56``.
_ALIKE = frozenset(("eltwise", "reorder", "softmax"))


@dataclass(frozen=True)
class Work:
    """None: not known. ``data_type``: of the weights that are multiplied, or what these are calculated as
    (``fpmath``)."""

    flops: int | None
    bytes: int | None
    data_type: str | None = None


def work_of(kind: str, direction: str, memory: str, attributes: str, problem: str) -> Work:
    """What a primitive does; the texts are those of its line."""
    try:
        types = _types(memory)
        flops, values = _counted(kind, types, problem)
    except (KeyError, ValueError, IndexError, ZeroDivisionError):  # a form that is not known here
        return Work(0 if kind in _WITHOUT else None, None)
    lowered = _LOWERED.search(attributes)
    work = _moved(Work(flops, None, lowered[1] if lowered else types.get("wei")), types, values, attributes)
    return replace(work, bytes=None) if direction.startswith("backward") else work


def _types(memory: str) -> dict[str, str]:
    """The data type of each operand; kinds of one tensor have ``data`` for what is read and what is written."""
    types = {name: type_ for name, type_, *_ in (each.split(":") for each in memory.split())}
    if "data" in types:
        types = {"src": types["data"], "dst": types["data"], **types}
    return types


def _moved(work: Work, types: dict[str, str], values: dict[str, int] | None, attributes: str) -> Work:
    """The work with its bytes, where these are sure."""
    fused = _FUSED.search(attributes)
    after = [each.partition(":")[0] for each in _NEXT.split(fused[1])] if fused else []
    if not all(each == "sum" or each.startswith("eltwise") for each in after):
        # another operand, or a convolution of its own
        return replace(work, flops=None if work.flops else work.flops)
    if values is None or "ws" in types:
        return work
    if "sum" in after:  # added to what is there already, which is read for it
        values = {**values, "sum": values["dst"]}
        types = {**types, "sum": types.get("dst", "")}
    try:
        moved = sum(count * _SIZES[types[name]] for name, count in values.items())
    except KeyError:  # a type of half a byte, or an operand that the line does not describe
        return work
    return replace(work, bytes=moved)


def _counted(kind: str, types: Mapping[str, str], problem: str) -> tuple[int | None, dict[str, int] | None]:
    """FLOPs, and the number of values of each operand; KeyError, ValueError for what is not understood."""
    if kind in _ALIKE:
        count = math.prod(_sizes(problem))
        return 0, {"src": count, "dst": count}
    if kind == "matmul":
        return _matmul(types, problem)
    size = {name: int(value) for name, value in _NAMED.findall(problem.replace("_", ""))}
    if kind == "pooling":
        maps = size["mb"] * size["ic"]
        return 0, {"src": maps * _pixels(size, "i"), "dst": maps * _pixels(size, "o")}
    if kind == "inner_product":
        within = size["ic"] * _pixels(size, "i")
        values = {"src": size["mb"] * within, "wei": size["oc"] * within, "dst": size["mb"] * size["oc"]}
        return 2 * size["mb"] * within * size["oc"], _with_bias(values, types, size["oc"])
    if kind in ("convolution", "deconvolution"):
        weights = size["oc"] * size["ic"] // size.get("g", 1) * _pixels(size, "k")
        src, dst = (size["mb"] * size[f"{side}c"] * _pixels(size, side) for side in ("i", "o"))
        # Each value of the output is a sum over the kernel's; of a deconvolution each value of the input is spread.
        moving, channels = (dst, size["oc"]) if kind == "convolution" else (src, size["ic"])
        values = _with_bias({"src": src, "wei": weights, "dst": dst}, types, size["oc"])
        return 2 * moving * weights // channels, values
    return (0 if kind in _WITHOUT else None), None


def _matmul(types: Mapping[str, str], problem: str) -> tuple[int, dict[str, int]]:
    """``4x2x8:4x8x16``: both operands; an axis of 1 goes with any."""
    left, right = (_sizes(side) for side in problem.split(":")[:2])
    rows, common, columns = left[-2], left[-1], right[-1]
    if right[-2] != common or len(left) != len(right):
        raise ValueError(problem)
    dst = math.prod(map(max, left[:-2], right[:-2])) * rows * columns
    values = {"src": math.prod(left), "wei": math.prod(right), "dst": dst}
    return 2 * dst * common, _with_bias(values, types, columns)


def _with_bias(values: dict[str, int], types: Mapping[str, str], channels: int) -> dict[str, int]:
    return values | {"bia": channels} if types.get("bia", "undef") != "undef" else values


def _pixels(size: Mapping[str, int], side: str) -> int:
    """Of an input (i), an output (o) or a kernel (k), which have one to three axes, or none."""
    return math.prod(size.get(f"{side}{axis}", 1) for axis in "dhw")


def _sizes(text: str) -> list[int]:
    return [int(size) for size in text.split("x")]
