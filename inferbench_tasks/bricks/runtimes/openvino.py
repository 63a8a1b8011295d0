"""OpenVINO on the CPU, with the settings of the servers (``servers/engines/openvino.py``).

What it executes is no ONNX: its runtime model only says which layers each executed layer came from. Its bricks are the
model's own layers, grouped by that, which it fuses again as it compiles each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from inferbench_tasks.bricks.runtimes.base import BrickRuntime, Loaded
from inferbench_tasks.contracts.arrays import Array, Arrays
from inferbench_tasks.errors import InputError

#: In its runtime model: what is no work.
_NO_LAYERS = {"Const", "Constant", "Input", "Parameter", "Output", "Result"}
#: What it says of the time of a layer that it did not have to execute: a change of shape in place.
_NOT_EXECUTED = "not_executed"


class OpenVino(BrickRuntime):
    """Bricks and whole models are compiled alike, at fixed sizes: each brick is fused again as it is within the model.

    At a brick's edges tensors have their plain layout: where the model hands blocked ones from layer to layer, bricks
    pay for changing them.
    """

    name = "openvino"
    title = "OpenVINO"
    extra = "openvino"
    fuses = True
    refused: ClassVar[Mapping[str, str]] = {
        "fp16": "with the settings of its servers it computes that in fp32",
        "int8": "it quantises across the edges of its bricks, some of whose products are then computed in fp32",
    }

    def version(self) -> str:
        """Of the package."""
        return metadata.version("openvino")

    def open(self, path: Path, feeds: Arrays, *, threads: int, whole: bool) -> Loaded:
        """A compiled model with one request; sizes that it leaves open are fixed to those of ``feeds``."""
        import openvino

        core: Any = openvino.Core()
        model = core.read_model(path)
        if any(port.get_partial_shape().is_dynamic for port in model.inputs):
            names = _names(model.inputs, feeds)
            model.reshape(
                {port: list(feeds[name].shape) for port, name in zip(model.inputs, names, strict=True)}
            )
        return Request(core.compile_model(model, "CPU", _settings(threads)))

    def executed(self, path: Path, feeds: Arrays) -> Sequence[Sequence[str]]:
        """By the runtime model, once the model has run: what it does not execute is none of its layers."""
        import openvino

        core: Any = openvino.Core()
        try:
            model = core.read_model(path)
            origins = _named(model, ir.load(path).graph)
            compiled = core.compile_model(model, "CPU", _settings(1) | {"PERF_COUNT": True})
            Request(compiled).answers(feeds)
        except (RuntimeError, ValueError) as error:
            raise InputError(f"OpenVINO can't load the model: {str(error)[:500]}") from error
        layers = []
        for operation in compiled.get_runtime_model().get_ordered_ops():
            facts = {name: _text(value) for name, value in operation.get_rt_info().items()}
            if facts.get("layerType") in _NO_LAYERS or facts.get("execTimeMcs") == _NOT_EXECUTED:
                continue
            names = [origins[name] for name in facts["originalLayersNames"].split(",") if name in origins]
            layers.append((int(facts["execOrder"]), list(dict.fromkeys(names))))
        return [names for _, names in sorted(layers)]


class Request(Loaded):
    """A compiled model and its one request."""

    def __init__(self, compiled: Any) -> None:
        self._inputs, self._ports = compiled.inputs, compiled.outputs
        self._request = compiled.create_infer_request()

    def answers(self, feeds: Arrays) -> list[Array]:
        """Copies: the request's own tensors are written again."""
        for index, name in enumerate(_names(self._inputs, feeds)):
            self._request.set_input_tensor(index, _tensor(feeds[name]))
        self._request.infer(share_outputs=True)
        return [np.array(self._request.get_output_tensor(index).data) for index in range(len(self._ports))]

    def bind(
        self, feeds: Arrays, answers: Sequence[Array], onto: Sequence[tuple[int, int]]
    ) -> list[Array] | None:
        """To the arrays themselves. ``onto`` is left out: its compiler decides what is written in place."""
        names = _names(self._inputs, feeds)
        self._kept = [*(_tensor(feeds[name]) for name in names), *map(_tensor, answers)]
        for index in range(len(names)):
            self._request.set_input_tensor(index, self._kept[index])
        for index in range(len(answers)):
            self._request.set_output_tensor(index, self._kept[len(names) + index])
        return [*feeds.values(), *answers]

    def run(self) -> None:
        """Without the dictionary of copies that a request gives otherwise."""
        self._request.infer(share_outputs=True)


def _settings(threads: int) -> dict[str, Any]:
    return {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "ENABLE_CPU_PINNING": False,  # the process has its cores; it would choose among all of the machine's
    }


def _named(model: Any, graph: ir.Graph) -> dict[str, str]:
    """Give each operation a name of its own, by which its ONNX layer is found: name -> layer.

    A layer becomes several operations; the last of them gives the layer's tensor, by its name, and those before have
    none. What only they take is the layer's too.
    """
    giver = {value.name: node.name or "" for node in graph for value in node.outputs if value.name}
    order = {node.name: index for index, node in enumerate(graph)}
    owner: dict[str, str] = {}
    origins: dict[str, str] = {}
    for operation in reversed(model.get_ordered_ops()):
        if operation.get_type_name() in _NO_LAYERS:
            continue
        own = [giver[name] for port in operation.outputs() for name in port.get_names() if name in giver]
        takers = [
            owner[name]
            for port in operation.outputs()
            for target in port.get_target_inputs()
            if (name := target.get_node().get_friendly_name()) in owner
        ]
        # Of several it is the first: an Identity gives the same tensor under another name.
        layer = min(own or takers, key=lambda name: order[name], default=None)
        if layer is None:
            continue
        name = f"{layer} {len(origins)}"
        operation.set_friendly_name(name)
        owner[name] = origins[name] = layer
    return origins


def _names(ports: Sequence[Any], feeds: Arrays) -> list[str]:
    """By which each input is fed: its own name, else its place among those without one.

    A layer that OpenVINO leaves out (a Dropout) gives its name to the input that it took, which then has lost its own.
    ValueError where inputs and ``feeds`` do not come out even.
    """
    own = [next((name for name in port.get_names() if name in feeds), None) for port in ports]
    left = [name for name in feeds if name not in own]
    if own.count(None) > len(left):
        lost = [port for port, name in zip(ports, own, strict=True) if name is None]
        raise ValueError("there is nothing for " + "; ".join(", ".join(port.get_names()) for port in lost))
    if None in own and own.count(None) < len(left):
        raise ValueError(f"it has lost its inputs' names, and takes fewer than {', '.join(left)}")
    rest = iter(left)
    return [next(rest) if name is None else str(name) for name in own]


def _tensor(array: Array) -> Any:
    """On the array's own memory; ValueError for texts."""
    import openvino

    if array.dtype.kind in "OUS":
        raise ValueError("OpenVINO's bricks take no texts")
    return openvino.Tensor(array, shared_memory=True)


def _text(value: Any) -> str:
    return str(value.astype(str)) if hasattr(value, "astype") else str(value)
