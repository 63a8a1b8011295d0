"""Which constants decide the work and are part of a key, and which are weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import onnx_ir as ir

from inferbench_tasks.bricks.masks import floats, has_mask
from inferbench_tasks.bricks.records import digest

#: Operators whose integer tensors are weights, biases and zero points, however they are typed.
QUANTISED = {
    "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "DequantizeLinear", "QuantizeLinear",
    "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "QGemm", "QAttention", "QLinearAdd", "QLinearMul",
    "QLinearConcat", "QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearSigmoid", "QLinearLeakyRelu",
    "QLinearSoftmax", "QLinearWhere", "QLinearReduceMean", "MatMulNBits", "DynamicQuantizeLSTM",
}  # fmt: skip
#: Operators whose integers are sums of products, to be computed with.
INTEGER_PRODUCTS = {"ConvInteger", "MatMulInteger"}
#: Operators whose several floats are scales, thresholds or boxes: they decide what is computed.
PARAMETRISED = {
    "Resize",
    "Upsample",
    "OneHot",
    "RoiAlign",
    "MaxRoiPool",
    "NonMaxSuppression",
    "AffineGrid",
    "GridSample",
}
#: Of these (operator, place of the input) is what they resize or sample, which is a weight where it is a constant. It
#: is in the key by value all the same: no other model has it.
SAMPLED = {("Resize", 0), ("Upsample", 0), ("RoiAlign", 0), ("MaxRoiPool", 0), ("GridSample", 0)}
#: The same of where they sample, and of boxes: these may decide on the work too, but are learned or tuned.
PLACES = {
    ("GridSample", 1), ("AffineGrid", 0), ("RoiAlign", 1), ("MaxRoiPool", 1), ("NonMaxSuppression", 0),
    ("NonMaxSuppression", 1),
}  # fmt: skip
_NARROW = {
    ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT4, ir.DataType.UINT4, ir.DataType.INT2, ir.DataType.UINT2,
}  # fmt: skip


def is_weight(tensor: ir.TensorProtocol, operator: str) -> bool:
    """Whether a constant of an operator is a weight: several floats, or quantised ones.

    Other integers, booleans, texts and single numbers (axes, shapes, exponents, a tensor's scale and zero point) decide
    what is computed, and so do scales of a resizing, floats with a mask in them, and quantised numbers that are all the
    same: zero points of channels, whose products a runtime leaves out where they are 0.
    """
    if tensor.size <= 1:
        return False
    if tensor.dtype.is_floating_point():
        return operator not in PARAMETRISED and not has_mask(floats(tensor.numpy()))
    if tensor.dtype in _NARROW:
        numbers = tensor.numpy()
        return bool((numbers != numbers.flat[0]).any())
    return operator in QUANTISED and tensor.dtype != ir.DataType.STRING


def is_own_table(tensor: ir.TensorProtocol, operator: str, place: int) -> bool:
    """Whether a constant of a parametrised operator is floats of the model's own, though it is in the key by value."""
    return tensor.dtype.is_floating_point() and (operator, place) in SAMPLED | PLACES


def in_order(constants: Iterable[ir.Value]) -> list[ir.Value]:
    """Those of a brick's network, which are called ``w0, w1 ...``."""
    return sorted(constants, key=lambda value: int((value.name or "w0")[1:]))


def constant_digest(tensor: ir.TensorProtocol) -> str:
    """SHA-256 of a constant's values."""
    if tensor.dtype.is_floating_point() or tensor.dtype in _NARROW:
        return hashlib.sha256(tensor.tobytes()).hexdigest()
    return digest(tensor.numpy())
