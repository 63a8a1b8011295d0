"""FLOPs and bytes of a model, counted over its ONNX graph with the shapes of a real run.

A multiply-add counts as 2 FLOP. Only what multiplies matrices is counted (convolution, matrix product,
recurrent cells, attention): element-wise operators are moved data, not arithmetic worth naming, and
published figures leave them out as well. An operator that ``macs.py`` doesn't know leaves FLOPs unknown, with its
name: no figure is better than one that is too small. Shapes come from one run at batch 1 with every intermediate
value exposed as an output, so dynamic axes and fused operators are counted as they really are.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.exposed import run_exposed
from inferbench_tasks.formats.macs import Value, Values, attribute, bodies, macs, operator
from inferbench_tasks.formats.parameters import count_parameters

#: Protobuf's limit is 2 GiB: a larger graph can't be written as one file after its operators were fused.
_MAX_IN_ONE_FILE = 1_900_000_000


@dataclass(frozen=True)
class Costs:
    """Per sample at batch 1. ``bytes``: every operator reads its inputs and writes its outputs (unfused).

    ``fused_bytes``: likewise, over the graph as ONNX Runtime fuses it. None: not known; ``reason`` says of FLOPs and
    bytes which operators hide them.
    """

    flops: int | None
    bytes: int | None
    fused_bytes: int | None
    parameters: int
    flops_by_operator: dict[str, int] = field(default_factory=dict)
    reason: str | None = None


def graph_costs(path: Path, inputs: tuple[TensorSpec, ...], dynamic_size: int = 16, batch: int = 1) -> Costs:
    """Count a model's costs; an input's dynamic size is taken as ``dynamic_size``. ``batch``: how many samples each
    call of it has, where that is fixed; what it reads for one is not known then.

    Functions of the model's own are counted as what they are made of. Raises InputError where it can't be run.
    """
    import onnx
    import onnx.inliner

    given = onnx.load(path, load_external_data=False)  # the runtime reads the weights; they may be gigabytes
    parameters = count_parameters(given)
    model = onnx.inliner.inline_local_functions(given) if given.functions else given
    values = _values(model, inputs, dynamic_size, path.parent, batch)
    weights_bytes = sum(values[tensor.name].nbytes for tensor in model.graph.initializer)
    by_operator: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    unread: Counter[str] = Counter()
    total_bytes = 0
    for node in model.graph.node:
        name, count, moved = operator(node), macs(node, values), _bytes(node, values)
        if count is None:
            unknown[name] += 1
        else:
            by_operator[name] += 2 * count
        if moved is None:
            unread[name] += 1
        else:
            total_bytes += moved
    fused = (
        _fused_bytes(path, inputs, dynamic_size)
        if weights_bytes < _MAX_IN_ONE_FILE and not unread and batch == 1
        else None
    )
    return Costs(
        flops=None if unknown else sum(by_operator.values()) // batch,
        bytes=None if unread or batch > 1 else total_bytes,
        fused_bytes=fused,
        parameters=parameters,
        flops_by_operator={k: v for k, v in by_operator.items() if v},
        reason=_reason(unknown, unread)
        or (f"bytes at batch 1 of a model of batch {batch}" if batch > 1 else None),
    )


def _reason(unknown: Counter[str], unread: Counter[str]) -> str | None:
    def named(counts: Counter[str]) -> str:
        return ", ".join(f"{name} ({count})" for name, count in sorted(counts.items()))

    parts = [f"FLOPs of {named(unknown)} can't be counted"] if unknown else []
    parts += [f"bytes of {named(unread)} can't be counted"] if unread else []
    return "; ".join(parts) or None


#: They multiply integers.
_INTEGERS = {
    "ConvInteger", "QLinearConv", "MatMulInteger", "DynamicQuantizeMatMul", "QLinearMatMul", "QGemm", "QAttention",
    "DynamicQuantizeLSTM", "MatMulIntegerToFloat",
}  # fmt: skip


def quantised_ratio(path: Path, inputs: tuple[TensorSpec, ...], dynamic_size: int = 16) -> float:
    """The share of a model's multiply-adds that quantised operators do.

    An operator counts as quantised if it is an integer one, or if all that it multiplies comes out of a
    DequantizeLinear, which runtimes fuse with it. 0.0 for a model without multiply-adds; operators that can't be
    counted are left out.
    """
    import onnx

    model = onnx.load(path)
    values = _values(model, inputs, dynamic_size)
    dequantised = {n.output[0] for n in model.graph.node if n.op_type == "DequantizeLinear"}
    total = quantised = 0
    for node in model.graph.node:
        count = macs(node, values) or 0
        total += count
        if count and (node.op_type in _INTEGERS or {node.input[0], node.input[1]} <= dequantised):
            quantised += count
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
    moved = [_bytes(node, values) for node in model.graph.node]
    return None if None in moved else sum(each or 0 for each in moved)


def _values(
    model: Any, inputs: tuple[TensorSpec, ...], dynamic_size: int, weights: Path | None = None, batch: int = 1
) -> Values:
    """Shape and size of every value of the graph in a run at batch 1, inputs and weights included.

    ``weights``: the folder of the weights that lie outside of the model.
    """
    from inferbench_tasks.contracts.models import noise_like

    rng = np.random.default_rng(0)
    feeds = {spec.name: noise_like(spec, batch, rng, dynamic_size) for spec in inputs}
    values = {name: _value(array) for name, array in run_exposed(model, feeds, weights).items()}
    for tensor in model.graph.initializer:
        values[tensor.name] = _weight(tensor, tuple(tensor.dims))
    for sparse in model.graph.sparse_initializer:
        values[sparse.values.name] = Value(
            tuple(sparse.dims),
            _weight(sparse.values, sparse.values.dims).nbytes + 8 * math.prod(sparse.indices.dims),
        )
    return values


def _value(array: Any) -> Value:
    if isinstance(array, np.ndarray):
        return Value(tuple(array.shape), int(array.nbytes))
    return Value((), 0)  # a sequence or map: classical models only


def _weight(tensor: Any, shape: tuple[int, ...]) -> Value:
    """Two values of four bits share a byte."""
    from onnx import TensorProto, helper

    halves = {getattr(TensorProto, name, None) for name in ("INT4", "UINT4", "FLOAT4E2M1")}
    count = math.prod(shape)
    if tensor.data_type in halves:
        return Value(tuple(shape), (count + 1) // 2)
    return Value(
        tuple(shape), count * int(np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type)).itemsize)
    )


# -- bytes --------------------------------------------------------------------------------------------

#: Only other names or shapes for the same memory, or values known before the run.
_FREE = {"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Shape", "Size", "Constant", "Dropout"}
#: Read only what they pass on, however large the table.
_SELECT = {"Gather", "GatherND", "GatherElements", "Slice", "Split"}

_KNOWN_DOMAINS = ("ai.onnx", "com.microsoft")


def _bytes(node: Any, values: Values) -> int | None:
    """What a node reads and writes; None where that can't be told: of a body that may run often, of trees of which each
    sample reads a part, and of operators of others."""
    name = operator(node)
    if bodies(node) or "TreeEnsemble" in name or (node.domain and not name.startswith(_KNOWN_DOMAINS)):
        return None
    if node.op_type in _FREE:
        return 0
    output_bytes = sum(values[name].nbytes for name in node.output if name in values)
    if node.op_type in _SELECT:
        indices = sum(values[name].nbytes for name in node.input[1:] if name in values)
        return 2 * output_bytes + indices
    inside = 4 * len(attribute(node, "coefficients", ())) if node.domain == "ai.onnx.ml" else 0
    return output_bytes + inside + sum(values[name].nbytes for name in node.input if name in values)
