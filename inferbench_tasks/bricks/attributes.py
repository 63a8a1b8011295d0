"""An operator's attributes in one form, however a converter spells them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import onnx_ir as ir

from inferbench_tasks.bricks.constants import constant_digest, is_weight

#: What these mean where they are left out, by value; ``kernel_shape`` is the weight's.
_ONES, _ZEROS = {"strides", "dilations"}, {"pads"}


def described_attributes(node: ir.Node, opset: int) -> dict[str, Any]:
    """Name -> [type, value], sorted, without those that say what is meant anyway. Bodies are not described here."""
    defaults = _defaults(node.domain, node.op_type, opset)
    described = {}
    for name in sorted(node.attributes):
        attribute = node.attributes[name]
        if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
            continue
        value = _value(attribute, node.op_type)
        if value == defaults.get(name) or _implied(node, name, attribute):
            continue
        described[name] = [attribute.type.name, value]
    return described


def since_version(domain: str, operator: str, opset: int) -> int:
    """The opset that an operator's meaning is of; for operators that ONNX does not define, the domain's version."""
    schema = _schema(domain, operator, opset)
    return int(schema.since_version) if schema is not None else opset


def _value(attribute: ir.Attr, operator: str) -> Any:
    value = attribute.value
    match attribute.type:
        case ir.AttributeType.FLOAT:
            return float(value).hex()
        case ir.AttributeType.FLOATS:
            return [float(item).hex() for item in value]
        case ir.AttributeType.TENSOR:
            return _tensor(value, operator)
        case ir.AttributeType.TENSORS:
            return [_tensor(item, operator) for item in value]
        case ir.AttributeType.INTS | ir.AttributeType.STRINGS:
            return [_plain(item) for item in value]
        case _:
            return _plain(value)


def _tensor(tensor: ir.TensorProtocol, operator: str) -> list[Any]:
    known = None if is_weight(tensor, operator) else constant_digest(tensor)
    return [tensor.dtype.name, list(tensor.shape.numpy()), known]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value if isinstance(value, (int, str)) else str(value)


def _implied(node: ir.Node, name: str, attribute: ir.Attr) -> bool:
    """Whether a convolution or pooling does what the attribute says without being told."""
    if "Conv" not in node.op_type and "Pool" not in node.op_type:
        return False
    if name in _ONES | _ZEROS and attribute.type == ir.AttributeType.INTS:
        return set(attribute.as_ints()) == {1 if name in _ONES else 0}
    if name == "kernel_shape" and "Conv" in node.op_type and len(node.inputs) > 1:
        weight = node.inputs[1]
        sizes = None if weight is None or weight.shape is None else weight.shape.dims[2:]
        return sizes is not None and list(sizes) == list(attribute.as_ints())
    return False


@lru_cache(maxsize=4096)
def _defaults(domain: str, operator: str, opset: int) -> dict[str, Any]:
    schema = _schema(domain, operator, opset)
    if schema is None:
        return {}
    values = {}
    for name, attribute in schema.attributes.items():
        if attribute.default_value.name:
            values[name] = _value(ir.from_proto(attribute.default_value), operator)
    return values


@lru_cache(maxsize=4096)
def _schema(domain: str, operator: str, opset: int) -> Any:
    import onnx

    try:
        return onnx.defs.get_schema(operator, opset, domain)
    except onnx.defs.SchemaError:
        return None
