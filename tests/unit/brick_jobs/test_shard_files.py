"""What goes to the host that measures a shard."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from inferbench_tasks.brick_jobs.cutting import Cutting, ToMeasure
from inferbench_tasks.brick_jobs.shard_files import FOLDER, gather, read
from inferbench_tasks.bricks.measure.child import Item
from inferbench_tasks.bricks.results import WHOLE
from inferbench_tasks.errors import StageError
from tests.unit.bricks.builders import SETTING


def brick(name: str, folder: Path, content: str, shard: int = 0) -> ToMeasure:
    """A network and its inputs, as ``decompose`` leaves them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.onnx").write_text(content)
    (folder / f"{name}.npz").write_text(f"inputs of {content}")
    return asked(Item(name=name, path=folder / f"{name}.onnx", feeds=folder / f"{name}.npz"), shard)


def asked(item: Item, shard: int = 0) -> ToMeasure:
    return ToMeasure(item=item, key="k", operators=("C",), layers="l", estimate_s=1.0, shard=shard)


def cutting(*todo: ToMeasure) -> Cutting:
    return Cutting(setting=SETTING, cuts=(), todo=todo, failed={}, reused=0)


def test_a_shard_is_whole_where_nothing_of_its_host_is_left(tmp_path: Path) -> None:
    """Networks with the weights beside them, inputs, and models from wherever those were brought to; what two models
    call alike stays two, and another shard's are none of it."""
    of_two = [brick("same", tmp_path / run / "networks" / "1", run) for run in ("r.000", "r.001")]
    (tmp_path / "r.001" / "networks" / "1" / "same.onnx.weights").write_text("many")
    other = brick("other", tmp_path / "r.000" / "networks" / "1", "other", shard=1)
    feeds = tmp_path / "r.000" / "networks" / "1" / "whole.npz"
    feeds.write_text("its inputs")
    whole = asked(Item(name=f"{WHOLE}w", path=tmp_path / "cache" / "m.onnx", feeds=feeds, whole=True))
    run = tmp_path / "r.003"
    run.mkdir()
    models = gather(cutting(*of_two, other, whole), 0, "r.003", run / FOLDER)
    assert models == {f"{WHOLE}w": str(tmp_path / "cache" / "m.onnx")}
    there = tmp_path / "there"
    shutil.copytree(run / FOLDER, there)
    for folder in ("r.000", "r.001", "r.003"):
        shutil.rmtree(tmp_path / folder)
    shard = read(there, {f"{WHOLE}w": "/elsewhere/m.onnx"})
    assert shard.setting == SETTING and len(shard.todo) == 3
    for one, content in zip(shard.todo, ("r.000", "r.001"), strict=False):
        assert one.item.path.read_text() == content
        assert one.item.feeds.read_text() == f"inputs of {content}"
        assert one.item.path.is_relative_to(there)
    assert shard.todo[1].item.path.with_name("same.onnx.weights").read_text() == "many"
    assert (shard.todo[2].item.path, shard.todo[2].item.feeds.read_text()) == (
        Path("/elsewhere/m.onnx"), "its inputs",
    )  # fmt: skip
    assert str(tmp_path / "r.0") not in (there / "shard.json").read_text()


def test_a_model_that_was_not_brought_is_named(tmp_path: Path) -> None:
    """Rather than another file being timed in its place."""
    feeds = tmp_path / "w.npz"
    feeds.write_text("inputs")
    whole = asked(Item(name=f"{WHOLE}w", path=tmp_path / "m.onnx", feeds=feeds, whole=True))
    gather(cutting(whole), 0, "r.003", tmp_path / FOLDER)
    with pytest.raises(StageError, match=f"{WHOLE}w, and has no such model"):
        read(tmp_path / FOLDER, {})


def test_an_attempt_leaves_nothing_of_the_one_before(tmp_path: Path) -> None:
    """Its files are those that it was told of."""
    first = brick("first", tmp_path / "networks", "1")
    gather(cutting(first, brick("gone", tmp_path / "networks", "2")), 0, "r", tmp_path / FOLDER)
    gather(cutting(first), 0, "r", tmp_path / FOLDER)
    assert sorted(path.name for path in (tmp_path / FOLDER / "0").iterdir()) == ["first.npz", "first.onnx"]


def test_a_network_that_is_gone_or_a_link_is_refused(tmp_path: Path) -> None:
    """What a stranger's model leaves may lead anywhere."""
    one = brick("one", tmp_path / "networks", "1")
    one.item.path.unlink()
    with pytest.raises(StageError, match="no file of the models"):
        gather(cutting(one), 0, "r", tmp_path / FOLDER)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    one.item.path.symlink_to(secret)
    with pytest.raises(StageError, match="no file of the models"):
        gather(cutting(one), 0, "r", tmp_path / FOLDER)
