"""A TFLite file in LiteRT: named tensors, and any number of samples where the file takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.contracts.arrays import Arrays


@dataclass(frozen=True)
class Tensor:
    """One input or output: ``index`` in the interpreter, ``shape`` as the file says it (-1: free).

    ``quantised``: the file's own numbers stand for others, ``scale * (number - zero_point)``.
    """

    name: str
    index: int
    shape: tuple[int, ...]
    dtype: str
    quantised: tuple[float, int] | None


class TfliteRunner:
    """One interpreter; for one thread at a time.

    Raises what LiteRT does of a damaged file and of operators that it does not know: ValueError, RuntimeError.
    """

    def __init__(self, path: str, threads: int, outputs: Sequence[str] = ()) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self._interpreter: Any = Interpreter(model_path=path, num_threads=threads)
        self.inputs, self.outputs = tensors(self._interpreter)
        self._index = {tensor.name: tensor.index for tensor in self.inputs}
        by_name = {tensor.name: tensor.index for tensor in self.outputs}
        if unknown := set(outputs) - by_name.keys():
            raise ValueError(f"the file gives {sorted(by_name)}, not {sorted(unknown)}")
        self._outputs = {name: by_name[name] for name in (outputs or by_name)}
        self._shapes: dict[str, tuple[int, ...]] = {}

    def run(self, arrays: Arrays) -> Arrays:
        """Outputs by name; memory is laid out anew only where the shapes are others than before."""
        shapes = {name: arrays[name].shape for name in self._index}
        if shapes != self._shapes:
            self._shapes = {}
            for name, index in self._index.items():
                self._interpreter.resize_tensor_input(index, shapes[name])
            self._interpreter.allocate_tensors()
            self._shapes = shapes
        for name, index in self._index.items():
            self._interpreter.set_tensor(index, arrays[name])
        self._interpreter.invoke()
        # Copies: LiteRT's own memory is written again by the next run.
        return {name: self._interpreter.get_tensor(index) for name, index in self._outputs.items()}


def tensors(interpreter: Any) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Inputs and outputs, by the names of the one signature that a file may have; else by the tensors' own."""
    signatures = interpreter.get_signature_list()
    if len(signatures) == 1:
        runner = interpreter.get_signature_runner(next(iter(signatures)))
        of_inputs, of_outputs = runner.get_input_details(), runner.get_output_details()
    else:
        of_inputs = {detail["name"]: detail for detail in interpreter.get_input_details()}
        of_outputs = {detail["name"]: detail for detail in interpreter.get_output_details()}
    return _tensors(of_inputs), _tensors(of_outputs)


def _tensors(details: dict[str, Any]) -> tuple[Tensor, ...]:
    found = []
    for name, detail in details.items():
        signature = detail.get("shape_signature")
        shape = signature if signature is not None and len(signature) else detail["shape"]
        scale, zero_point = detail.get("quantization") or (0.0, 0)
        dtype = detail["dtype"]
        found.append(
            Tensor(
                name=name,
                index=int(detail["index"]),
                shape=tuple(int(size) for size in shape),
                dtype="object" if dtype in (bytes, object) else str(getattr(dtype, "__name__", dtype)),
                quantised=(float(scale), int(zero_point)) if scale else None,
            )
        )
    return tuple(found)
