"""Two versions of ONNX Runtime in one submission: each serves, and each result says which one it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from inferbench_tasks import settings
from inferbench_tasks.analysis.report.runs import load_runs
from inferbench_tasks.analysis.stack.stored import newest
from inferbench_tasks.backends.environments import ENVIRONMENTS
from inferbench_tasks.backends.onnx_readable import require_reads
from inferbench_tasks.contracts.verdict import MODE
from inferbench_tasks.errors import InputError, ServerError
from inferbench_tasks.manifests.runtime import named_runtime
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.submission.schema import ServeSpec
from tests.warm import warm

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
OLD, HERE = "1.27.0", version("onnxruntime")
YAML = """\
name: two-versions
model: {kind: zoo, name: digits}
requests: {samples: 16}
load: {arrivals: {kind: closed_loop, concurrency: 1}, duration_s: 1, warmup_s: 0, wait_for_quiet_s: 0}
sweep: {serve.framework: [null, onnxruntime@~1.27]}
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A data directory's environment of the older version; skips where nobody has its files."""
    runtime = named_runtime(ServeSpec(framework="onnxruntime@~1.27"))
    assert runtime is not None and runtime.environment is not None
    cache = tmp_path / "two" / "cache" / ENVIRONMENTS
    cache.mkdir(parents=True)
    try:
        return runtime.environment.ensure(cache)
    except ServerError as error:
        if "is a package index reachable" in str(error):
            pytest.skip(f"no package index has {runtime.words} for this machine: {error}")
        raise


def run(folder: Path, text: str, db: PerfDB) -> list[ResultDocument]:
    """The results of both jobs, that of the installed version first."""
    file = folder / "two.yaml"
    file.write_text(text)
    # What else happens on the machine is no concern here, and no reason to run both once more.
    env = os.environ | {settings.PERFDB_URI: db.uri, settings.DATA_DIR: str(folder / "two"), MODE: "note"}
    command = [sys.executable, "-m", "inferbench_tasks.cli.main", "run", str(file), "--inline", "-o", "json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode in (0, 1), done.stderr
    views = load_runs(db, [row["run_id"] for row in json.loads(done.stdout)])
    results = [view.result for view in views if view.result is not None]
    assert [result.backend.version for result in results] == [HERE, OLD], done.stderr
    return results


def test_two_versions_serve_side_by_side(
    tmp_path: Path, old: Path, perfdb: PerfDB, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The version is what each server's process told; results, locks and configurations keep them apart."""
    warm(tmp_path / "two", tmp_path_factory)
    results = run(tmp_path, YAML, perfdb)
    assert [result.backend.label for result in results] == [
        f"ONNX Runtime {each} in InferBench's FastAPI server" for each in (HERE, OLD)
    ]
    assert results[0].backend.settings == results[1].backend.settings
    locks = [result.extensions["lock"] for result in results]
    assert [lock["runtime"]["version"] for lock in locks] == [HERE, OLD]
    assert [lock["runtime"]["where"] for lock in locks] == ["here", "environment onnxruntime-1.27"]
    assert locks[0]["environment"] is None and locks[1]["environment"]["folder"] == old.name
    assert [(m["name"], m["version"]) for m in locks[1]["manifests"]] == [("onnxruntime", OLD)]
    assert [result.provenance.versions["onnxruntime"] for result in results] == [HERE, OLD]


@pytest.mark.long  # that each version serves and is told apart is above
def test_layers_of_two_versions_are_told_apart(
    tmp_path: Path, old: Path, perfdb: PerfDB, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """``stack --by version`` has both, the traced servers of each being of its version."""
    warm(tmp_path / "two", tmp_path_factory)
    traced = run(tmp_path, YAML + "trace: {deepest: layer, requests: 3, rounds: 1}\n", perfdb)
    subjects, left_out = newest(perfdb, [traced[0].model.name], "version")
    assert not left_out
    assert {each.profile.label for each in subjects} == {f"onnxruntime {number}" for number in (HERE, OLD)}


def test_a_form_that_the_older_one_does_not_know_is_refused(tmp_path: Path, old: Path) -> None:
    """Before there is a device, with the runtime's own words; a form that it knows is none of its concern."""

    def model(ir_version: int, opset: int) -> Path:
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y"))
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
        path = tmp_path / f"{ir_version}-{opset}.onnx"
        onnx.save(made, path)
        return path

    require_reads(model(8, 17), old, "onnxruntime 1.27.0")
    for ir_version, opset in ((99, 17), (8, 99)):
        with pytest.raises(
            InputError, match=rf"1\.27\.0 can't read .* IR version {ir_version} .* ai.onnx {opset}"
        ):
            require_reads(model(ir_version, opset), old, "onnxruntime 1.27.0")
