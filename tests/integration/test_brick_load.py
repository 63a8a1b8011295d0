"""``inferbench bricks predict FILE.yaml`` on a real PerfDB, with a real model and times that are put there."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks import settings
from inferbench_tasks.brick_jobs.cut_all import asked_to_cut
from inferbench_tasks.brick_jobs.inside.opened import job_of
from inferbench_tasks.brick_jobs.store import PerfDBResults
from inferbench_tasks.brick_jobs.under_load.no_work import REMEDY
from inferbench_tasks.brick_jobs.under_load.overhead import Conditions, Overhead, point_of, put
from inferbench_tasks.brick_jobs.under_load.timed import timed_stored
from inferbench_tasks.cli.bricks_overhead import overhead_of
from inferbench_tasks.cli.main import main
from inferbench_tasks.errors import StageError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stages.base import Context
from inferbench_tasks.submission.model import FileModel
from tests.integration.test_brick_predict import SETTING, cut
from tests.integration.test_brick_predict import put as put_brick
from tests.unit.bricks.graphs import residual

pytestmark = pytest.mark.integration
YAML = """\
name: ours
model: {kind: file, path: ours.onnx}
serve: {backend: onnxruntime}
load:
  arrivals: {kind: constant, rate_rps: 20}
  duration_s: 10
sweep:
  grid:
    load.arrivals.rate_rps: [20, 1000000]
"""


CONDITIONS = Conditions(
    backend="onnxruntime", runtime="onnxruntime 1", inferbench=version("inferbench"), protocol="http", client="fast",
    processor="Some CPU", cores=2,
)  # fmt: skip


@pytest.fixture
def file(tmp_path: Path, data_dir: Path, perfdb_uri: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    residual(tmp_path / "ours.onnx")
    path = tmp_path / "ours.yaml"
    path.write_text(YAML)
    return path


def predict(file: Path, *arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["bricks", "predict", str(file), *arguments])
    return int(end.value.code or 0)


def known(perfdb: PerfDB, one: Any) -> None:
    """A time of each brick, and what a server adds over HTTP."""
    PerfDBResults(perfdb, SETTING).set_base_ns({"dense": 1.0})
    for identity in dict.fromkeys(one.parts):
        put_brick(perfdb, identity, 1.0)
    points = [point_of(n, np.full(200, 500_000), np.full(200, 50_000), 10_000.0) for n in (8, 10_000)]
    put(perfdb, Overhead(conditions=CONDITIONS, points=tuple(points), runs=("r",)))


def test_a_machine_that_is_too_busy_to_measure_a_server_does_not_fail_all_jobs(
    file: Path,
    data_dir: Path,
    perfdb: PerfDB,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The jobs of another protocol are predicted; of this one the row says why, and what helps; exit code 1."""
    from inferbench_tasks.cli import bricks_load

    def busy(db: PerfDB, way: Any, processor: str | None, cores: int | None) -> Overhead:
        if way[1] == "grpc":
            raise StageError(f"the load of pauses was invalid. {REMEDY}")
        return overhead_of(db, way, processor, cores)

    monkeypatch.setattr(bricks_load, "overhead_of", busy)
    known(perfdb, cut(file.with_name("ours.onnx"), data_dir))
    file.write_text(YAML.replace("load.arrivals.rate_rps: [20, 1000000]", "load.protocol: [grpc, http]"))
    assert predict(file, "--device", "some", "-o", "json") == 1
    out, err = capsys.readouterr()
    none, calm = json.loads(out)
    assert none["state"].startswith("no prediction: the load of pauses was invalid") and REMEDY in err
    assert "p50_ms" not in none and none["coverage_ratio"] is None
    assert calm["state"] == "stable" and calm["p50_ms"] > 0
    assert predict(file, "--device", "some") == 1  # as a table


def test_a_submission_that_never_ran_has_figures_from_what_is_stored(
    file: Path, data_dir: Path, perfdb: PerfDB, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the server's overhead it is refused; with it the sum of the bricks and of what is added is every
    percentile of regular arrivals; too many have none, and are called unstable."""
    one = cut(file.with_name("ours.onnx"), data_dir)
    PerfDBResults(perfdb, SETTING).set_base_ns({"dense": 1.0})
    for identity in dict.fromkeys(one.parts):
        put_brick(perfdb, identity, 1.0)
    assert predict(file, "--device", "some", "-o", "json") == 2
    assert (
        "nobody measured what onnxruntime adds over http (client fast) on Some CPU" in capsys.readouterr().err
    )
    known(perfdb, one)
    assert predict(file, "--device", "some", "-o", "json") == 0
    calm, many = json.loads(capsys.readouterr().out)
    assert calm["state"] == "stable" and calm["coverage_ratio"] == 1
    assert calm["p50_ms"] == pytest.approx(calm["p99_ms"]) == pytest.approx(len(one.parts) + 0.5)
    assert calm["saturation_rps"] == pytest.approx(1000 / (len(one.parts) + 0.05))
    assert many["state"] == "unstable: queue grows" and many["p50_ms"] is None


def test_what_a_server_adds_on_other_cores_is_never_taken_unsaid(
    file: Path, data_dir: Path, perfdb: PerfDB, capsys: pytest.CaptureFixture[str]
) -> None:
    """Measured with 2 cores and, later, with 16 of the same processor: which is meant has to be said, is used, and one
    that nobody measured is refused; so is a number of cores of no other device."""
    known(perfdb, cut(file.with_name("ours.onnx"), data_dir))
    points = [point_of(n, np.full(200, 900_000), np.full(200, 50_000), 10_000.0) for n in (8, 10_000)]
    sixteen = CONDITIONS.model_copy(update={"cores": 16})
    put(perfdb, Overhead(conditions=sixteen, points=tuple(points), runs=("r",)))
    assert predict(file, "--device", "some") == 2
    assert "was measured on Some CPU with InferBench" in (err := capsys.readouterr().err)
    assert "with 2, 16 cores: say which is meant" in err
    added = []
    for cores in (2, 16):
        assert predict(file, "--device", "some", "--cores", str(cores), "-o", "json") == 0
        calm, _ = json.loads(capsys.readouterr().out)
        assert calm["overhead"]["conditions"]["cores"] == cores
        added.append(calm["p50_ms"])
    assert added[1] - added[0] == pytest.approx(0.4)
    assert predict(file, "--device", "some", "--cores", "4") == 2
    assert "and 4 cores (known: 2, 16)" in capsys.readouterr().err
    assert predict(file, "--cores", "4") == 2


def test_a_model_that_can_not_be_cut_leaves_the_others(
    file: Path, data_dir: Path, perfdb: PerfDB, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a sweep over models: its row says why, the other has its figures; exit code 1. Alone it is an error."""
    known(perfdb, cut(file.with_name("ours.onnx"), data_dir))
    file.with_name("broken.onnx").write_bytes(b"no model")
    file.write_text(
        YAML.replace("load.arrivals.rate_rps: [20, 1000000]", "model.path: [broken.onnx, ours.onnx]")
    )
    assert predict(file, "--device", "some", "-o", "json") == 1
    out, err = capsys.readouterr()
    none, calm = json.loads(out)
    assert none["state"].startswith("no prediction: ") and none["capacity_rps"] is None
    assert none["state"].removeprefix("no prediction: ") in err and "1 of 2 jobs have no prediction" in err
    assert calm["state"] == "stable" and calm["coverage_ratio"] == 1
    file.write_text(YAML.replace("ours.onnx", "broken.onnx"))
    assert predict(file, "--device", "some") in (1, 2)
    assert not capsys.readouterr().out


def test_two_versions_of_a_runtime_never_make_one_prediction(
    file: Path, data_dir: Path, perfdb: PerfDB
) -> None:
    """The newer one has all bricks at batch 1 and none at 2, the older one all: both sizes are the older one's. With
    another processor whose name begins alike, the one that is named is meant."""
    newer = SETTING.model_copy(update={"runtime": "onnxruntime 2"})
    other = SETTING.model_copy(update={"processor": "Some CPU 2", "runtime": "onnxruntime 3"})
    one = asked_to_cut(
        Context(data_dir=data_dir, base_dir=file.parent), set(), run_id="r", job_id="r",
        job=job_of("t", FileModel(kind="file", path="ours.onnx")), networks=False, batch_sizes=(1, 2),
    )  # fmt: skip
    small, large = one.cuts
    for setting, ms, cuts in ((SETTING, 1.0, one.cuts), (newer, 10.0, [small]), (other, 99.0, one.cuts)):
        PerfDBResults(perfdb, setting).set_base_ns({"dense": 1.0})
        for identity in {part for each in cuts for part in each.parts}:
            put_brick(perfdb, identity, ms, setting=setting)
    timed = timed_stored(perfdb, one, "Some CPU", 1, 3, "sequential")
    assert {size: row["runtime"] for size, row in timed.rows.items()} == {
        1: "onnxruntime 1",
        2: "onnxruntime 1",
    }
    assert timed.rows[1]["predicted_ms"] == pytest.approx(len(small.parts))
    assert timed.rows[2]["predicted_ms"] == pytest.approx(len(large.parts))
    assert {result.setting.runtime for result in timed.runs.values()} == {"onnxruntime 1"}


def test_what_is_not_predicted_is_refused_with_its_line(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of it at once, before anything is started; options that a submission answers itself are refused too."""
    file.write_text(
        YAML.replace("onnxruntime}", "onnxruntime, instances: 64}") + "convert: {precision: bf16}\n"
    )
    assert predict(file) == 2
    err = capsys.readouterr().err
    assert "ours.yaml:3: serve.instances: 64 instances with 1 threads each need 64 cores" in err
    assert "ours.yaml:10: convert.precision: not predicted" in err
    assert predict(file, "--threads", "2") == 2
    assert (
        "leave --batch-size, --framework, --precision, --runtime, --threads and --whole out"
        in capsys.readouterr().err
    )
