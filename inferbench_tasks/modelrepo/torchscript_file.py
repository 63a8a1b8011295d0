"""A TorchScript file of anybody's that was traced for one batch: made free where its sizes are written as numbers."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.torchscript import TorchScriptFormat
from inferbench_tasks.modelrepo.onnx_file import Adapted
from inferbench_tasks.modelrepo.own_batch import Tensors, artifact, keep_original, outcome, proof

ORIGINAL = "original.pt"
#: Operators that are told a shape, and which of their inputs that is.
_SHAPES = {
    "aten::view": 1, "aten::reshape": 1, "aten::expand": 1, "aten::new_zeros": 1, "aten::new_ones": 1,
    "aten::new_full": 1, "aten::zeros": 0, "aten::ones": 0, "aten::full": 0, "aten::empty": 0, "aten::randn": 0,
}  # fmt: skip
_RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu"}


def adapt(path: Path, tensors: Tensors) -> Adapted:
    """The file with a free batch, or as it came; the signature beside it says for which batch it was traced."""
    if tensors.batch is None:
        return Adapted(tensors.inputs, tensors.outputs, None, ())
    original = path.with_name(ORIGINAL)
    path.replace(original)
    freed = Tensors(tensors.inputs, tensors.outputs, None)
    form = TorchScriptFormat()
    whole = form.open(artifact("torchscript", original, tensors))
    reasons: list[str] = []
    for everywhere in (False, True) if tensors.batch > 1 else (False,):
        try:
            _write_free(original, path, tensors.batch, everywhere)
            predict = form.open(artifact("torchscript", path, freed))
            reason = proof(whole, predict, tensors.inputs, tensors.batch)
        except (RuntimeError, InputError) as error:
            reason = " ".join(str(error).split())[-300:]
        if reason is None:
            keep_original(path, original, tensors.batch)
            return outcome(tensors, None)
        reasons.append(reason)
    original.replace(path)
    return outcome(tensors, reasons[0])


def operators(path: Path) -> dict[str, int]:
    """How often each operator stands in it, in the modules and branches that it calls, too."""
    graph = _load(path).inlined_graph
    counts = Counter(node.kind().removeprefix("aten::") for node in _all(graph))
    return dict(counts.most_common())


def _all(block: Any) -> list[Any]:
    nodes = []
    for node in block.nodes():
        if node.kind().startswith(("aten::", "quantized::")):
            nodes.append(node)
        for inner in node.blocks():
            nodes += _all(inner)
    return nodes


def _load(path: Path) -> Any:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.load(str(path), map_location="cpu").eval()


def _write_free(source: Path, path: Path, batch: int, everywhere: bool) -> None:
    """Where a shape begins with the batch as a number, the first input's own size takes its place.

    ``everywhere``: inside a shape, too, where another size may be that number by chance, as of four heads.
    """
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        module = torch.jit.freeze(_load(source))
        graph = module.graph
        if recurrent := sorted({n.kind().removeprefix("aten::") for n in _all(graph)} & _RECURRENT):
            # They take a state of another batch without a look at it, and read beyond its end.
            raise InputError(f"{', '.join(recurrent)} may have a state of that batch")
        first = next(iter(graph.nodes()))
        rows = _rows(graph, first)
        for node in _all(graph):
            place = _SHAPES.get(node.kind())
            if place is not None:
                _free_shape(graph, node, place, rows, batch, everywhere)
        torch._C._jit_pass_lint(graph)
        torch.jit.save(module, str(path))


def _rows(graph: Any, first: Any) -> Any:
    """A value at the beginning of the graph: how many samples the first input has."""
    tensor = next(value for value in graph.inputs() if value.type().kind() == "TensorType")
    graph.setInsertPoint(first)
    axis = graph.insertConstant(0)
    node = graph.create("aten::size", [tensor, axis], 1)
    graph.insertNode(node)
    rows = node.output()
    rows.setType(axis.type())
    return rows


def _free_shape(graph: Any, node: Any, place: int, rows: Any, batch: int, everywhere: bool) -> None:
    shape = node.inputsAt(place)
    maker = shape.node()
    if maker.kind() == "prim::ListConstruct":
        sizes = [value.toIValue() for value in maker.inputs()]
        parts = list(maker.inputs())
    elif isinstance(shape.toIValue(), list):
        sizes, parts = shape.toIValue(), None
    else:
        return
    places = [at for at, size in enumerate(sizes) if size == batch and (at == 0 or everywhere)]
    if not places:
        return
    graph.setInsertPoint(node)
    values = [
        rows if at in places else (parts[at] if parts else graph.insertConstant(size))
        for at, size in enumerate(sizes)
    ]
    made = graph.create("prim::ListConstruct", values, 1)
    graph.insertNode(made)
    made.output().setType(shape.type())
    node.replaceInput(place, made.output())
