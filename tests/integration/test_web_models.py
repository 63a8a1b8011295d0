"""The pages of models, and what REST tells of one, on a real PerfDB."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from inferbench_tasks import settings
from inferbench_tasks.brick_jobs.result import BricksResult, PredictedModel, Times
from inferbench_tasks.brick_jobs.store import PerfDBResults
from inferbench_tasks.bricks.measure.method import Setting
from inferbench_tasks.client import InferBench
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.perfdb.documents import SubmissionInfo
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.ui.run_page import airflow_path
from inferbench_tasks.running.invocation import Invocation, dag_run_invocation
from tests.unit.perfdb.builders import latency, result
from tests.unit.training.epochs import JOB
from tests.unit.training.report.results import view

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
SETTING = Setting(processor="Some CPU", instruction_set="x", cores=4, threads=2, runtime="ort 1")
NASTY = "<script>alert(1)</script>"


@pytest.fixture
def seeded(perfdb: PerfDB) -> PerfDB:
    """Of ``digits`` two valid runs and one that is not, one of them evaluated; cut into bricks, and predicted."""
    model = {"name": "digits", "task": "image-classification", "dataset": "digits", "parameters": 1234}
    measures = {"top1_ratio": {"value": 0.975, "ci95": [0.95, 0.99], "method": "Wilson"}}
    under_load = {"measures": measures}
    evaluation: dict[str, Any] = {
        "dataset": "digits",
        "samples": 450,
        "under_load": under_load,
        "answers": {},
    }
    for number, verdict in enumerate(("valid", "valid", "invalid: late")):
        perfdb.save_result(
            latency(
                f"d-20260101T000000-12345678.{number:03d}",
                10.0 * (number + 1),
                model=model,
                verdict=verdict,
                submission={"name": "quick start", "user": "ann", "digest": f"{number:064x}"},
                extensions={"evaluation": evaluation} if number == 1 else {},
            )
        )
    perfdb.save_result(result("other", model={"name": NASTY}, verdict="invalid: late"))
    cuts = PerfDBResults(perfdb, SETTING)
    cuts.put_cut("whole-digits", "1", ("a", "b", "a"), ((), (0,), (1,)), {"model": "digits", "batch_size": 8})
    time = Times(ms=14.0, low_ms=13.0, high_ms=15.0)
    one = PredictedModel(
        batch_size=8, granularity="1", layers=3, bricks=3, unique=2, coverage_ratio=1.0,
        constructed=time, streamed=time, parallel=time,
    )  # fmt: skip
    perfdb.start_run("b.000", "b", "b", {"kind": "bricks", "name": "b"})
    perfdb.save_result(
        BricksResult(
            run_id="b.000", job_id="b", submission=SubmissionInfo(name="b"), verdict=Verdict.judged(()), role="model",
            model={"name": "digits"}, setting=SETTING.model_dump(mode="json"), predictions=[one],
        )
    )  # fmt: skip
    perfdb.end_run("b.000", Verdict.judged(()))
    return perfdb


def test_a_model_s_page_leads_to_all_that_is_known_of_it(seeded: PerfDB, http: TestClient) -> None:
    """Configurations by rank, runs with their verdicts, measures with interval and samples, bricks, predictions,
    manifests and submissions; each link from it is answered.
    """
    page = http.get("/inferbench/model", params={"name": "digits"})
    assert page.status_code == 200
    text = page.text
    assert "<b>3</b> results" in text and "<b>2</b> of them valid" in text
    ranks = re.findall(r'<td class="n">(\d)</td><td class="n">(1|2)0', text)
    assert ranks == [("1", "1"), ("1", "2")] or ranks == [("1", "1"), ("2", "2")]
    assert "top1_ratio 97.50% (95.00% to 99.00%)" in text and "450 samples of digits" in text
    assert "<td>x</td>" not in text and '<td class="n">3</td><td class="n">2</td>' in text, (
        "3 bricks, 2 different"
    )
    assert "13 – 15" in re.sub(r"\.0+", "", text) and "Some CPU" in text
    assert "/inferbench/manifest/model:digits@" in text and "quick start" in text
    assert "/inferbench/new?from=quickstart" in text
    links = set(re.findall(r'href="(/inferbench/[^"]+)"', text.replace("&amp;", "&"))) - {"/inferbench/home"}
    assert len(links) > 20
    known_runs = ("d-20260101T000000", "b.000")
    for link in links:
        if "/run/" in link and not any(run in link for run in known_runs):
            raise AssertionError(f"a link to a run of another model: {link}")
        answer = http.get(link)
        assert answer.status_code == 200, (link, answer.text[:300])
    (of_submission,) = {link for link in links if "submission" in link and "quick" in link}
    assert all(
        f"d-20260101T000000-12345678.00{number}" in http.get(of_submission).text for number in range(3)
    )


def test_what_rest_tells_of_a_model(seeded: PerfDB, http: TestClient) -> None:
    """The same as the page; a training's model has its trainings; a name that nothing is known of is a 404."""
    bench = InferBench("http://testserver", "ann", "x", http=http)  # type: ignore[arg-type]
    rows = {row["model"]: row for row in bench.models()}
    assert (rows["digits"]["valid_results"], rows["digits"]["configurations"]) == (2, 2)
    assert rows[NASTY]["valid_results"] == 0 and rows[NASTY]["newest"] is None
    known = bench.model("digits")
    assert [of["run"] for of in known["evaluations"]] == ["d-20260101T000000-12345678.001"]
    assert known["bricks"]["cuts"][0]["unique_bricks"] == 2
    assert known["bricks"]["predictions"][0]["ci95_ms"] == [13.0, 15.0]
    assert known["submissions"] == [{"name": "quick start", "valid_results": 2}]
    training = view("fast", 1, interval=(600, 700)).result
    assert training is not None
    seeded.start_run(training.run_id, "x-1", "x", JOB.model_dump(mode="json"))
    seeded.save_result(training)
    assert [of["run"] for of in bench.model("fashion-cnn")["trainings"]] == ["x-1.fast"]
    for path in ("/inferbench/model", "/inferbench/api/model"):
        missing = http.get(path, params={"name": "no such model"})
        assert missing.status_code == 404 and "no such model" in missing.text


def test_an_address_without_a_model_s_name_is_a_page(seeded: PerfDB, http: TestClient) -> None:
    """Which says so and leads to all models; a name that no model can have is a page with the reason, too."""
    for params in ({}, {"name": ""}, {"name": " "}, {"name": "a," * 149}):
        answer = http.get("/inferbench/model", params=params)
        assert answer.headers["content-type"].startswith("text/html"), (params, answer.text[:300])
        assert answer.status_code == 422 and 'href="/inferbench/models"' in answer.text
        assert "Which model?" in answer.text or params.get("name", "").startswith("a")


def test_a_wrong_manifest_hides_no_model(
    seeded: PerfDB, http: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of manifests that nobody can read is named on the page, with what is wrong with it, above all that is
    known of the model; a model of which nothing is known stays unknown."""
    folder = tmp_path / "own" / "manifests"
    folder.mkdir(parents=True)
    (folder / "bad.yaml").write_text("kind: model\nname: digits\nversion: one\n")
    monkeypatch.setenv("INFERBENCH_CONFIG_DIR", str(folder.parent))
    answer = http.get("/inferbench/model", params={"name": "digits"})
    assert answer.status_code == 200 and "<b>3</b> results" in answer.text
    assert "/inferbench/manifest/model:digits@" in answer.text
    missing = http.get("/inferbench/model", params={"name": "no such model"})
    assert missing.status_code == 404
    for text in (answer.text, missing.text):
        assert "bad.yaml" in text and "is no version" in text


def test_models_are_listed_and_lead_to_their_pages(seeded: PerfDB, http: TestClient) -> None:
    """By the list, the leaderboard, the list of runs and a run's page; a name is text wherever it stands."""
    way = "/inferbench/model?name=digits"
    run = "/inferbench/run/d-20260101T000000-12345678.000"
    for path in ("/inferbench/models", "/inferbench/leaderboard", "/inferbench/runs", run):
        text = http.get(path).text
        assert f'href="{way}"' in text, path
        assert NASTY not in text
    nasty = http.get("/inferbench/model", params={"name": NASTY})
    assert nasty.status_code == 200 and NASTY not in nasty.text and "No valid result yet." in nasty.text


def test_a_run_leads_back_to_airflow(seeded: PerfDB, http: TestClient) -> None:
    """To the DAG that executed it, where one of here did; never for a run of ``inferbench run``."""
    invocation = dag_run_invocation("team-a.quick-start", "manual__2026-01-01T00:00:00+00:00")
    assert airflow_path(invocation) is None, "no such folder here"
    folder = settings.data_dir() / "invocations" / invocation
    folder.mkdir(parents=True)
    assert airflow_path(invocation) == "/dags/team-a.quick-start/runs"
    (folder / "order.json").touch()
    assert airflow_path(invocation) is None
    assert airflow_path(Invocation.new(settings.data_dir(), "quick").id) is None
    assert airflow_path(None) is None
