"""A dummy is drawn: widths, kernels and blocks by chance, until one runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from inferbench_tasks.bricks.dummies.rules import NoFit
from inferbench_tasks.bricks.dummies.widths import Widths
from inferbench_tasks.bricks.runtimes import DEFAULT, runtime_of
from inferbench_tasks.bricks.views import View, viewed_model
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.exposed import run_exposed

#: What computes constants and shapes is folded; nothing else of the model's is changed.
_FOLDED = View("folded", "with its constants folded")
#: Widths are multiplied by one of these, and a multiple of what they were a multiple of.
_RATIOS = (0.5, 0.625, 0.75, 0.875, 1.125, 1.25, 1.5)
#: Kernels and what becomes of them; a share of the blocks with a way around them is left out.
_KERNELS = {3: (3, 5), 5: (3, 5, 7), 7: (5, 7, 9), 9: (7, 9, 11)}
_LEFT_OUT_RATIO = 0.2
_TRIES, _MOST_FIXED = 12, 40
#: Fewer channels are colours, or flags.
_FEWEST_CHANNELS = 4


def draw_near(path: Path, feeds: Arrays, seed: int, folder: Path) -> Path:
    """The dummy's file, in the folder; it takes the same inputs. InputError where none that differs could be drawn."""
    rng = np.random.default_rng(seed)
    why = ""
    for attempt in range(_TRIES):
        # The last tries keep the widths: what is left is to change kernels and blocks.
        ratio = float(rng.choice(_RATIOS)) if attempt < _TRIES - 3 else 1.0
        target = folder / f"{attempt}"
        try:
            changed = _drawn(path, feeds, ratio, rng, target)
            run_exposed(ir.to_proto(ir.load(changed)), feeds, target)
            return changed
        except (NoFit, InputError) as error:
            why = str(error)
    raise InputError(f"no model could be drawn near it: {why[:300]}", field="dummies")


def _drawn(path: Path, feeds: Arrays, ratio: float, rng: np.random.Generator, folder: Path) -> Path:
    kernels = {size: int(rng.choice(others)) for size, others in _KERNELS.items()}
    fixed: set[int] = set()
    blocks = int(rng.integers(1 << 48))
    while True:
        model = viewed_model(path, feeds, _FOLDED, folder / "of", runtime_of(DEFAULT))
        arrays = run_exposed(ir.to_proto(model), feeds, folder / "of")
        before = {name: tuple(np.shape(array)) for name, array in arrays.items()}
        types = {name: np.asarray(array).dtype for name, array in arrays.items()}
        left_out = _leave_out(model, before, np.random.default_rng(blocks))
        for value in (*model.graph.inputs, *(v for node in model.graph for v in node.outputs)):
            if value.name in types and types[value.name].kind != "O":
                value.type = ir.TensorType(ir.DataType.from_numpy(types[value.name]))
            value.shape = None if not value.is_graph_input() else value.shape
        walk = Widths(
            before, lambda size: _width(size, ratio, fixed), lambda size: kernels.get(size, size), rng
        )
        try:
            walk.carry(model)
        except NoFit as error:
            if not error.fixed or error.fixed in fixed or len(fixed) == _MOST_FIXED:
                raise
            fixed.add(error.fixed)
            continue
        if not left_out and not walk.changed:
            raise NoFit("nothing of it could be changed")
        for value in model.graph.outputs:
            value.shape = ir.Shape(walk.now[value])
        target = folder / "dummy.onnx"
        ir.save(model, target, external_data="dummy.weights", size_threshold_bytes=1024)
        return target


def _width(size: int, ratio: float, fixed: set[int]) -> int:
    """Another one, wherever the ratio is: at least one step of eight (or four, two, one), which nets are wide by."""
    if size < _FEWEST_CHANNELS or size in fixed or ratio == 1:
        return size
    step = next(step for step in (8, 4, 2, 1) if size % step == 0)
    near = round(size * ratio / step) * step
    if near in (0, size):
        near = size + (step if ratio > 1 or size == step else -step)
    return near


def _leave_out(model: ir.Model, shapes: dict[str, tuple[int, ...]], rng: np.random.Generator) -> int:
    """Additions of two activations of one shape hand on one of both: what made the other is gone."""
    count = 0
    for node in list(model.graph):
        both = [v for v in node.inputs if v is not None and not v.is_initializer()]
        if node.op_type != "Add" or len(both) < 2 or len({shapes[v.name or ""] for v in both}) > 1:
            continue
        if rng.random() >= _LEFT_OUT_RATIO or node.outputs[0] in model.graph.outputs:
            continue
        if any(value.is_graph_input() for value in both):
            continue
        ir.convenience.replace_all_uses_with(node.outputs[0], both[int(rng.integers(2))])
        count += 1
    common.RemoveUnusedNodesPass()(model)
    return count
