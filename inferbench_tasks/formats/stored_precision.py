"""In which precision a model file keeps its weights: that of most of them, whatever its name says.

As of language models, it is of the weights: how a runtime computes with them is its own choice
(``computed_precision``). Whole numbers are weights only where they stand for others, by scales: masks and tables of
them are what they say.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from inferbench_tasks.formats.macs import all_nodes, attribute, bodies, operator

FULL = "fp32"
#: Of a file whose weights are whole numbers for the most part that nobody says the scales of.
UNKNOWN = "unknown"
#: The types of tensors as PyTorch and TensorFlow call them -> what a model of such weights is called.
_OF_DTYPE = {
    "float32": FULL, "float64": FULL, "complex64": FULL, "complex128": FULL, "float16": "fp16", "bfloat16": "bf16",
    "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "float8_e4m3fnuz": "fp8", "float8_e5m2fnuz": "fp8",
    "qint8": "int8", "quint8": "int8", "quint4x2": "int4", "quint2x4": "int2",
}  # fmt: skip
#: Plain ones in which weights are kept, too -> how many of four bits may be in each; sizes and indices are in others.
_WHOLE = {"int8": 2, "uint8": 2, "int32": 8, "uint32": 8}
#: ONNX's types of tensors -> what a model of such weights is called; sizes and indices are in others.
_CALLED = {
    "FLOAT": FULL, "DOUBLE": FULL, "FLOAT16": "fp16", "BFLOAT16": "bf16",
    "INT8": "int8", "UINT8": "int8", "INT4": "int4", "UINT4": "int4", "INT2": "int2", "UINT2": "int2",
    "FLOAT8E4M3FN": "fp8", "FLOAT8E4M3FNUZ": "fp8", "FLOAT8E5M2": "fp8", "FLOAT8E5M2FNUZ": "fp8", "FLOAT4E2M1": "fp4",
}  # fmt: skip
#: Of whole numbers, or nearly: nothing is made of them that is not so already.
QUANTISED = ("int8", "int4", "int2", "fp8", "fp4", "nf4")
#: GGUF's names of what is not quantised -> what a model of such weights is called elsewhere.
_OF_GGUF = {"f32": FULL, "f16": "fp16"}
#: Operators of ONNX Runtime whose weights are several numbers to a byte -> which input these are.
_PACKED = {
    "com.microsoft.MatMulNBits": 1,
    "com.microsoft.MatMulBnb4": 1,
    "com.microsoft.GatherBlockQuantized": 0,
}
#: Operators that take numbers which stand for others, by scales.
_BY_SCALES = re.compile(
    r"(DequantizeLinear|QLinear\w+|\w+Integer)"
    r"|com\.microsoft\.(DequantizeLinear|Q[A-Z]\w+|DynamicQuantize\w+|MatMulIntegerToFloat|\w+NBits|MatMulBnb4|\w+BlockQuantized)"
)
#: Operators that give what they take, in other places.
_MOVING = (
    "Identity",
    "Transpose",
    "Reshape",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Slice",
    "Split",
    "Concat",
    "Gather",
)
#: What a mask may pass until it is added; these by constants alone.
_BY_CONSTANTS = ("Add", "Sum", "Sub", "Mul", "Div", "Min", "Max", "Clip", "Where", "Gather")
_PASSED = {*_MOVING, *_BY_CONSTANTS, "Cast", "Expand", "Tile", "Neg"}
#: What adds it to what was computed, or bounds that by it.
_ADDING = ("Add", "Sum", "Sub", "Min", "Max", "com.microsoft.BiasSoftmax")
#: Operators whose inputs from here on are masks, biases of scores, and earlier keys and values.
_ATTENTIONS = ("Attention", "MultiHeadAttention", "GroupQueryAttention")
_FIRST_MASK = 3


def called(precision: str | None) -> str | None:
    """A precision by the name that all formats share."""
    return _OF_GGUF.get(precision or "", precision)


def most(counts: Mapping[str, int]) -> str:
    """The precision that most weights have; full where there are none."""
    return max(counts, key=lambda name: counts[name]) if any(counts.values()) else FULL


def of_dtypes(counts: Mapping[str, int]) -> str:
    """The precision of weights by how many numbers there are of each type; ``UNKNOWN`` where plain whole numbers,
    or those of four bits that may be packed in them, are more than all others: weights whose scales lie elsewhere, or
    tables.
    """
    named: Counter[str] = Counter()
    for dtype, count in counts.items():
        if (kind := _OF_DTYPE.get(dtype)) is not None:
            named[kind] += count
    whole = sum(packed * counts.get(dtype, 0) for dtype, packed in _WHOLE.items())
    return UNKNOWN if whole > named.total() else most(named)


def onnx_precision(model: Any) -> str:
    """Of an ``onnx.ModelProto``, whose weights may lie elsewhere: only their types and shapes are read.

    Weights that the graph itself quantises before they are used, as training for int8 leaves them, are int8.
    """
    from onnx import TensorProto

    if model.functions:  # in a function weights have the names of its inputs
        import onnx.inliner

        model = onnx.inliner.inline_local_functions(model)
    nodes = all_nodes(model.graph)
    graphs = [model.graph, *(body for node in nodes for body in bodies(node))]
    tensors = list(_tensors(graphs, nodes))
    by_scales = _by_scales(nodes, {name for name, _ in tensors})
    rounded = {n.input[0] for n in nodes if n.op_type == "QuantizeLinear"}
    packed = {n.input[_PACKED[operator(n)]]: _packed(n) for n in nodes if operator(n) in _PACKED}
    counts: Counter[str] = Counter()
    for name, tensor in tensors:
        kind = _CALLED.get(TensorProto.DataType.Name(tensor.data_type))
        if kind is None or not tensor.dims or (kind.startswith("int") and name not in by_scales):
            continue
        count = math.prod(tensor.dims)
        if name in packed:
            in_bytes = kind == "int8"  # tensors of 4 bits are counted as such
            kind, bits = packed[name]
            count = count * 8 // bits if in_bytes else count
        elif name in rounded and kind == FULL:
            kind = "int8"
        counts[kind] += count
    return most(counts)


def _packed(node: Any) -> tuple[str, int]:
    """What the numbers of such an operator are called, and how many bits each has."""
    if operator(node) == "com.microsoft.MatMulBnb4":
        return "nf4" if attribute(node, "quant_type", 1) else "fp4", 4
    bits = int(attribute(node, "bits", 4))
    return f"int{bits}", bits


def _by_scales(nodes: list[Any], constants: set[str]) -> set[str]:
    """What comes, as it is, to operators that take numbers by scales; or is cast, and then multiplied by constants,
    less a zero point where there is one. A mask is, too, ``(mask - 1) * 1e4``, but is added to what was computed.
    """
    takers: dict[str, list[tuple[Any, int]]] = defaultdict(list)
    for n in nodes:
        for place, name in enumerate(n.input):
            takers[name].append((n, place))
    names = {name for n in nodes if _BY_SCALES.fullmatch(operator(n)) for name in n.input}
    cast = {n.output[0]: n.input[0] for n in nodes if operator(n) == "Cast"}
    fixed = constants | {output for output, taken in cast.items() if taken in constants}
    folded = _folded(nodes, constants)
    for n in nodes:
        # A mask that is taken from a constant is no zero point.
        scaled = operator(n) == "Mul" or (operator(n) == "Sub" and n.input[0] in cast)
        if scaled and fixed.issuperset(n.input) and not _only_added(n.output[0], takers, folded):
            names |= {cast[name] for name in n.input if name in cast}
    moving = [n for n in nodes if operator(n) in _MOVING]
    while more := {name for n in moving if names.intersection(n.output) for name in n.input} - names:
        names |= more
    return names


def _folded(nodes: list[Any], constants: set[str]) -> set[str]:
    """Constants, what is made of these alone, and the name of an input that is left out."""
    folded = constants | {""}
    for n in nodes:
        if n.input and folded.issuperset(n.input) and not bodies(n):
            folded.update(n.output)
    return folded


def _only_added(name: str, takers: Mapping[str, list[tuple[Any, int]]], folded: set[str]) -> bool:
    """Whether what was made of a constant comes, in other places or by other constants, to nothing but sums with, and
    bounds of, what was computed, and attentions' masks. What is looked up in it by what was computed is weights."""
    left, seen, ends = [name], {name}, []
    while left:
        for node, place in takers.get(name := left.pop(), ()):
            kind, alone = operator(node), folded.issuperset({*node.input} - {name})
            if kind in _PASSED and (alone or kind not in _BY_CONSTANTS):
                left += [output for output in node.output if output not in seen]
                seen.update(node.output)
            else:
                ends.append(kind in _ADDING or (node.op_type in _ATTENTIONS and place >= _FIRST_MASK))
    return bool(ends) and all(ends)


def _tensors(graphs: list[Any], nodes: list[Any]) -> Iterator[tuple[str, Any]]:
    """Weights by name: initialisers and constants."""
    for graph in graphs:
        yield from ((tensor.name, tensor) for tensor in graph.initializer)
        yield from ((sparse.values.name, sparse.values) for sparse in graph.sparse_initializer)
    for node in nodes:
        if operator(node) == "Constant" and (value := attribute(node, "value", None)) is not None:
            yield node.output[0], value
