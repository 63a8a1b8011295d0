"""Bricks as they are timed: what they add onto, and who needs whom."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from inferbench_tasks.bricks.brick import cut
from inferbench_tasks.bricks.layers import layer_graph
from inferbench_tasks.bricks.measure.bound import BoundNetwork
from inferbench_tasks.bricks.measure.networks import brick_item, needs_of
from tests.unit.bricks.graphs import image, residual


def test_a_convolution_that_adds_writes_onto_what_it_adds_to(tmp_path: Path) -> None:
    """Each block of the residual network ends in one, no other brick does; run again and again it goes on adding."""
    graph = layer_graph(residual(tmp_path / "model.onnx"), image(), "runtime", tmp_path / "view")
    bricks = list(cut(graph, 1))
    items = [brick_item(graph, brick, tmp_path) for brick in bricks]
    adding = [item for item, brick in zip(items, bricks, strict=True) if len(brick.inputs) == 2]
    assert len(adding) == 2 and all(len(item.onto) == 1 for item in adding)
    assert all(not item.onto for item in items if item not in adding)
    item = adding[0]
    with np.load(item.feeds) as file:
        feeds = {name: file[name] for name in file.files}
    _, onto = item.onto[0]
    before = feeds[f"x{onto}"].copy()
    network = BoundNetwork(item.path, feeds, threads=1, optimise=False, onto=item.onto)
    assert all(time > 0 for time in network.warm_ns(5, 1.0))
    assert not np.array_equal(feeds[f"x{onto}"], before)


def test_needs_follow_the_graph(tmp_path: Path) -> None:
    """The addition takes from the block's beginning too."""
    graph = layer_graph(residual(tmp_path / "model.onnx"), image(), "source", tmp_path / "view")
    needs = needs_of(list(cut(graph, 1)))
    assert needs == [[], [0], [1], [2], [0, 3], [4], [5], [6], [4, 7]]
