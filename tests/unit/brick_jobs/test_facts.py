"""What is told of a brick: shapes and work, and its network without weights."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import helper
from pydantic import ValidationError

from inferbench_tasks.brick_jobs import facts as module
from inferbench_tasks.brick_jobs.cut_all import asked_to_cut
from inferbench_tasks.brick_jobs.facts import BrickFacts, Tensor, facts_of, own_networks, with_network
from inferbench_tasks.brick_jobs.inside.opened import job_of
from inferbench_tasks.bricks.brick import Brick, cut
from inferbench_tasks.bricks.layers import LayerGraph, layer_graph
from inferbench_tasks.errors import StageError
from inferbench_tasks.stages.base import Context
from inferbench_tasks.submission.model import FileModel
from tests.unit.bricks.graphs import IMAGE, image, residual, save, weight


def first(tmp_path: Path) -> tuple[LayerGraph, Brick]:
    """A convolution of 3 to 4 channels of 8 x 8."""
    graph = layer_graph(residual(tmp_path / "m.onnx"), image(), "source", tmp_path / "view")
    return graph, next(cut(graph, 1))


def test_shapes_are_those_of_the_run(tmp_path: Path) -> None:
    """With the batch; weights in the operators' order."""
    graph, brick = first(tmp_path)
    facts = facts_of(graph, brick, 5.0, 7.0)
    assert facts.inputs == (Tensor(dtype="float32", shape=(1, 3, 8, 8)),)
    assert facts.outputs == (Tensor(dtype="float32", shape=(1, 4, 8, 8)),)
    assert facts.weights == (Tensor(dtype="float32", shape=(4, 3, 3, 3)),)
    assert (facts.key, facts.flops, facts.moved_bytes, facts.network) == (brick.key, 5, 7, None)


def test_a_table_that_the_network_takes_is_a_weight(tmp_path: Path) -> None:
    """As it is an input of the network that is kept."""
    node = helper.make_node("GridSample", ["x", "places"], ["y"])
    path = save(tmp_path / "m.onnx", [node], {"places": weight(1, 8, 8, 2)}, IMAGE)
    graph = layer_graph(path, image(), "source", tmp_path / "view")
    facts = facts_of(graph, next(cut(graph, 1)), 5.0, 7.0)
    assert facts.weights == (Tensor(dtype="float32", shape=(1, 8, 8, 2)),)


def test_what_can_not_be_kept_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too large without its weights still, in numbers or as a file, and what a library can't make, without its
    words; the brick is measured all the same."""
    graph, brick = first(tmp_path)
    facts = facts_of(graph, brick, 5.0, 7.0)
    kept = with_network(facts, graph, brick, tmp_path)
    assert kept.no_network is None and kept.network == tmp_path / f"{brick.key}.bare.onnx"
    assert not onnx.load(kept.network).graph.initializer
    monkeypatch.setattr(module, "MOST_NETWORK_BYTES", -1)
    kept = with_network(facts, graph, brick, tmp_path)
    assert kept.network is None and kept.no_network is not None and "has 0 bytes still" in kept.no_network
    monkeypatch.setattr(module, "MOST_NETWORK_BYTES", 0)
    kept = with_network(facts, graph, brick, tmp_path)
    assert kept.network is None and kept.no_network is not None and "bytes still" in kept.no_network

    def broken(*_: object) -> None:
        raise ValueError("secret/weights.bin")

    monkeypatch.setattr("inferbench_tasks.bricks.saving.save_network", broken)
    assert with_network(facts, graph, brick, tmp_path).no_network == "it can't be made: ValueError"


def test_a_process_keeps_files_of_its_own_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No link to somebody else's file, none elsewhere, none that is larger than it may be; keys are keys."""
    networks = tmp_path / "networks"
    networks.mkdir()
    (tmp_path / "theirs").write_text("x")
    (networks / "link").symlink_to(tmp_path / "theirs")
    (networks / "mine").write_text("x")

    def named(path: Path) -> list[BrickFacts]:
        fields = {
            "inputs": (),
            "outputs": (),
            "weights": (),
            "flops": 1.0,
            "moved_bytes": 1.0,
            "network": path,
        }
        return [BrickFacts.model_validate({"key": "a" * 64, "operators": ("Conv",), **fields})]

    own_networks(named(networks / "mine"), networks)
    for path in (networks / "link", tmp_path / "theirs", networks / "none", networks):
        with pytest.raises(StageError, match="not its own"):
            own_networks(named(path), networks)
    monkeypatch.setattr(module, "MOST_NETWORK_BYTES", -(1 << 20))
    with pytest.raises(StageError, match="a network of 1 bytes"):
        own_networks(named(networks / "mine"), networks)
    with pytest.raises(ValidationError, match="key"):
        BrickFacts.model_validate(named(networks)[0].model_dump() | {"key": "../x"})


def test_a_cut_tells_each_different_brick_once(data_dir: Path, tmp_path: Path) -> None:
    """With the network of those that are to be measured, and of no other."""
    residual(tmp_path / "m.onnx")
    ctx = Context(data_dir=data_dir, base_dir=tmp_path)
    job = job_of("t", FileModel(kind="file", path="m.onnx"))
    one = asked_to_cut(ctx, set(), run_id="r", job_id="r", job=job)
    [cut_model] = one.cuts
    keys = {missing.key for missing in one.missing if not missing.item.whole}
    assert {facts.key for facts in one.facts} == keys and len(one.facts) == len(keys)
    assert all(facts.network is not None and facts.network.is_file() for facts in one.facts)
    known = asked_to_cut(ctx, set(cut_model.parts), run_id="r", job_id="r", job=job)
    assert [facts.key for facts in known.facts] == [facts.key for facts in one.facts]
    assert all(facts.network is None and facts.no_network is None for facts in known.facts)
