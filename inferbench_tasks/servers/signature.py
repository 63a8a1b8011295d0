"""A model's inputs and outputs, and the check of a request's tensors against them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.protocols.datatypes import NUMPY_OF, Array, datatype_of, unpack_bytes
from inferbench_tasks.protocols.problem import RequestProblem


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input or output; ``shape`` starts with the batch axis (-1)."""

    name: str
    datatype: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, spec: TensorSpec, batch_size: int | None = None) -> Tensor:
        """From a handle, whose shape leaves the batch axis out; ``batch_size``: the only one, None: any."""
        datatype = datatype_of(spec.dtype)
        return cls(spec.name, datatype, NUMPY_OF[datatype], (batch_size or -1, *spec.shape))

    def metadata(self) -> dict[str, Any]:
        """The tensor as the protocol's model metadata describe it."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}


class Signature:
    """All inputs and outputs of the served model."""

    def __init__(
        self, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...], batch_size: int | None = None
    ) -> None:
        self.inputs = {spec.name: Tensor.of(spec, batch_size) for spec in inputs}
        self.outputs = {spec.name: Tensor.of(spec, batch_size) for spec in outputs}

    def input(self, name: Any, datatype: Any, shape: Any) -> tuple[Tensor, tuple[int, ...]]:
        """The named input and the request's shape, both checked."""
        tensor = self.inputs.get(name) if isinstance(name, str) else None
        if tensor is None:
            raise RequestProblem(f"inputs: unknown input {name!r}; the model takes {', '.join(self.inputs)}")
        if datatype != tensor.datatype:
            raise RequestProblem(f"inputs.{name}.datatype: {datatype!r} given, {tensor.datatype} expected")
        if not isinstance(shape, list) or not all(type(size) is int for size in shape):
            raise RequestProblem(f"inputs.{name}.shape: a list of integers is needed, not {shape!r:.80}")
        expected = tensor.shape
        fits = len(shape) == len(expected) and all(
            size >= 0 and want in (-1, size) for size, want in zip(shape, expected, strict=True)
        )
        if not fits or shape[0] < 1:
            raise RequestProblem(
                f"inputs.{name}.shape: {shape!r:.80} given, {list(expected)} expected "
                "(-1: any size, the batch at least 1)"
            )
        return tensor, tuple(shape)

    def output(self, name: Any) -> Tensor:
        """The named output, or RequestProblem."""
        tensor = self.outputs.get(name) if isinstance(name, str) else None
        if tensor is None:
            raise RequestProblem(
                f"outputs: unknown output {name!r}; the model gives {', '.join(self.outputs)}"
            )
        return tensor

    def batch_size(self, arrays: dict[str, Array]) -> int:
        """The requests' batch size, the same in every input; RequestProblem if an input is missing."""
        for name in self.inputs:
            if name not in arrays:
                raise RequestProblem(f"inputs: {name} is missing; the model takes {', '.join(self.inputs)}")
        sizes = {name: len(array) for name, array in arrays.items()}
        first = next(iter(sizes.values()))
        if any(size != first for size in sizes.values()):
            raise RequestProblem(f"inputs: the batch sizes differ: {sizes}")
        return first


def from_binary(tensor: Tensor, shape: tuple[int, ...], raw: bytes | memoryview) -> Array:
    """A tensor from its bytes; a view, no copy. RequestProblem on a wrong length."""
    where = f"inputs.{tensor.name}"
    count = math.prod(shape)
    if tensor.datatype == "BYTES":
        return unpack_bytes(raw, count, where).reshape(shape)
    expected = count * tensor.dtype.itemsize
    if len(raw) != expected:
        raise RequestProblem(
            f"{where}: {len(raw)} bytes given, shape {list(shape)} of {tensor.datatype} needs {expected}"
        )
    return np.frombuffer(raw, dtype=tensor.dtype).reshape(shape)


def from_json(tensor: Tensor, shape: tuple[int, ...], data: Any) -> Array:
    """A tensor from JSON, flat or nested. RequestProblem where a value does not fit the datatype."""
    where = f"inputs.{tensor.name}.data"
    if not isinstance(data, list):
        raise RequestProblem(f"{where}: a list is needed, not {type(data).__name__}")
    if tensor.datatype == "FP16":
        raise RequestProblem(f"{where}: FP16 has no form in JSON; send it as binary data")
    try:
        array: Array = np.array(data)
    except ValueError as error:
        raise RequestProblem(f"{where}: the nested lists are not rectangular") from error
    if array.size != math.prod(shape):
        raise RequestProblem(
            f"{where}: {array.size} values given, shape {list(shape)} needs {math.prod(shape)}"
        )
    kind, expected = array.dtype.kind, tensor.dtype.kind
    allowed = {"f": "fiu", "i": "iu", "u": "iu", "b": "b", "O": "U"}[expected]
    if kind not in allowed:
        raise RequestProblem(f"{where}: the values don't fit {tensor.datatype}")
    if expected in "iu" and array.size:
        info = np.iinfo(tensor.dtype.name)
        if int(array.min()) < info.min or int(array.max()) > info.max:
            raise RequestProblem(f"{where}: a value is outside of {tensor.datatype}")
    if expected == "O":
        out = np.empty(array.size, dtype=np.object_)
        out[:] = [item.encode() for item in array.reshape(-1).tolist()]
        return out.reshape(shape)
    return array.astype(tensor.dtype).reshape(shape)
