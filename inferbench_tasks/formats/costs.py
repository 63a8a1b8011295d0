"""FLOPs and bytes of a model, counted over its ONNX graph with the shapes of a real run.

A multiply-add counts as 2 FLOP. Only what multiplies matrices is counted (convolution, matrix product,
recurrent cells, attention): element-wise operators are moved data, not arithmetic worth naming, and
published figures leave them out as well. Shapes come from one run at batch 1 with every intermediate
value exposed as an output, so dynamic axes and fused operators are counted as they really are.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.exposed import run_exposed

Shape = tuple[int, ...]


#: Protobuf's limit is 2 GiB: a larger graph can't be written as one file after its operators were fused.
_MAX_IN_ONE_FILE = 1_900_000_000


@dataclass(frozen=True)
class Costs:
    """Per sample at batch 1. ``bytes``: every operator reads its inputs and writes its outputs (unfused).

    ``fused_bytes``: likewise, over the graph as ONNX Runtime fuses it; None where that can't be had.
    """

    flops: int
    bytes: int
    fused_bytes: int | None
    parameters: int
    flops_by_operator: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Value:
    """The shape and the size in bytes of one tensor."""

    shape: Shape
    nbytes: int

    @property
    def count(self) -> int:
        return math.prod(self.shape)


def graph_costs(path: Path, inputs: tuple[TensorSpec, ...], dynamic_size: int = 16) -> Costs:
    """Count a model's costs; an input's dynamic size is taken as ``dynamic_size``.

    Raises InputError where an operator with a body (Loop, If, Scan) hides arithmetic, or the model
    can't be run.
    """
    import onnx

    model = onnx.load(path, load_external_data=False)  # the runtime reads the weights; they may be gigabytes
    values = _values(model, inputs, dynamic_size, path.parent)
    weights_bytes = sum(values[tensor.name].nbytes for tensor in model.graph.initializer)
    by_operator: Counter[str] = Counter()
    total_bytes = 0
    for node in model.graph.node:
        by_operator[node.op_type] += 2 * _macs(node, values)
        total_bytes += _bytes(node, values)
    return Costs(
        flops=sum(by_operator.values()),
        bytes=total_bytes,
        fused_bytes=_fused_bytes(path, inputs, dynamic_size) if weights_bytes < _MAX_IN_ONE_FILE else None,
        parameters=sum(_parameters(tensor) for tensor in model.graph.initializer),
        flops_by_operator={k: v for k, v in by_operator.items() if v},
    )


def quantised_ratio(path: Path, inputs: tuple[TensorSpec, ...], dynamic_size: int = 16) -> float:
    """The share of a model's multiply-adds that quantised operators do.

    An operator counts as quantised if it is an integer one, or if all that it multiplies comes out of a
    DequantizeLinear, which runtimes fuse with it. 0.0 for a model without multiply-adds.
    """
    import onnx

    model = onnx.load(path)
    values = _values(model, inputs, dynamic_size)
    dequantised = {n.output[0] for n in model.graph.node if n.op_type == "DequantizeLinear"}
    integers = {"ConvInteger", "QLinearConv", "MatMulInteger", "DynamicQuantizeMatMul", "QLinearMatMul"}
    total = quantised = 0
    for node in model.graph.node:
        macs = _macs(node, values)
        total += macs
        if node.op_type in integers or {node.input[0], node.input[1]} <= dequantised if macs else False:
            quantised += macs
    return quantised / total if total else 0.0


def _fused_bytes(path: Path, inputs: tuple[TensorSpec, ...], dynamic_size: int) -> int | None:
    import onnx
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "optimised.onnx")
        ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        # Weights in files of their own stay in those, beside the original.
        model = onnx.load(options.optimized_model_filepath, load_external_data=False)
    try:
        values = _values(model, inputs, dynamic_size, path.parent)
    except InputError:  # a fused operator whose outputs can't be exposed one by one
        return None
    return sum(_bytes(node, values) for node in model.graph.node)


def _values(
    model: Any, inputs: tuple[TensorSpec, ...], dynamic_size: int, weights: Path | None = None
) -> dict[str, Value]:
    """Shape and size of every value of the graph in a run at batch 1, inputs and weights included.

    ``weights``: the folder of the weights that lie outside of the model.
    """
    from inferbench_tasks.contracts.models import noise_like

    rng = np.random.default_rng(0)
    feeds = {spec.name: noise_like(spec, 1, rng, dynamic_size) for spec in inputs}
    values = {name: _value(array) for name, array in run_exposed(model, feeds, weights).items()}
    for tensor in model.graph.initializer:
        values[tensor.name] = Value(tuple(tensor.dims), math.prod(tensor.dims) * _item_size(tensor.data_type))
    return values


def _value(array: Any) -> Value:
    if isinstance(array, np.ndarray):
        return Value(tuple(array.shape), int(array.nbytes))
    return Value((), 0)  # a sequence or map: classical models only


def _item_size(data_type: int) -> int:
    from onnx import helper

    return int(np.dtype(helper.tensor_dtype_to_np_dtype(data_type)).itemsize)


def _parameters(tensor: Any) -> int:
    """Weights: floats and quantised values; not the sizes and axes that graphs keep as initialisers."""
    from onnx import TensorProto

    weights = {
        TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.INT8,
        TensorProto.UINT8,
    }  # fmt: skip
    return math.prod(tensor.dims) if tensor.data_type in weights and tensor.dims else 0


# -- multiply-adds by operator ------------------------------------------------------------------------


def _attribute(node: Any, name: str, default: Any) -> Any:
    from onnx import helper

    for attribute in node.attribute:
        if attribute.name == name:
            return helper.get_attribute_value(attribute)
    return default


def _in(node: Any, values: dict[str, Value], index: int) -> Value:
    return values[node.input[index]]


def _out(node: Any, values: dict[str, Value]) -> Value:
    return next(values[name] for name in node.output if name)


def _conv(node: Any, values: dict[str, Value], weight: int = 1) -> int:
    """Each output value sums over its group's input channels and the kernel."""
    return _out(node, values).count * math.prod(_in(node, values, weight).shape[1:])


def _conv_transpose(node: Any, values: dict[str, Value]) -> int:
    """Each input value is spread over its group's output channels and the kernel."""
    return _in(node, values, 0).count * math.prod(_in(node, values, 1).shape[1:])


def _matmul(node: Any, values: dict[str, Value]) -> int:
    return _out(node, values).count * _in(node, values, 0).shape[-1]


def _gemm(node: Any, values: dict[str, Value]) -> int:
    a = _in(node, values, 0).shape
    return _out(node, values).count * (a[0] if _attribute(node, "transA", 0) else a[1])


def _recurrent(gates: int) -> Callable[[Any, dict[str, Value]], int]:
    def macs(node: Any, values: dict[str, Value]) -> int:
        steps, batch = _in(node, values, 0).shape[:2]
        if _attribute(node, "layout", 0):
            steps, batch = batch, steps
        directions, rows, features = _in(node, values, 1).shape
        hidden = rows // gates
        return steps * batch * directions * gates * hidden * (features + hidden)

    return macs


def _einsum(node: Any, values: dict[str, Value]) -> int:
    equation = _attribute(node, "equation", b"").decode().replace(" ", "")
    operands = equation.split("->")[0].split(",")
    if len(operands) < 2:
        return 0
    if "..." in equation:
        raise InputError(f"Einsum {equation!r} can't be counted")
    sizes = {
        letter: size
        for index, letters in enumerate(operands)
        for letter, size in zip(letters, _in(node, values, index).shape, strict=True)
    }
    return math.prod(sizes.values())


def _attention(node: Any, values: dict[str, Value]) -> int:
    """Scores and weighted sum of a fused attention over separate query, key and value.

    Values are ``batch x sequence x hidden`` or ``batch x heads x sequence x head``; both products
    take (elements of the query) x (length of the key).
    """
    query, key, value = (_in(node, values, i) for i in range(3))
    length = key.shape[-2]
    rows = query.count // query.shape[-1]
    return query.count * length + rows * length * value.shape[-1]


MACS: dict[str, Callable[[Any, dict[str, Value]], int]] = {
    "Conv": _conv,
    "FusedConv": _conv,
    "ConvInteger": _conv,
    "QLinearConv": lambda node, values: _conv(node, values, weight=3),
    "ConvTranspose": _conv_transpose,
    "MatMul": _matmul,
    "FusedMatMul": _matmul,
    "MatMulInteger": _matmul,
    "DynamicQuantizeMatMul": _matmul,
    "QLinearMatMul": _matmul,
    "Gemm": _gemm,
    "FusedGemm": _gemm,
    "LSTM": _recurrent(4),
    "GRU": _recurrent(3),
    "RNN": _recurrent(1),
    "Einsum": _einsum,
    "Attention": _attention,
    "MultiHeadAttention": _attention,
}


def _macs(node: Any, values: dict[str, Value]) -> int:
    bodies = [a.g for a in node.attribute if a.HasField("g")]
    if any(inner.op_type in MACS for body in bodies for inner in _all_nodes(body)):
        raise InputError(f"The operator {node.op_type} hides arithmetic in its body; it can't be counted")
    count = MACS.get(node.op_type)
    return count(node, values) if count else 0


def _all_nodes(graph: Any) -> list[Any]:
    nodes = list(graph.node)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                nodes += _all_nodes(attribute.g)
    return nodes


# -- bytes --------------------------------------------------------------------------------------------

#: Only other names or shapes for the same memory, or values known before the run.
_FREE = {"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Shape", "Size", "Constant", "Dropout"}
#: Read only what they pass on, however large the table.
_SELECT = {"Gather", "GatherND", "GatherElements", "Slice", "Split"}


def _bytes(node: Any, values: dict[str, Value]) -> int:
    if node.op_type in _FREE:
        return 0
    output_bytes = sum(values[name].nbytes for name in node.output if name in values)
    if node.op_type in _SELECT:
        indices = sum(values[name].nbytes for name in node.input[1:] if name in values)
        return 2 * output_bytes + indices
    return output_bytes + sum(values[name].nbytes for name in node.input if name in values)
