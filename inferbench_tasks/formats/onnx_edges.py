"""What enters and leaves an ONNX graph, in a form that requests can carry: tensors with a first axis of samples.

Each function changes an ``onnx.ModelProto`` in place, computes nothing differently, and says in words what it did.
"""

from __future__ import annotations

from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.macs import all_nodes, operator

#: Of nodes that are added to a file without ONNX's own operators, and the form of files that has that version.
_ADDED_OPSET, _ADDED_IR = 17, 8


def tidy(model: Any) -> list[str]:
    """Weights are no inputs, sizes below 0 are free, ZipMaps give their tensor, bfloat16 is carried as float32, no
    output is listed twice.

    InputError for what no tensor carries.
    """
    notes = [*_weights_are_no_inputs(model), *_free_below_zero(model), *_outputs_once(model)]
    notes += [*_without_zip_maps(model), *_carried_as_float(model)]
    _require_tensors(model)
    return notes


def _weights_are_no_inputs(model: Any) -> list[str]:
    weights = {tensor.name for tensor in model.graph.initializer}
    listed = [value for value in model.graph.input if value.name in weights]
    for value in listed:
        model.graph.input.remove(value)
    if listed:
        model.ir_version = max(model.ir_version, 4)  # from which on weights need not be inputs too
    return [f"{len(listed)} weights that were listed as inputs are none"] if listed else []


def _free_below_zero(model: Any) -> list[str]:
    """Some exporters write -1 for a size that is free, which ONNX leaves open or names."""
    values = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    below = [dim for value in values for dim in value.type.tensor_type.shape.dim if dim.dim_value < 0]
    for dim in below:
        dim.Clear()
    return ["sizes that were written as -1 are free ones"] if below else []


def _outputs_once(model: Any) -> list[str]:
    """ONNX allows no two of a name, and ONNX Runtime does: they are one value."""
    names = [value.name for value in model.graph.output]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        values = {value.name: value for value in model.graph.output}
        del model.graph.output[:]
        model.graph.output.extend(values.values())
    return [f"the output {name}, listed several times, is one" for name in twice]


def _without_zip_maps(model: Any) -> list[str]:
    """A list of maps from class to probability becomes the tensor of probabilities that it is made of."""
    from onnx import ValueInfoProto

    notes = []
    for node in [n for n in model.graph.node if operator(n) == "ai.onnx.ml.ZipMap"]:
        position = next((i for i, v in enumerate(model.graph.output) if v.name == node.output[0]), None)
        if position is None:
            continue
        model.graph.node.remove(node)
        model.graph.output[position].CopyFrom(ValueInfoProto(name=node.output[0]))
        for other in model.graph.node:
            for at, name in enumerate(other.output):
                if name == node.input[0]:
                    other.output[at] = node.output[0]
            for at, name in enumerate(other.input):
                if name == node.input[0]:
                    other.input[at] = node.output[0]
        notes.append(f"the output {node.output[0]} is the tensor that its ZipMap made maps of")
    return notes


def _carried_as_float(model: Any) -> list[str]:
    from onnx import TensorProto, helper

    notes, opening, closing = [], [], []
    for value in model.graph.input:
        if value.type.tensor_type.elem_type == TensorProto.BFLOAT16:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
            inner = _renamed(model, value.name, inputs=True)
            opening.append(helper.make_node("Cast", [value.name], [inner], to=TensorProto.BFLOAT16))
            notes.append(f"the input {value.name} is bfloat16 and is sent as float32")
    for value in model.graph.output:
        if value.type.tensor_type.elem_type == TensorProto.BFLOAT16:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
            inner = _renamed(model, value.name, inputs=False)
            closing.append(helper.make_node("Cast", [inner], [value.name], to=TensorProto.FLOAT))
            notes.append(f"the output {value.name} is bfloat16 and is answered as float32")
    _around(model, opening, closing)
    return notes


def _require_tensors(model: Any) -> None:
    from onnx import TensorProto

    for kind, values in (("input", model.graph.input), ("output", model.graph.output)):
        for value in values:
            form = value.type.WhichOneof("value")
            if form not in (None, "tensor_type"):
                raise InputError(
                    f"the {kind} {value.name} is of type {str(form).removesuffix('_type')}: requests and answers carry "
                    f"tensors; export the model with tensors alone",
                    field="model.path",
                )
            element = value.type.tensor_type.elem_type
            if element not in (TensorProto.UNDEFINED, *_carried()):
                raise InputError(
                    f"the {kind} {value.name} is of {TensorProto.DataType.Name(element)} values, which no request "
                    f"and no answer carries; cast them within the model, from or to int8 or float32",
                    field="model.path",
                )
    for value in model.graph.input:
        shape = value.type.tensor_type.shape if value.type.tensor_type.HasField("shape") else None
        if shape is None:
            raise InputError(
                f"the input {value.name} doesn't say how many axes it has, so no request can be made for it; export "
                f"the model with shapes, a name for each size that is free",
                field="model.path",
            )
        if any(dim.HasField("dim_value") and dim.dim_value == 0 for dim in shape.dim):
            raise InputError(
                f"the input {value.name} has an axis of 0 values, so no request can carry anything; export the model "
                f"with the real size, or a name for one that is free",
                field="model.path",
            )


def _carried() -> tuple[int, ...]:
    from onnx import TensorProto

    names = "FLOAT DOUBLE FLOAT16 INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 BOOL STRING"
    return tuple(TensorProto.DataType.Value(name) for name in names.split())


def frame(model: Any, shapes: dict[str, tuple[int | str | None, ...]], outputs: dict[str, bool]) -> list[str]:
    """One call of the model is one sample: an axis of 1 is put before what has none.

    ``shapes``: the inputs that get one, with their own shapes; ``outputs``: whether each output gets one.
    """
    from onnx import TensorShapeProto, ValueInfoProto, helper

    opening, closing, notes = [], [], []

    def node(kind: str, given: str, made: str) -> Any:
        added = helper.make_node(kind, [given], [made], f"inferbench/{made}")
        give_axes(model, added, [0])
        return added

    for value in model.graph.input:
        if value.name in shapes:
            opening.append(node("Squeeze", value.name, _renamed(model, value.name, inputs=True)))
            shape = TensorShapeProto()
            shape.dim.add().dim_value = 1
            for size in shapes[value.name]:
                dim = shape.dim.add()
                if isinstance(size, int):
                    dim.dim_value = size
                elif size:
                    dim.dim_param = size
            value.type.tensor_type.shape.CopyFrom(shape)
    # An input that is an output as it is has the axis already.
    given = {value.name for value in model.graph.input}
    framed = [name for name, wanted in outputs.items() if wanted and name not in given]
    for position, value in enumerate(model.graph.output):
        if value.name in framed:
            closing.append(node("Unsqueeze", _renamed(model, value.name, inputs=False), value.name))
            kind = value.type.tensor_type.elem_type
            model.graph.output[position].CopyFrom(ValueInfoProto(name=value.name))
            if kind:
                model.graph.output[position].type.tensor_type.elem_type = kind
    _around(model, opening, closing)
    for word, names in (("input", list(shapes)), ("output", framed)):
        if names:
            notes.append(f"the {word} {', '.join(names)} has no batch axis: one call is one sample")
    return notes


def give_axes(model: Any, node: Any, axes: list[int]) -> None:
    """Say which axes a Squeeze or Unsqueeze is about, as the model's opset writes it."""
    from onnx import helper

    if own_opset(model) < 13:
        node.attribute.append(helper.make_attribute("axes", axes))
        return
    name = f"inferbench/axes of {node.output[0]}"
    model.graph.initializer.append(helper.make_tensor(name, 7, [len(axes)], axes))
    node.input.append(name)


def own_opset(model: Any) -> int:
    """The version of ONNX's own operators, for nodes of these that are added.

    A file may have none and import others' alone (``ai.onnx.ml``): then one that knows them is imported.
    """
    from onnx import helper

    own = [each.version for each in model.opset_import if each.domain in ("", "ai.onnx")]
    if not own:
        model.opset_import.append(helper.make_opsetid("", _ADDED_OPSET))
        model.ir_version = max(model.ir_version, _ADDED_IR)
    return int(own[0]) if own else _ADDED_OPSET


def _renamed(model: Any, name: str, *, inputs: bool) -> str:
    """Give the graph's own side of an input or output another name."""
    taken = {each for node in all_nodes(model.graph) for each in (*node.input, *node.output)}
    inner = f"{name}/inside"
    while inner in taken:
        inner += "/"
    for node in all_nodes(model.graph):
        for names in (node.input, node.output) if not inputs else (node.input,):
            for at, each in enumerate(names):
                if each == name:
                    names[at] = inner
    weights = [] if inputs else [tensor for tensor in model.graph.initializer if tensor.name == name]
    for tensor in weights:
        tensor.name = inner
    if not any(inner in node.output for node in model.graph.node) and not inputs and not weights:
        raise InputError(
            f"the output {name} is of no operator and no weight of the file; leave it out", field="model.path"
        )
    return inner


def _around(model: Any, opening: list[Any], closing: list[Any]) -> None:
    if opening or closing:
        own_opset(model)
    nodes = [*opening, *model.graph.node, *closing]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
