"""``POST /bricks/predict`` and ``InferBench.predict_load`` on a real PerfDB: a submission that never ran."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient

from inferbench_tasks import settings
from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.store import PerfDBResults
from inferbench_tasks.brick_jobs.under_load.apart import rows_apart
from inferbench_tasks.brick_jobs.under_load.overhead import Conditions, Overhead, point_of, put
from inferbench_tasks.brick_jobs.under_load.rows import NO_TIME
from inferbench_tasks.brick_jobs.under_load.timed import COMMAND
from inferbench_tasks.client.api import InferBench
from inferbench_tasks.errors import InputError, SubmissionError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.api import bricks_load
from tests.integration.test_brick_load import CONDITIONS, YAML, known
from tests.integration.test_brick_predict import SETTING, cut
from tests.integration.test_brick_predict import put as put_brick
from tests.unit.bricks.graphs import residual

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
API = "/inferbench/api/bricks/predict"


@pytest.fixture
def bench(http: TestClient, tmp_path: Path, perfdb_uri: str, monkeypatch: pytest.MonkeyPatch) -> InferBench:
    """The model lies in the submissions folder, where it has a name and no more."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    monkeypatch.setenv("INFERBENCH_SUBMISSIONS_DIR", str(tmp_path))
    residual(tmp_path / "ours.onnx")
    inner: Any = http
    client: httpx.Client = inner
    return InferBench("http://testserver", "ann", "x", http=client)


def test_a_submission_is_predicted_from_what_is_stored_or_says_what_is_missing(
    bench: InferBench, tmp_path: Path, data_dir: Path, perfdb: PerfDB
) -> None:
    """Step by step: nothing measured, never cut, bricks without times, no overhead, then the figures of the command;
    another file of that name is another model, and has none."""
    with pytest.raises(InputError, match="no device has times of bricks yet.*bricks predict FILE.yaml"):
        bench.predict_load(YAML)
    store = PerfDBResults(perfdb, SETTING)
    store.set_base_ns({"dense": 1.0})
    with pytest.raises(InputError, match="this model was never cut here.*bricks predict FILE.yaml"):
        bench.predict_load(YAML, device="some")
    one = cut(tmp_path / "ours.onnx", data_dir)
    store.put_cuts([one])
    conditions = Conditions(
        backend="onnxruntime", runtime="onnxruntime 1", inferbench=version("inferbench"), protocol="http",
        client="fast", processor="Some CPU", cores=2,
    )  # fmt: skip
    with pytest.raises(InputError, match="nobody measured what onnxruntime adds over http"):
        bench.predict_load(YAML)
    points = [point_of(n, np.full(200, 500_000), np.full(200, 50_000), 10_000.0) for n in (8, 10_000)]
    put(perfdb, Overhead(conditions=conditions, points=tuple(points), runs=("r",)))
    unique = list(dict.fromkeys(one.parts))
    for identity in unique[1:]:
        put_brick(perfdb, identity, 1.0)
    answer = bench.predict_load(YAML)
    assert [job["capacity_rps"] for job in answer["jobs"]] == [None, None]
    assert answer["jobs"][0]["coverage_ratio"] == 0 and "p50_ms" not in answer["jobs"][0]
    assert answer["missing"] == [
        f"1 of {len(unique)} unique bricks have no time on Some CPU at batch 1; {COMMAND}"
    ]
    put_brick(perfdb, unique[0], 1.0)
    answer = bench.predict_load(YAML, device="some")
    calm, many = answer["jobs"]
    assert answer["missing"] == [] and list(calm)[2:4] == ["warning", "coverage_ratio"]
    assert calm["state"] == "stable" and calm["coverage_ratio"] == 1 and calm["warning"] is None
    assert calm["p50_ms"] == pytest.approx(calm["p99_ms"]) == pytest.approx(len(one.parts) + 0.5)
    assert many["state"] == "unstable: queue grows" and many["p50_ms"] is None
    assert many["saturation_rps"] == pytest.approx(1000 / (len(one.parts) + 0.05))
    residual(tmp_path / "ours.onnx", seed=7)
    with pytest.raises(InputError, match="never cut here"):
        bench.predict_load(YAML)


def test_a_job_that_was_not_simulated_in_time_says_so_beside_what_is_ready(
    bench: InferBench, tmp_path: Path, data_dir: Path, perfdb: PerfDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is known without a simulation, and nothing that would have to be measured. Two servers on different
    numbers of cores have to be told apart first."""
    one = cut(tmp_path / "ours.onnx", data_dir)
    store = PerfDBResults(perfdb, SETTING)
    store.put_cuts([one])
    known(perfdb, one)
    monkeypatch.setattr(bricks_load, "rows_apart", lambda orders, timeout_s: rows_apart(orders, 0.0))
    answer = bench.predict_load(YAML, cores=2)
    assert answer["missing"] == [] and len(answer["jobs"]) == 2
    for job in answer["jobs"]:
        assert job["state"].startswith(NO_TIME) and job["coverage_ratio"] == 1
        assert (
            job["capacity_rps"] is None
            and "p50_ms" not in job
            and job["overhead"]["conditions"]["cores"] == 2
        )
    with pytest.raises(InputError, match="and 3 cores \\(known: 2\\)"):
        bench.predict_load(YAML, cores=3)


def _two_models(perfdb: PerfDB, tmp_path: Path, data_dir: Path) -> tuple[str, CutModel]:
    """A submission of a model all of which is known, and of another one, which is cut."""
    one = cut(tmp_path / "ours.onnx", data_dir)
    PerfDBResults(perfdb, SETTING).put_cuts([one])
    known(perfdb, one)
    path = residual(tmp_path / "other.onnx", pads=[2, 2, 2, 2], dilations=[2, 2])
    swept = YAML.replace("load.arrivals.rate_rps: [20, 1000000]", "model.path: [other.onnx, ours.onnx]")
    return swept, cut(path, data_dir)


def test_a_job_that_can_not_be_predicted_leaves_the_others(
    bench: InferBench, tmp_path: Path, data_dir: Path, perfdb: PerfDB
) -> None:
    """A model that was never cut, requests beyond what was measured of a protocol: the row says why and what helps, in
    its place; the others have their figures."""
    swept, _ = _two_models(perfdb, tmp_path, data_dir)
    answer = bench.predict_load(swept, device="some")
    other, ours = answer["jobs"]
    assert [job["point"]["model.path"] for job in answer["jobs"]] == ["other.onnx", "ours.onnx"]
    assert (
        other["state"].startswith("no prediction: model: this model was never cut here")
        and COMMAND in other["state"]
    )
    assert (other["coverage_ratio"], other["capacity_rps"]) == (None, None) and "p50_ms" not in other
    assert ours["state"] == "stable" and ours["p50_ms"] > 0
    assert answer["missing"] == [other["state"].removeprefix("no prediction: ")]
    points = [point_of(n, np.full(200, 500_000), np.full(200, 50_000), 10_000.0) for n in (1, 2)]
    small = CONDITIONS.model_copy(update={"protocol": "grpc"})
    put(perfdb, Overhead(conditions=small, points=tuple(points), runs=("r",)))
    protocols = YAML.replace("load.arrivals.rate_rps: [20, 1000000]", "load.protocol: [grpc, http]")
    large, ours = bench.predict_load(protocols, device="some")["jobs"]
    assert "is not said beyond 8 times that" in large["state"] and ours["state"] == "stable"


def test_a_late_job_without_a_time_is_not_told_to_shorten_its_load(
    bench: InferBench, tmp_path: Path, data_dir: Path, perfdb: PerfDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No simulation, however long, would have predicted it: it says which times are missing, and what measures them."""
    swept, other = _two_models(perfdb, tmp_path, data_dir)
    PerfDBResults(perfdb, SETTING).put_cuts([other])
    monkeypatch.setattr(bricks_load, "rows_apart", lambda orders, timeout_s: rows_apart(orders, 0.0))
    answer = bench.predict_load(swept, cores=2)
    lacking, late = (job["state"] for job in answer["jobs"])
    assert "unique bricks have no time on Some CPU" in lacking and COMMAND in lacking
    assert NO_TIME not in lacking and late.startswith(NO_TIME)
    assert answer["missing"] == [lacking.removeprefix("no prediction: ")]


def test_what_is_not_predicted_is_refused_with_its_line(bench: InferBench, http: TestClient) -> None:
    """As by the command, all at once; too many jobs, a constructor and a shape that there are not."""
    text = YAML.replace("onnxruntime}", "onnxruntime, instances: 64}") + "convert: {precision: bf16}\n"
    with pytest.raises(SubmissionError) as refused:
        bench.predict_load(text)
    assert [(problem.field, problem.line) for problem in refused.value.problems] == [
        ("convert.precision", 10)
    ]
    rates = ", ".join(map(str, range(1, 22)))
    answer = http.post(API, json={"submission": YAML.replace("[20, 1000000]", f"[{rates}]")})
    assert answer.status_code == 422 and "21 jobs; at most 20" in answer.text
    for query in ({"constructor": "none"}, {"shape": "x"}, {"calibrate_on": "2"}):
        assert http.post(API, params=query, json={"submission": YAML}).status_code == 422
