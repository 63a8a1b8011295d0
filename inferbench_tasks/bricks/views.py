"""Which graph of a model is cut: as it was converted, or as ONNX Runtime executes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir
from onnx_ir.passes import common

from inferbench_tasks.bricks.processor import instruction_set
from inferbench_tasks.bricks.sizes import fix_sizes
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.errors import InputError, UnknownKindError

#: Weights from this size on lie outside of the graph's file.
_OUTSIDE_BYTES = 1024


@dataclass(frozen=True)
class View:
    """``level``: ONNX Runtime's optimisation level that makes the graph, None: as converted.

    ``processor``: whether the graph is of one kind of processor, which is then part of its bricks' keys. ``plain``:
    whether its bricks are timed with numbers that have nothing of the model's, so that anybody may see them.
    """

    name: str
    help: str
    level: str | None = None
    processor: bool = False
    plain: bool = False

    def instruction_set(self) -> str | None:
        """That of this machine, where the view's graphs depend on it."""
        return instruction_set() if self.processor else None


VIEWS = {
    view.name: view
    for view in (
        View("runtime", "what ONNX Runtime executes here, layouts included", "ORT_ENABLE_ALL", True),
        View(
            "portable",
            "with ONNX Runtime's fusions, without layouts of one processor",
            "ORT_ENABLE_EXTENDED",
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


def viewed_model(path: Path, feeds: Arrays, view: View, folder: Path) -> ir.Model:
    """The view's graph, its sizes fixed to the feeds'.

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
    ir.save(model, fixed, external_data="model.weights", size_threshold_bytes=_OUTSIDE_BYTES)
    model = ir.load(fixed if view.level is None else _optimised(fixed, view.level))
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


def _optimised(path: Path, level: str) -> Path:
    """ONNX Runtime's own graph of a model, beside it."""
    import onnxruntime as ort

    target = path.with_name("optimised.onnx")
    options: Any = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # it warns that the graph is of this processor, which its keys say
    options.optimized_model_filepath = str(target)
    entry = options.add_session_config_entry
    entry("session.disable_prepacking", "1")  # it is not run
    # Fusions may make more than the 2 GiB that one file can hold.
    entry("session.optimized_model_external_initializers_file_name", "optimised.weights")
    entry("session.optimized_model_external_initializers_min_size_in_bytes", str(_OUTSIDE_BYTES))
    try:
        ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise InputError(f"ONNX Runtime can't load the model: {error}") from error
    return target
