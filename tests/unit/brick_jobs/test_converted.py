"""Which model is cut is what PerfDB says, and not what a file in a folder says where a stranger's code wrote."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.brick_jobs.converted import converted_model
from inferbench_tasks.brick_jobs.cut_all import cut_all
from inferbench_tasks.brick_jobs.stages import decompose
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.errors import StageError
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.convert import Output as Converted

SPEC = (TensorSpec(name="x", dtype="float32", shape=(4,)),)
REFERENCE = f"artifact:{'a' * 64}/model.onnx"


def output(path: str) -> dict[str, Any]:
    model = ModelArtifact(
        name="m", format="onnx", path=path, digest="d", framework="onnx", inputs=SPEC, outputs=SPEC
    )
    converted = Converted(
        model=model, difference_ratio=0.0, tolerance_ratio=0.0, accuracy_ratio=None, cached=True
    )
    return converted.model_dump(mode="json")


def written(folder: Path, path: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "convert.json").write_text(Converted.model_validate(output(path)).model_dump_json())


def test_a_file_alone_is_no_conversion(tmp_path: Path) -> None:
    """A model's ``generate`` wrote it and failed: nothing is cut of what it names."""
    ctx = Context(data_dir=tmp_path, base_dir=tmp_path)
    written(ctx.run_dir("i.000"), "/etc/passwd")
    part = {"role": "cut", "models": 1, "shards": 1}
    job = {
        "name": "t",
        "kind": "bricks",
        "models": [{"model": {"kind": "zoo", "name": "digits"}}],
        "part": part,
    }
    inp = decompose.Input.model_validate({"run_id": "i.001", "job_id": "j", "job": job})
    none: dict[str, dict[str, Any]] = {}
    assert cut_all(inp, inp.job, ctx, set(), none.get).failed == {0: "it was not converted; see its own run"}


def test_the_path_lies_where_its_run_could_put_it(tmp_path: Path) -> None:
    """In the run's folder or the model's cache; a link does not lead out of these."""
    folder, cache = tmp_path / "run", tmp_path / "cache"
    for one in (folder, cache):
        one.mkdir()
        (one / "m.onnx").touch()
        assert converted_model(output(str(one / "m.onnx")), folder, (cache,)).path == str(one / "m.onnx")
    (folder / "link").symlink_to("/etc/passwd")
    for path in ("/etc/passwd", str(folder / "link"), str(folder / ".." / "other")):
        with pytest.raises(StageError, match="neither in its folder nor in the cache of its model"):
            converted_model(output(path), folder, (cache,))


def test_of_a_reference_the_file_says_only_where_it_lies(tmp_path: Path) -> None:
    """All else is PerfDB's; a pipe is not waited for, and a path elsewhere is refused."""
    folder = tmp_path / "run"
    written(folder, str(folder / "m.onnx"))
    model = converted_model(output(REFERENCE), folder, ())
    assert (model.path, model.digest) == (str(folder / "m.onnx"), "d")
    written(folder, "/etc/passwd")
    with pytest.raises(StageError, match="neither in its folder"):
        converted_model(output(REFERENCE), folder, ())
    (folder / "convert.json").unlink()
    with pytest.raises(StageError, match="not converted on this host"):
        converted_model(output(REFERENCE), folder, ())
    os.mkfifo(folder / "convert.json")
    with pytest.raises(StageError, match="can't be used"):
        converted_model(output(REFERENCE), folder, ())
