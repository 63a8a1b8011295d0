"""A TensorFlow SavedModel to ONNX, by tf2onnx; names of inputs and outputs stay."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.errors import ConversionError


def export(source: ModelArtifact, path: Path, opset: int) -> None:
    """Write ``path``. ConversionError where TensorFlow operators are left that ONNX has no word for."""
    import tensorflow as tf

    from inferbench_tasks.formats import savedmodel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tf2onnx

        loaded, call = savedmodel.load(Path(source.path))

        def serve(*values: object) -> object:
            return call(**{spec.name: value for spec, value in zip(source.inputs, values, strict=True)})

        specs = [savedmodel.tensor_spec(spec) for spec in source.inputs]
        # The calls by name are what keeps the names, so no further signature is needed.
        function = tf.function(serve, input_signature=specs)
        model, _ = tf2onnx.convert.from_function(function, specs, opset=opset)
        _keep_constants(model, function.get_concrete_function(*specs))
        del loaded
    foreign = sorted({node.op_type for node in model.graph.node if node.domain not in ("", "ai.onnx")})
    if foreign:
        raise ConversionError(f"tf2onnx left operators that no runtime has: {', '.join(foreign)}")
    path.write_bytes(model.SerializeToString())


def _keep_constants(model: Any, function: Any) -> None:
    """Constants that the function took from around it became inputs that nobody feeds; initialisers instead."""
    from onnx import numpy_helper

    captured = {
        inner.name: outer for outer, inner in function.graph.captures if outer.dtype.name != "resource"
    }
    for value in [value for value in model.graph.input if value.name in captured]:
        model.graph.initializer.append(numpy_helper.from_array(captured[value.name].numpy(), value.name))
        model.graph.input.remove(value)
