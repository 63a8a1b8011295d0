"""Which graph of a model is cut: as it was converted, or as a runtime executes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir
from onnx_ir.passes import common

from inferbench_tasks.bricks.processor import instruction_set
from inferbench_tasks.bricks.runtimes.base import BrickRuntime
from inferbench_tasks.bricks.saving import OUTSIDE_BYTES
from inferbench_tasks.bricks.sizes import fix_sizes
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.errors import InputError, UnknownKindError


@dataclass(frozen=True)
class View:
    """What a view is; its graph is made by the runtime (``runtimes/base.py``).

    ``processor``: whether the graph is of one kind of processor, which is then part of its bricks' keys. ``plain``:
    whether its bricks are timed with numbers that have nothing of the model's, so that anybody may see them.
    """

    name: str
    help: str
    processor: bool = False
    plain: bool = False

    def instruction_set(self) -> str | None:
        """That of this machine, where the view's graphs depend on it."""
        return instruction_set() if self.processor else None


VIEWS = {
    view.name: view
    for view in (
        View("runtime", "what the runtime executes here, layouts included", processor=True),
        View(
            "portable",
            "with ONNX Runtime's fusions, without layouts of one processor",
            plain=True,
        ),
        View("source", "the layers as converted"),
    )
}  # fmt: skip


def view_of(name: str) -> View:
    """The view of that name; UnknownKindError lists those that there are."""
    if name not in VIEWS:
        raise UnknownKindError(f"Unknown view {name!r}; known: {', '.join(VIEWS)}", field="view")
    return VIEWS[name]


def viewed_model(path: Path, feeds: Arrays, view: View, folder: Path, runtime: BrickRuntime) -> ir.Model:
    """The view's graph as the runtime has it, its sizes fixed to the feeds'.

    ``folder``: where graphs and their weights are written; weights are read from there as they are needed.
    Raises InputError where the file is no ONNX model, or can't be run with these inputs.
    """
    try:
        model = ir.load(path)
    except Exception as error:  # whatever protobuf or onnx-ir raise of a broken file
        raise InputError(f"{path} is no ONNX model that can be read: {error}") from error
    common.RemoveInitializersFromInputsPass()(model)
    fix_sizes(model, feeds)
    _forget_shapes(model)
    # Beside the graph its weights are mapped: as a part of it they would be copied by each of the steps to come.
    folder.mkdir(parents=True, exist_ok=True)
    fixed = folder / "model.onnx"
    ir.save(model, fixed, external_data="model.weights", size_threshold_bytes=OUTSIDE_BYTES)
    model = ir.load(runtime.optimised(fixed, view.name))
    if model.functions:
        common.InlinePass()(model)
    common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    common.RemoveUnusedNodesPass()(model)
    return model


def _forget_shapes(model: ir.Model) -> None:
    """Sizes between input and output still have the names of open ones: the runtime shall infer them."""
    for node in model.graph.all_nodes():
        for value in node.outputs:
            value.shape = None
