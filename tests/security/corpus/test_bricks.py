"""Models of strangers that are taken apart and timed: what they can reach, and what becomes of the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from onnx import TensorProto, helper

from inferbench_tasks.brick_jobs.cut_all import Found, cut_all, own
from inferbench_tasks.brick_jobs.cutting import ToMeasure
from inferbench_tasks.brick_jobs.inside.opened import job_of
from inferbench_tasks.brick_jobs.stages import decompose
from inferbench_tasks.bricks.measure.child import Item
from inferbench_tasks.bricks.measure.method import Method
from inferbench_tasks.bricks.measure.session import BrickFailed, run_session
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.errors import StageError
from inferbench_tasks.running.perform import perform
from inferbench_tasks.sandbox.setting import missing
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.convert import Output as Converted
from inferbench_tasks.submission.model import FileModel
from tests.security.bounds import Limits
from tests.unit.bricks.graphs import save, weight

pytestmark = pytest.mark.skipif(bool(missing()), reason="this kernel lacks a part of the sandbox")
X = {"x": (TensorProto.FLOAT, ("batch", 4))}


@pytest.fixture(name="limits")
def _limits() -> Limits:
    """Each model has a process of its own, whose bounds are what is tested."""
    return Limits(cpu_s=120, mib=1500)


def plain(path: Path, victim: Path) -> None:
    """A matrix product."""
    save(path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": weight(4, 4)}, X)


def reads_a_file(path: Path, victim: Path) -> None:
    """Its weights are what somebody else's file holds."""
    tensor = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[4, 4], data_location=TensorProto.EXTERNAL
    )
    tensor.external_data.add(key="location", value=str(victim))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    made = helper.make_model(helper.make_graph([node], "g", [x], [y], [tensor]))
    made.opset_import[0].version, made.ir_version = 17, 8
    path.write_bytes(made.SerializeToString())


def explodes(path: Path, victim: Path) -> None:
    """An activation of 2^46 bytes out of four numbers."""
    nodes = [helper.make_node("Tile", ["x", "n"], ["y"])]
    save(path, nodes, {"n": np.array([1, 1 << 42])}, X)


def never_ends(path: Path, victim: Path) -> None:
    """A loop of 2^62 rounds."""
    names = {"i": TensorProto.INT64, "c": TensorProto.BOOL, "v": TensorProto.FLOAT}
    inputs = [
        helper.make_tensor_value_info(name, kind, [] if name != "v" else None) for name, kind in names.items()
    ]
    outputs = [
        helper.make_tensor_value_info("d", TensorProto.BOOL, []),
        helper.make_tensor_value_info("u", TensorProto.FLOAT, None),
    ]
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Neg", ["v"], ["u"])],
        "body",
        inputs,
        outputs,
    )
    nodes = [helper.make_node("Loop", ["n", "yes", "x"], ["y"], body=body)]
    save(path, nodes, {"n": np.array(1 << 62), "yes": np.array(True)}, X)


MODELS: dict[str, Callable[[Path, Path], None]] = {
    "plain": plain,
    "reads": reads_a_file,
    "explodes": explodes,
    "never": never_ends,
    "last": plain,
}


def found(tmp_path: Path, killed: str) -> Found:
    """What comes of all of them, as of models that every check before has let pass; one's process is killed."""
    victim = tmp_path / "victim"
    victim.write_bytes(np.arange(16, dtype=np.float32).tobytes())
    base, data = tmp_path / "base", tmp_path / "data"
    base.mkdir()
    entries = [{"model": {"kind": "file", "path": f"{name}.onnx"}} for name in MODELS]
    part = {"role": "cut", "models": len(MODELS), "shards": 1}
    job = {"name": "t", "kind": "bricks", "models": entries, "part": part, "measure": {"runs": 15}}
    inp = decompose.Input.model_validate({"run_id": f"i.{len(MODELS):03d}", "job_id": "j", "job": job})

    def progress(done: float, of: float | None, text: str) -> None:
        if text.startswith(f"cutting {killed}"):
            for child in psutil.Process().children():
                if "inferbench_tasks.running.child_main" in child.cmdline():
                    child.kill()

    ctx = Context(data_dir=data, base_dir=base, progress=progress, run_stage=perform)
    spec = TensorSpec(name="x", dtype="float32", shape=(4,))
    outputs: dict[str, dict[str, Any]] = {}
    for at, (name, make) in enumerate(MODELS.items()):
        folder = ctx.run_dir(f"i.{at:03d}")
        plain(base / f"{name}.onnx", victim)  # what was looked at
        make(folder / "model.onnx", victim)  # what is there now
        model = ModelArtifact(
            name=name, format="onnx", path=str(folder / "model.onnx"), digest=name, framework="onnx", inputs=(spec,),
            outputs=(spec.model_copy(update={"name": "y"}),),
        )  # fmt: skip
        converted = Converted(
            model=model, difference_ratio=0.0, tolerance_ratio=0.0, accuracy_ratio=None, cached=True
        )
        outputs[f"i.{at:03d}"] = converted.model_dump(mode="json")
    return cut_all(inp, inp.job, ctx, set(), outputs.get)


def test_what_one_model_does_to_itself_the_others_do_not_notice(tmp_path: Path) -> None:
    """Another's file is not read, what explodes and whose process dies is named with why; the others are cut, and no
    process is left."""
    all_ = found(tmp_path, "never")
    assert sorted(all_.failed) == [1, 2, 3]
    assert "victim" in all_.failed[1]
    assert "can't be run" in all_.failed[2]
    assert "its process was killed by SIGKILL" in all_.failed[3]
    assert [cut.at for cut in all_.cuts] == [0, 4] and all_.cuts[0].parts == all_.cuts[1].parts
    networks = [one.item.path for one in all_.missing.values() if not one.item.whole]
    assert len(networks) == 1 and networks[0].is_file()


def item(path: Path, feeds: Path, name: str = "a", whole: bool = False) -> ToMeasure:
    return ToMeasure(
        item=Item(name=name, path=path, feeds=feeds, whole=whole), key="k", operators=("Relu",), layers="l",
        estimate_s=1.0, shard=0,
    )  # fmt: skip


def test_what_a_process_says_of_its_networks_is_not_believed(tmp_path: Path) -> None:
    """A path elsewhere, a link, what is no file, or a model that is not the one that was asked for is refused."""
    networks, model = tmp_path / "networks", tmp_path / "model.onnx"
    networks.mkdir()
    (tmp_path / "victim").write_text("x")
    for name in ("a.onnx", "a.npz", "w.npz"):
        (networks / name).write_text("own")
    (networks / "inside.onnx").symlink_to(networks / "a.onnx")
    (networks / "link.onnx").symlink_to(tmp_path / "victim")
    good = item(networks / "a.onnx", networks / "a.npz")
    own([good, item(model, networks / "w.npz", "whole-w", whole=True)], networks, model)
    for bad in (
        item(tmp_path / "victim", networks / "a.npz"),
        item(networks / "a.onnx", networks / ".." / "victim"),
        item(networks / "link.onnx", networks / "a.npz"),
        item(networks / "inside.onnx", networks / "a.npz"),
        item(networks / "gone.onnx", networks / "a.npz"),
        item(tmp_path / "victim", networks / "w.npz", "whole-w", whole=True),
        item(model, networks / "w.npz", "a", whole=True),
        item(networks / "a.onnx", networks / "a.npz", "whole-a"),
    ):
        with pytest.raises(StageError, match="not its own"):
            own([good, bad], networks, model)


def test_what_is_timed_reads_its_networks_alone(tmp_path: Path) -> None:
    """A link to another's model can't be followed, as it can outside: its process is in the sandbox too."""
    networks, work = tmp_path / "networks", tmp_path / "work"
    networks.mkdir()
    work.mkdir()
    plain(tmp_path / "victim.onnx", tmp_path)
    (networks / "n.onnx").symlink_to(tmp_path / "victim.onnx")
    np.savez(networks / "n.npz", x=np.ones((1, 4), np.float32))
    one = Item(name="n", path=networks / "n.onnx", feeds=networks / "n.npz")
    with pytest.raises(BrickFailed) as failed:
        run_session([one], work, Method(runs=15), threads=1)
    assert failed.value.item == "n" and "n.onnx failed" in failed.value.why
    copied = one.model_copy(update={"path": networks / "copied.onnx"})
    copied.path.write_bytes((tmp_path / "victim.onnx").read_bytes())
    assert run_session([copied], work, Method(runs=15, budget_s=0.1), threads=1).timed["n"].rounds_ns["warm"]


def test_a_job_of_a_model_is_one_of_kind_serving() -> None:
    """What a process is asked names the model as submissions do, so that its reach is that of ``convert``."""
    job: Any = job_of("t", FileModel(kind="file", path="m.onnx"))
    assert job.model.path == "m.onnx" and job.convert.format == "onnx"
