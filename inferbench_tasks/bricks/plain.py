"""Networks and inputs that may be shown to anybody: what decides on the work is kept, every other number drawn anew.

Kept are operators, attributes, shapes, types, integers that choose (indices, axes, shapes; see ``choosing.py``), a few
others, exponents, bounds, masks. More other integers are drawn from the least to the greatest of them.
Weights are noise that has nothing of the original ones but whether all are above zero; where a layer samples, and
boxes, are such as its operator takes. One number by itself (a scale of a product), the range of inputs that an
operator's time depends on and how far boxes reach are rounded to powers of four. What a model has in its attributes or
texts can't be drawn anew: such a model is refused.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from inferbench_tasks.bricks.attributes import since_version
from inferbench_tasks.bricks.brick import Brick
from inferbench_tasks.bricks.choosing import (
    MOST_SETTINGS,
    are_own_integers,
    chooses,
    drawn_integers,
    is_own_weight,
)
from inferbench_tasks.bricks.constants import PARAMETRISED, QUANTISED, SAMPLED, in_order
from inferbench_tasks.bricks.keys import VALUE_SENSITIVE
from inferbench_tasks.bricks.layers import LayerGraph
from inferbench_tasks.bricks.masks import MASKED, floats, has_mask, masked_or_infinite
from inferbench_tasks.bricks.own_texts import refuse_own_texts
from inferbench_tasks.bricks.places import DRAWN, drawn
from inferbench_tasks.bricks.records import RANGE_BASE, SHARE_STEP, Record
from inferbench_tasks.contracts.arrays import Array, Arrays
from inferbench_tasks.errors import InputError

#: (operator, place of the input) whose single number decides on the work: special exponents, bounds, paddings.
_DECIDING = {
    ("Pow", 1),
    ("Clip", 1),
    ("Clip", 2),
    ("Pad", 2),
    ("Range", 0),
    ("Range", 1),
    ("Range", 2),
}
#: They compute with integers: which ones makes no difference, and those of a quantised model tell of its weights.
_COMPUTES = QUANTISED | {"Cast", "Add", "Sub", "Mul", "Relu", "MaxPool", "Neg", "Abs", "Min", "Max"}
#: Where a truth value decides what is run, or how much of it.
_CONTROLS = {"If", "Loop", "Scan", "NonZero", "Compress"}
#: The least power of four that masks where it is below zero.
_LEAST_MASKING = math.ceil(math.log(-MASKED, RANGE_BASE))
#: The exporter's versions would tell which bricks are of one model.
_IR_VERSION, _LEAST_OPSET = 10, 7
_OWN_NUMBERS = "ai.onnx.ml"


def make_plain(model: ir.Model, rng: np.random.Generator) -> None:
    """Draw a brick's constants anew, in place, and forget by which versions it was exported. InputError where an
    operator has the model's own numbers or texts in its attributes, or a constant is a text."""
    graphs = [model.graph, *model.graph.subgraphs()]
    for graph in graphs:
        for node in graph:
            refuse_own_numbers(node)
            refuse_own_texts(node)
    forget_sizes(model)
    for graph in graphs:
        for value in in_order(graph.initializers.values()):
            tensor = value.const_value
            if tensor is None:
                continue
            uses = {(node.op_type, place) for node, place in value.uses()}
            if are_own_integers(tensor, uses):
                anew = None if chooses(value, model.graph) else drawn_integers(tensor.numpy(), rng)
            else:
                anew = _constant(tensor, uses, rng)
            if anew is not None:
                value.const_value = ir.tensor(anew, dtype=tensor.dtype, name=value.name)
    plain_versions(model)


def plain_feeds(graph: LayerGraph, brick: Brick, seed: int = 0) -> Arrays:
    """Inputs for the brick's plain network, by position; see the module."""
    rng = np.random.default_rng(seed)
    takers = {
        id(v): {layer.node.op_type for layer in brick.layers if v in layer.inputs} for v in brick.inputs
    }
    sensitive = any(layer.node.op_type in VALUE_SENSITIVE for layer in brick.layers)
    return {
        f"x{index}": _values(graph.records[value.name or ""], takers[id(value)], sensitive, rng)
        for index, value in enumerate(brick.inputs)
    }


def coarse(value: float, dtype: Any = np.float32) -> float:
    """The power of four next to a number, with its sign, in a numpy type: what masks masks still, and what is finite
    stays so; 0, NaN and infinities as they are."""
    if value == 0 or not math.isfinite(value):
        return value
    exponent = round(math.log(abs(value), RANGE_BASE))
    if value <= MASKED:
        exponent = max(exponent, _LEAST_MASKING)
    with np.errstate(over="ignore"):
        power = np.power(RANGE_BASE, exponent)
        fits = bool(np.isfinite(np.asarray(power).astype(dtype).astype(np.float64)))
    return math.copysign(float(power if fits else np.power(RANGE_BASE, exponent - 1)), value)


def coarse_mask(numbers: Array, dtype: Any) -> Array:
    """Of floats with a mask in them about what masks, where it does, and 0 elsewhere; for a numpy type."""
    where = masked_or_infinite(numbers)
    values, of_each = np.unique(numbers[where], return_inverse=True)
    kept = np.zeros_like(numbers)
    kept[where] = np.array([coarse(float(value), dtype) for value in values], numbers.dtype)[of_each]
    made: Array = kept.astype(dtype)
    return made


def _constant(tensor: ir.TensorProtocol, uses: set[tuple[str, int]], rng: np.random.Generator) -> Any:
    """What a constant is replaced by; None: it is kept."""
    shape, operators = tuple(int(size) for size in tensor.shape.numpy()), {name for name, _ in uses}
    if tensor.dtype == ir.DataType.STRING:
        raise InputError("a constant of the model is a text: what it says can't be drawn anew", field="model")
    if not tensor.dtype.is_floating_point():
        if not is_own_weight(tensor, uses):
            return None
        return noise(shape, tensor.numpy().dtype, rng)
    if places := uses & DRAWN.keys():
        return drawn(min(places), tensor.numpy(), rng)
    decides = tensor.size == 1 and uses & _DECIDING
    if (decides or operators & PARAMETRISED) and not uses & SAMPLED:
        return None
    original = tensor.numpy()
    numbers = floats(original)
    if tensor.size == 1:
        return np.full(shape, coarse(float(numbers.reshape(-1)[0]), original.dtype)).astype(original.dtype)
    if has_mask(numbers):
        return coarse_mask(numbers, original.dtype)
    # Above zero: variances, scales.
    return noise(shape, original.dtype, rng, positive=bool((numbers > 0).all()))


def noise(shape: tuple[int, ...], dtype: Any, rng: np.random.Generator, positive: bool = False) -> Array:
    """Weights of nobody, of a numpy type: such that layers in a row keep their numbers' size; ``positive``: around 1.
    Quantised ones take all of their type's range."""
    if np.dtype(dtype).name.startswith(("int", "uint", "bool")):  # numpy's, and those of four bits and fewer
        low, high = _integers(dtype)
        return rng.integers(low, high, shape, endpoint=True).astype(dtype)
    if positive:
        return rng.uniform(0.5, 1.5, shape).astype(dtype)
    spread = 1 / math.sqrt(max(1, _takes(shape)))
    return (rng.standard_normal(shape, dtype=np.float32) * np.float32(spread)).astype(dtype)


def _takes(shape: tuple[int, ...]) -> int:
    """About how many products one output is the sum of: so that layers in a row keep their numbers' size."""
    if len(shape) < 2:
        return 1
    return math.prod(shape[1:]) if len(shape) > 2 else max(shape)


def _values(record: Record, takers: set[str], sensitive: bool, rng: np.random.Generator) -> Array:
    if record.content is not None:
        return _chosen(record.content, takers, rng)
    spread = record.spread
    assert spread is not None
    if sensitive:
        low, high = (coarse(bound, record.dtype) for bound in (spread.low, spread.high))
        values = rng.normal((low + high) / 2, max((high - low) / 6, 1e-3), record.shape).clip(low, high)
        zeros = round(spread.zero_ratio / SHARE_STEP) * SHARE_STEP
        values[rng.random(record.shape) < zeros] = 0.0
    else:
        values = rng.standard_normal(record.shape)
        values = np.abs(values) if spread.low >= 0 else values
    if sensitive and spread.mask:
        bits = np.frombuffer(spread.mask, np.uint8)
        masked = np.unpackbits(bits, count=values.size).astype(bool).reshape(record.shape)
        values[masked] = coarse(spread.masked, record.dtype)
    return values.astype(record.dtype)


def _chosen(content: Array, takers: set[str], rng: np.random.Generator) -> Array:
    """Integers and truth values that choose what is done are kept, those that are computed with are not."""
    if content.dtype.kind in "OUS":
        raise InputError("the model takes texts, which can't be drawn anew", field="model")
    if content.dtype.kind == "b":
        if takers & _CONTROLS or content.size == 1:
            return content
        share = round(float(content.mean()) / SHARE_STEP) * SHARE_STEP
        return rng.random(content.shape) < share
    narrow = content.dtype.itemsize < 4
    if content.dtype.kind in "iu" and (narrow or takers <= _COMPUTES) and content.size > 1:
        low, high = _integers(content.dtype)
        return rng.integers(low, high, content.shape, endpoint=True).astype(content.dtype)
    return content


def _integers(dtype: Any) -> tuple[int, int]:
    """The range that quantised numbers are drawn from: all of a narrow type, some of a wide one."""
    try:
        info = np.iinfo(dtype)
    except ValueError:  # of ml_dtypes: four bits and fewer
        return 0, 1
    return (int(info.min), int(info.max)) if info.bits < 32 else (0, 100)


def refuse_own_numbers(node: ir.Node) -> None:
    """InputError where an operator has the model's own numbers or texts in its attributes."""
    long = [
        attribute.name
        for attribute in node.attributes.values()
        if (attribute.type.name.endswith("S") and attribute.type != ir.AttributeType.GRAPHS
            and len(attribute.value) > MOST_SETTINGS)
        or (attribute.type == ir.AttributeType.TENSOR and attribute.value.size > 1)
        or attribute.type in (ir.AttributeType.SPARSE_TENSOR, ir.AttributeType.SPARSE_TENSORS)
    ]  # fmt: skip
    if node.domain == _OWN_NUMBERS or long:
        raise InputError(
            f"a layer of type {node.op_type} has the model's own numbers in its attributes, which can't be drawn anew",
            field="model",
        )


def forget_sizes(model: ir.Model) -> None:
    """A size that is not fixed, as of what a loop carries on, may have a name of the model's."""
    values = [value for node in ir.traversal.RecursiveGraphIterator(model.graph) for value in node.outputs]
    for graph in (model.graph, *model.graph.subgraphs()):
        values.extend(graph.inputs)
    for value in values:
        if value.shape is not None and not value.shape.is_static():
            value.shape = ir.Shape([size if isinstance(size, int) else None for size in value.shape.dims])


def plain_versions(model: ir.Model) -> None:
    """The least opset that means the same, by the operators alone."""
    graph = model.graph
    least = dict.fromkeys(graph.opset_imports, 1)
    for node in ir.traversal.RecursiveGraphIterator(graph):
        opset = graph.opset_imports.get(node.domain, 1)
        least[node.domain] = max(least.get(node.domain, 1), since_version(node.domain, node.op_type, opset))
    if "" in least:
        least[""] = max(least[""], _LEAST_OPSET)
    graph.opset_imports.clear()
    graph.opset_imports.update(least)
    model.ir_version = _IR_VERSION
