"""New sizes are carried through a graph, operator by operator, as ONNX infers them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_ir as ir

from inferbench_tasks.bricks.dummies.rules import NoFit, Shape, drawn, rule_of


@dataclass
class Widths:
    """``before``: the shape of each activation of the model; ``width`` and ``kernel``: the drawn sizes.

    ``now``: those of the dummy so far; ``constants``: the new ones.
    """

    before: Mapping[str, Shape]
    width: Callable[[int], int]
    kernel: Callable[[int], int]
    rng: np.random.Generator
    now: dict[ir.Value, Shape] = field(default_factory=dict)
    shapes: dict[ir.Value, Shape] = field(default_factory=dict)
    changed: bool = False
    opsets: list[onnx.OperatorSetIdProto] = field(default_factory=list)

    def opset(self, domain: str) -> int:
        """The version of a domain's operators."""
        return next((int(one.version) for one in self.opsets if one.domain == domain), 1)

    def old(self, value: ir.Value) -> Shape:
        """As the model has it."""
        if value.is_initializer():
            assert value.const_value is not None
            return tuple(int(size) for size in value.const_value.shape.numpy())
        return self.before[value.name or ""]

    def new(self, value: ir.Value) -> Shape:
        """As the dummy has it."""
        return self.shapes.get(value) or self.old(value) if value.is_initializer() else self.now[value]

    def reshaped(self, value: ir.Value, shape: Sequence[int]) -> None:
        """A constant of floats gets another shape; the same one everywhere."""
        if self.shapes.setdefault(value, tuple(shape)) != tuple(shape):
            raise NoFit("a constant of two layers that needs two shapes", max(self.old(value), default=0))
        self.changed |= tuple(shape) != self.old(value)

    def rewritten(self, node: ir.Node, place: int, values: Sequence[int]) -> None:
        """A constant of integers gets other values, for this operator alone."""
        graph = node.graph
        assert isinstance(graph, ir.Graph)
        tensor = ir.tensor(np.array(values, np.int64), name=f"{node.outputs[0].name}-{place}-drawn")
        value = ir.Value(name=tensor.name, const_value=tensor, shape=ir.Shape([len(values)]),
                         type=ir.TensorType(ir.DataType.INT64))  # fmt: skip
        graph.register_initializer(value)
        node.replace_input_with(place, value)

    def carry(self, model: ir.Model) -> None:
        """Through all operators, in the graph's order; NoFit where one of them can't have them."""
        self.opsets = [onnx.helper.make_opsetid(name, at) for name, at in model.graph.opset_imports.items()]
        for value in model.graph.inputs:
            self.now[value] = self.before[value.name or ""]
        for node in model.graph:
            rule_of(node)(node, self)
            self._infer(node)
        for value, shape in self.shapes.items():
            tensor = value.const_value
            assert tensor is not None
            value.const_value = ir.tensor(
                drawn(shape, tensor.numpy(), self.rng), dtype=tensor.dtype, name=value.name
            )
            value.shape = ir.Shape(shape)

    def _infer(self, node: ir.Node) -> None:
        types: dict[str, onnx.TypeProto] = {}
        data: dict[str, onnx.TensorProto] = {}
        for value in node.inputs:
            if value is None:
                continue
            dtype = value.const_value.dtype if value.is_initializer() and value.const_value else value.dtype
            if dtype is None:
                raise NoFit(f"an input of {node.op_type} whose type nobody told")
            types[value.name or ""] = onnx.helper.make_tensor_type_proto(int(dtype), self.new(value))
            if value.is_initializer() and value.const_value is not None and not dtype.is_floating_point():
                data[value.name or ""] = ir.to_proto(value.const_value)
                data[value.name or ""].name = value.name or ""
        try:
            schema = onnx.defs.get_schema(node.op_type, self.opset(node.domain), node.domain)
            given = onnx.shape_inference.infer_node_outputs(
                schema, ir.to_proto(node), types, data, opset_imports=self.opsets
            )
        except Exception as error:
            raise NoFit(f"{node.op_type}: {error}", self._blamed(node)) from error
        for value in node.outputs:
            if not value.name:
                continue
            shape = given[value.name].tensor_type.shape.dim if value.name in given else ()
            sizes = tuple(int(one.dim_value) for one in shape)
            if len(sizes) != len(self.before[value.name]) or 0 in sizes:
                sizes = self.before[value.name]  # of what depends on values: as it was
                if any(
                    self.new(v) != self.old(v)
                    for v in node.inputs
                    if v is not None and not v.is_initializer()
                ):
                    raise NoFit(f"{node.op_type}: sizes that depend on values")
            self.now[value] = sizes

    def _blamed(self, node: ir.Node) -> int:
        """A size that changed in one of its inputs and should not have."""
        for value in node.inputs:
            if value is None or value.is_initializer():
                continue
            for old, new in zip(self.old(value), self.new(value), strict=True):
                if old != new:
                    return old
        return 0
