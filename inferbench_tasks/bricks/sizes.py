"""Sizes that a graph leaves open are fixed to those of the tensors that it is recorded with."""

from __future__ import annotations

import onnx_ir as ir

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.errors import InputError


def fix_sizes(model: ir.Model, feeds: Arrays) -> None:
    """Give every input the shape of its array. InputError where one lacks an array, or has other sizes."""
    for value in model.graph.inputs:
        name = value.name or ""
        if name not in feeds:
            raise InputError(f"the input {name} has no value", field="shapes")
        actual = feeds[name].shape
        if value.shape is not None:
            declared = list(value.shape.dims)
            fits = len(declared) == len(actual) and all(
                not isinstance(size, int) or size == other
                for size, other in zip(declared, actual, strict=True)
            )
            if not fits:
                sizes = ", ".join(str(size) for size in declared)
                what = f"the input {name} takes [{sizes}], not {list(actual)}"
                fixed_batch = len(declared) == len(actual) and isinstance(declared[0], int)
                hint = "; its batch is fixed" if fixed_batch and declared[0] != actual[0] else ""
                raise InputError(what + hint, field="batch_size" if hint else "shapes")
        value.shape = ir.Shape(actual)
