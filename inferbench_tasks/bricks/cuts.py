"""Models' cuts, kept in files by all that decides them: a second study of the same models takes a moment."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from pydantic import ValidationError

from inferbench_tasks.bricks.brick import Brick, cut
from inferbench_tasks.bricks.keys import RECIPE
from inferbench_tasks.bricks.layers import LayerGraph, layer_graph
from inferbench_tasks.bricks.sequences import parse_granularity
from inferbench_tasks.bricks.study import Cut
from inferbench_tasks.bricks.views import view_of
from inferbench_tasks.contracts.arrays import Arrays

#: Raised by one whenever a cut is made or described in another way.
_RECIPE = 1
_LIBRARIES = ("onnx", "onnx-ir", "onnxruntime")


def bookkeeping(graph: LayerGraph, bricks: Sequence[Brick]) -> frozenset[str]:
    """The keys of bricks that give integers only, or take nothing but constants and what was made of these."""
    constant: set[int] = set()
    for index, layer in enumerate(graph.layers):
        if layer.needs.layers <= constant:
            constant.add(index)
    return frozenset(
        brick.key
        for brick in bricks
        if constant.issuperset(brick.window)
        or all(graph.records[value.name or ""].content is not None for value in brick.outputs)
    )


def cut_of(model: Path, feeds: Arrays, view: str, granularity: str) -> Cut:
    """Cut an ONNX model. InputError as of ``layer_graph`` and ``cut``."""
    with tempfile.TemporaryDirectory(prefix="inferbench-bricks-") as folder:
        graph = layer_graph(model, feeds, view, Path(folder))
        bricks = list(cut(graph, parse_granularity(granularity)))
        return Cut(
            view=view,
            instruction_set=graph.instruction_set,
            granularity=granularity,
            layers=len(graph.executed),
            keys=tuple(brick.key for brick in bricks),
            operators={brick.key: " > ".join(brick.operators) for brick in bricks},
            bookkeeping=bookkeeping(graph, bricks),
        )


class Cuts:
    """Those below ``data_dir/bricks/cuts``."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / "bricks" / "cuts"

    def get(self, digest: str, shapes: dict[str, tuple[int, ...]], view: str, granularity: str) -> Cut | None:
        """That of a model's content at these inputs' shapes; None where none is kept that can be read."""
        try:
            return Cut.model_validate_json(self._path(digest, shapes, view, granularity).read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def put(
        self, cut: Cut, digest: str, shapes: dict[str, tuple[int, ...]], view: str, granularity: str
    ) -> None:
        """Keep it."""
        path = self._path(digest, shapes, view, granularity)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.write_text(cut.model_dump_json(), encoding="utf-8")
        partial.replace(path)

    def _path(self, digest: str, shapes: dict[str, tuple[int, ...]], view: str, granularity: str) -> Path:
        document = {
            "recipe": [_RECIPE, RECIPE],
            "libraries": [version(name) for name in _LIBRARIES],
            "model": digest,
            "shapes": sorted(shapes.items()),
            "view": view,
            "instruction_set": view_of(view).instruction_set(),
            "granularity": granularity,
        }
        name = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
        return self._folder / f"{name}.json"
