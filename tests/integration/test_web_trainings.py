"""Trainings over REST and as pages, on a real PerfDB."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from inferbench_tasks import settings
from inferbench_tasks.cli.trace import app as trace_app
from inferbench_tasks.cli.training import app
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.ui.home import last_verdicts
from inferbench_tasks.training import step_spans, steps
from inferbench_tasks.training.diagnosis import verified
from inferbench_tasks.training.diagnosis.verified import Verified
from inferbench_tasks.training.result import without_figures
from tests.schedulers import device
from tests.unit.training.epochs import JOB, MS, STEP_MS, answer
from tests.unit.training.fleet.test_rows import result as on_device
from tests.unit.training.report.results import view
from tests.unit.training.scaling.made import result as scaling_result

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
API = "/inferbench/api/trainings"


@pytest.fixture
def trainings(perfdb: PerfDB, tmp_path: Path) -> dict[str, str]:
    """One of 12 ms a step, one twice as slow, and an invalid one: label -> run id."""
    path = tmp_path / "steps.parquet"
    steps.write([answer(0)], path)
    run_ids = {}
    for label, factor, wrong in (("fast", 1, None), ("slow", 2, None), ("bad", 3, "nobody <b>watched</b>")):
        result = view(label, factor, interval=(600, 700), wrong=wrong).result
        perfdb.start_run(result.run_id, "x-1", "x", JOB.model_dump(mode="json"))
        perfdb.save_result(result, path)
        perfdb.end_run(result.run_id, result.verdict)
        run_ids[label] = result.run_id
    return run_ids


def test_lists_have_all_and_orders_the_valid_ones(http: TestClient, trainings: dict[str, str]) -> None:
    """Sorted by a figure an invalid run has no place; filters are exact; an unknown name is a 422 that lists them."""
    everything = http.get(API).json()["items"]
    assert {row["run"] for row in everything} == set(trainings.values())
    ordered = http.get(API, params={"sort": "-step_ms"}).json()["items"]
    assert [row["run"] for row in ordered] == [trainings["slow"], trainings["fast"]]
    assert [row["step_ms"] for row in ordered] == [24.0, 12.0]
    assert len(http.get(API, params={"data": "digits"}).json()["items"]) == 3
    assert http.get(API, params={"data": "jpeg"}).json()["items"] == []
    page = http.get(API, params={"limit": 2}).json()
    assert len(page["items"]) == 2 and page["next_offset"] == 2
    refused = http.get(API, params={"sort": "speed"})
    assert refused.status_code == 422 and "loading_ms" in refused.text


def test_a_list_by_time_begins_with_the_oldest(http: TestClient, perfdb: PerfDB, tmp_path: Path) -> None:
    """1, 2 and 3 o'clock in that order by ``created``, the other way round by ``-created`` and unasked."""
    path = tmp_path / "steps.parquet"
    steps.write([answer(0)], path)
    for hour in (2, 1, 3):
        made = view(str(hour)).result
        perfdb.save_result(
            made.model_copy(update={"created_at": datetime(2026, 5, 1, hour, tzinfo=UTC)}), path
        )

    def listed(**how: str) -> list[str]:
        return [row["run"] for row in http.get(API, params=how).json()["items"]]

    assert listed(sort="created") == ["x-1.1", "x-1.2", "x-1.3"]
    assert listed(sort="-created") == listed() == ["x-1.3", "x-1.2", "x-1.1"]


@pytest.mark.parametrize("sort", ["", "created", "-created", "step_ms"])
def test_pages_of_equal_trainings_have_each_once(
    http: TestClient, perfdb: PerfDB, tmp_path: Path, sort: str
) -> None:
    """Nine of the same step at the same moment, two a page: by their names, which are in no order as they came."""
    path = tmp_path / "steps.parquet"
    steps.write([answer(0)], path)
    at = datetime(2026, 5, 1, tzinfo=UTC)
    for label in "dgbfiaceh":
        perfdb.save_result(view(label).result.model_copy(update={"created_at": at}), path)
    pages = [http.get(API, params={"sort": sort, "limit": 2, "offset": of}).json() for of in range(0, 10, 2)]
    rows = [row["run"] for page in pages for row in page["items"]]
    assert rows == [f"x-1.{label}" for label in "abcdefghi"]


def test_a_failed_training_is_one_of_the_last_verdicts_once(perfdb: PerfDB) -> None:
    """It is in the list of runs as well as in that of trainings; eleven runs that go on hide no verdict."""
    killed = Verdict.failed("train", "rank 1 was killed")
    for run in ("s-1.000", "t-1.000"):
        perfdb.start_run(run, run[:3], "x", JOB.model_dump(mode="json"))
        perfdb.end_run(run, killed)
    record = perfdb.get_run("t-1.000")
    perfdb.save_result(without_figures(record, killed))
    for at in range(11):
        perfdb.start_run(f"u-1.{at:03d}", "u-1", "x", JOB.model_dump(mode="json"))
    last = last_verdicts(perfdb)
    assert sorted(row["run"] for row in last) == ["s-1.000", "t-1.000"]
    assert {row["verdict"] for row in last} == {"failed: train, rank 1 was killed"}


def test_clusters_are_names_of_workers_and_of_trainings(
    http: TestClient, perfdb: PerfDB, perfdb_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with its devices and trainings; two of them are compared by their newest valid runs of the same job."""
    path = tmp_path / "steps.parquet"
    steps.write([answer(0)], path)
    for label, name, factor in (("a", "old", 1), ("b", "new", 2), ("c", "new", 3), ("d", "sick", 1)):
        result = view(label, factor, interval=(600, 700), wrong="no" if label in "cd" else None).result
        submission = result.submission.model_copy(update={"digest": "f" * 64})
        result = result.model_copy(update={"cluster": name, "submission": submission})
        perfdb.start_run(result.run_id, "x-1", "x", JOB.model_dump(mode="json"))
        perfdb.save_result(result, path)
        perfdb.end_run(result.run_id, result.verdict)
    Cluster(perfdb).register(device("d").model_copy(update={"cluster": "new"}))
    new, old, sick = http.get("/inferbench/api/clusters").json()["items"]
    assert (sick["cluster"], sick["trainings"], sick["valid"]) == ("sick", 1, 0)
    assert (new["cluster"], new["devices"], new["types"]) == ("new", 1, "1 x cpu")
    assert (new["trainings"], new["valid"], old["cluster"], old["devices"]) == (2, 1, "old", 0)
    assert [row["run"] for row in http.get(API, params={"cluster": "old"}).json()["items"]] == ["x-1.a"]
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    told = CliRunner().invoke(app, ["compare", "old", "new", "-o", "json"])
    document = json.loads(told.stdout)
    step = next(row for row in document["figures"] if row["figure"] == "step, ms")
    assert step["ratio"] == pytest.approx(2) and "cluster: old and new" in document["notes"]
    refused = CliRunner().invoke(app, ["compare", "old", "sick"])
    assert str(refused.exception) == "no training of sick is valid, and only valid ones are compared"


def test_csv_has_the_same_lines(http: TestClient, trainings: dict[str, str]) -> None:
    """Also of one run."""
    rows = list(csv.DictReader(io.StringIO(http.get(API + "?format=csv").text)))
    assert {row["run"]: row["step_ms"] for row in rows}[trainings["slow"]] == "24.0"
    (row,) = csv.DictReader(io.StringIO(http.get(f"{API}/{trainings['fast']}?format=csv").text))
    assert row["loading_ms"] == "4.0"


def test_one_has_its_result_and_its_steps(http: TestClient, trainings: dict[str, str]) -> None:
    """Everything as JSON; the raw steps as Parquet and CSV, rank by rank; 404 for what there is not."""
    document = http.get(f"{API}/{trainings['fast']}").json()
    assert document["summary"]["synchronised"]["step_ms"]["mean"] == 12.0
    file = http.get(f"{API}/{trainings['fast']}/steps").content
    table = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(file)).read().to_pylist()
    lines = list(csv.DictReader(io.StringIO(http.get(f"{API}/{trainings['fast']}/steps?format=csv").text)))
    assert len(lines) == len(table) > 40 and {"rank", "step", "step_ns"} <= set(lines[0])
    assert http.get(f"{API}/none").status_code == 404


def test_its_steps_are_traces_by_rest_and_by_command(
    http: TestClient,
    trainings: dict[str, str],
    perfdb_uri: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Listed beside traced requests, found by level and name, and written as OTLP and for Chrome."""
    run = trainings["fast"]
    asked: dict[str, str] = {"level": "framework", "name": "forward", "limit": "5"}
    items = http.get(f"/inferbench/api/traces/{run}/spans", params=asked).json()["items"]
    assert [(span["name"], span["duration_ns"]) for span in items] == [("forward", 5_000_000)] * 5
    graph = http.get(f"/inferbench/api/traces/{run}/flamegraph").json()
    # Three rounds of 2 steps of warm-up, 20 measured and one smaller; a step is all ranks'.
    assert (graph["requests"], graph["apart"]) == (60, {"warmup": 6, "last": 3})
    first = graph["frames"][0]
    assert (first["name"], first["spans"], first["total_ns"]) == ("step", 60, 60 * STEP_MS * MS)
    asked = {"part": "warmup"}
    warmup = http.get(f"/inferbench/api/traces/{run}/flamegraph", params=asked).json()
    assert (warmup["requests"], warmup["apart"]) == (6, {"measured": 60, "last": 3})
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    listed = json.loads(CliRunner().invoke(trace_app, ["list", "-o", "json"]).stdout)
    assert {(row["run"], row["origin"]) for row in listed} == {(of, "training") for of in trainings.values()}
    for name in ("steps.otlp.json", "steps.json"):
        written = CliRunner().invoke(trace_app, ["export", run, str(tmp_path / name)])
        assert written.exit_code == 0, written.output
    (resource,) = json.loads((tmp_path / "steps.otlp.json").read_text())["resourceSpans"]
    assert len(resource["scopeSpans"][0]["spans"]) == 3 * 23 * 5
    timeline = (tmp_path / "steps.json").read_bytes()
    assert sum(event["ph"] == "X" for event in json.loads(timeline)["traceEvents"]) == 3 * 23 * 5
    # One content, whoever writes it.
    assert http.get(f"/inferbench/api/traces/{run}", params={"format": "perfetto"}).content == timeline
    written = CliRunner().invoke(app, ["export", str(tmp_path / "again.json"), run])
    assert written.exit_code == 0, written.output
    assert (tmp_path / "again.json").read_bytes() == timeline


def test_a_run_of_two_attempts_is_one_trace_the_last(
    perfdb: PerfDB, perfdb_uri: str, trainings: dict[str, str], tmp_path: Path
) -> None:
    """Of two attempts with steps the list has the second, which is exported, too; a third without steps hides none."""
    path = tmp_path / "again.parquet"
    steps.write([answer(0), answer(1)], path)
    first = view("fast").result
    for attempt in (2, 3):
        again = first.model_copy(update={"attempt": attempt, "samples": None})
        perfdb.save_result(again, path if attempt == 2 else None)
    listed = step_spans.listed(perfdb)
    assert sorted(row["run"] for row in listed) == sorted(trainings.values())
    assert [row["run"] for row in step_spans.listed(perfdb, limit=2)] == [row["run"] for row in listed][:2]
    found = step_spans.find(perfdb, first.run_id)
    assert found is not None and found.attempt == 2
    assert len(step_spans.table(perfdb, found)) == 3 * 23 * (1 + 2 * 4)


def test_a_fleet_is_asked_for_with_its_rate(http: TestClient, perfdb: PerfDB, tmp_path: Path) -> None:
    """Six devices, one of them three times as slow: it is named, and its history is its own runs."""
    path = tmp_path / "steps.parquet"
    steps.write([answer(0)], path)
    for at in range(6):
        result = on_device(f"d{at}", f"d{at}", 3 if at == 2 else 1)
        perfdb.start_run(result.run_id, "x-1", "x", JOB.model_dump(mode="json"))
        perfdb.save_result(result, path)
        perfdb.end_run(result.run_id, result.verdict)
    document = http.get(f"{API}/fleet").json()
    assert document["false_alarms"] == 0.01
    words = {row["device"]: row["is"] for row in document["items"]}
    assert words.pop("d2") == "slower than its kind" and document["items"][0]["device"] == "d2"
    assert len(words) == 5 and set(words.values()) == {"as its kind"}
    # 30 ms of a batch of 8, by 267 samples/s.
    assert document["items"][0]["step_ms"] == pytest.approx(30.0)
    (row,) = http.get(f"{API}/fleet", params={"device": "d2"}).json()["items"]
    assert (row["run"], row["by_the_first"]) == ("x-1.d2", 1.0)
    assert http.get(f"{API}/fleet", params={"rate": 2}).status_code == 422


def test_two_are_compared_and_an_invalid_one_is_not(http: TestClient, trainings: dict[str, str]) -> None:
    """Twice as slow is a ratio of 2; the page says the same."""
    pair = {"run": [trainings["fast"], trainings["slow"]]}
    (comparison,) = http.get(f"{API}/compare", params=pair).json()["comparisons"]
    assert {row["figure"]: row["ratio"] for row in comparison["figures"]}["step, ms"] == pytest.approx(2.0)
    assert "2.000" in http.get("/inferbench/trainings/compare", params=pair).text
    bad = {"run": [trainings["fast"], trainings["bad"]]}
    refused = http.get(f"{API}/compare", params=bad)
    assert refused.status_code == 422 and "don't count" in refused.text
    page = http.get("/inferbench/trainings/compare", params=bad)
    assert page.status_code == 200 and "watched" in page.text and "<b>watched" not in page.text
    assert http.get(f"{API}/compare", params={"run": [trainings["fast"]]}).status_code == 422


def test_the_page_shows_every_run_with_its_verdict(http: TestClient, trainings: dict[str, str]) -> None:
    """Only valid ones can be ticked; values are escaped; a list of none says how to begin."""
    page = http.get("/inferbench/trainings").text
    assert all(run_id in page for run_id in trainings.values())
    assert page.count('type="checkbox"') == 2 and "<b>watched" not in page
    assert "Nothing matches" in http.get("/inferbench/trainings", params={"model": "none"}).text
    assert 'role="alert"' in http.get("/inferbench/trainings", params={"sort": "speed"}).text


def test_the_page_of_a_run_draws_its_phases(http: TestClient, trainings: dict[str, str]) -> None:
    """With the charts of the training's report, from the raw steps, and what holds it up."""
    page = http.get(f"/inferbench/run/{trainings['fast']}").text
    assert "data-charts" in page and "step ms" in page
    assert "<dt>benchmark</dt><dd>inference</dd>" in page and "<dt>processes</dt><dd>1</dd>" in page
    assert f"/inferbench/api/trainings/{trainings['fast']}/steps?format=csv" in page
    assert "Certificate of its figures" in page and "stimulus" not in page
    assert "On the leaderboard" not in page, "which ranks servers"
    invalid = http.get(f"/inferbench/run/{trainings['bad']}").text
    assert "not valid" in invalid and "nobody &lt;b&gt;watched" in invalid
    sections = http.get(f"/inferbench/api/runs/{trainings['fast']}/charts").json()["sections"]
    titles = [section["title"] for section in sections]
    assert titles == ["What holds it up", "Steps", "Phases", "Over the steps"]
    assert len(sections[1]["charts"]) == 2, "the phases, and the steps over time"
    (over_steps,) = sections[3]["charts"]
    assert "the phases of each step" in over_steps["layout"]["title"]["text"]
    drawn = {trace["name"]: trace["y"] for trace in over_steps["data"]}
    assert set(drawn["loading"]) == {4.0} and len(drawn["loading"]) == 60, "three rounds of twenty steps"


def test_what_a_remedy_brought_is_kept_beside_the_diagnosis(
    http: TestClient, perfdb: PerfDB, trainings: dict[str, str]
) -> None:
    """Over REST and on the run's page; kept again it stands there once; another run has none of it, nor has another
    attempt of this one. Deleting the training takes its steps and its remedies too.
    """
    run = trainings["fast"]
    of = Verified(
        run=run, attempt=1, rule="fetch", remedied="y-1.000", changes={"data.where": "memory"}, step_ms=12.0,
        predicted_ms=8.0, measured_ms=9.0, predicted_by_measured=8 / 9, predicted_gain_ms=4.0, measured_gain_ms=3.0,
        verdict="valid",
    )  # fmt: skip
    for _ in range(2):
        verified.keep(perfdb, of)
    document = http.get(f"{API}/{run}/diagnosis").json()
    (kept,) = document["verified"]
    assert kept["measured_gain_ms"] == 3.0 and kept["changes"] == {"data.where": "memory"}
    assert document["sentence"].startswith("No cause is named")
    tables = http.get(f"/inferbench/api/runs/{run}/charts").json()["sections"][0]["tables"]
    assert tables[1]["title"] == "Remedies that were run" and tables[1]["rows"][0][3] == "y-1.000"
    assert http.get(f"{API}/{trainings['slow']}/diagnosis").json()["verified"] == []
    assert http.get(f"{API}/none/diagnosis").status_code == 404
    assert verified.of_run(perfdb, run, 2) == []
    files = perfdb.sizes()["files"]
    assert perfdb.delete_result(run) == 1 and verified.of_run(perfdb, run, 1) == []
    assert http.get(f"{API}/{run}").status_code == 404 and perfdb.sizes()["files"] == files - 1


@pytest.fixture
def scaled(perfdb: PerfDB, tmp_path: Path) -> None:
    """One rank with 1,000 samples/s, and two with 1,600: 8 and 10 ms a step."""
    for label, ranks, rate in (("one", 1, 1000.0), ("two", 2, 1600.0)):
        result = scaling_result(f"s-1.{label}", ranks, 8, rate)
        path = tmp_path / f"{label}.parquet"
        steps.write([answer(rank) for rank in range(ranks)], path)
        perfdb.start_run(result.run_id, "s-1", "x", JOB.model_dump(mode="json"))
        perfdb.save_result(result, path)
        perfdb.end_run(result.run_id, result.verdict)


def test_scaling_is_the_same_over_rest_and_by_the_command_line(
    http: TestClient, scaled: None, perfdb_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weak scaling of 1.6 on two ranks; no run has that path; a filter that leaves nothing is a 422 with the remedy."""
    (curve,) = http.get(f"{API}/scaling").json()["curves"]
    assert curve["kind"] == "weak" and [point["ranks"] for point in curve["points"]] == [1, 2]
    assert curve["points"][1]["speedup"] == pytest.approx(1.6)
    assert {of["ranks"] for of in curve["forecast"]} == {4, 8, 16, 32, 64}
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    told = CliRunner().invoke(app, ["scaling", "-o", "json"])
    assert json.loads(told.stdout) == [curve]
    assert "Prediction, not measured" in CliRunner().invoke(app, ["scaling", "--ranks", "3"]).stdout
    rows = list(csv.DictReader(io.StringIO(http.get(f"{API}/scaling?format=csv").text)))
    assert [row["efficiency"] for row in rows] == ["1.0", "0.8"]
    refused = http.get(f"{API}/scaling", params={"submission": "other"})
    assert refused.status_code == 422 and "devices.processes: [1, 2]" in refused.text
    assert isinstance(CliRunner().invoke(app, ["scaling", "--ranks", "1"]).exception, InputError)


def test_the_page_of_scaling_says_what_is_measured_and_what_is_predicted(
    http: TestClient, scaled: None
) -> None:
    """Speed-up 1.6 at an efficiency of 0.8, with a chart; a filter that leaves nothing is the remedy in words."""
    page = http.get("/inferbench/trainings/scaling")
    assert page.status_code == 200 and "Prediction, not measured" in page.text and "data-draw" in page.text
    row = page.text.split("s-1.two</a>")[1].split("</tr>")[0]
    assert ">1.6 (1.58–1.62)<" in row and ">0.8<" in row, row
    empty = http.get("/inferbench/trainings/scaling", params={"submission": "<b>"}).text
    assert 'role="alert"' in empty and "devices.processes: [1, 2]" in empty and "<b>" not in empty
    assert "/inferbench/trainings/scaling" in http.get("/inferbench/trainings").text


def test_the_page_of_clusters_sets_two_beside_each_other(
    http: TestClient, perfdb: PerfDB, tmp_path: Path
) -> None:
    """The newest valid runs of one job, with what differs; without any cluster it says how to name one."""
    assert "--cluster NAME" in http.get("/inferbench/trainings/clusters").text
    path = tmp_path / "steps.parquet"
    steps.write([answer(0)], path)
    for label, name, factor in (("a", "old", 1), ("b", "new", 2)):
        result = view(label, factor, interval=(600, 700)).result
        submission = result.submission.model_copy(update={"digest": "f" * 64})
        result = result.model_copy(update={"cluster": name, "submission": submission})
        perfdb.start_run(result.run_id, "x-1", "x", JOB.model_dump(mode="json"))
        perfdb.save_result(result, path)
    pair = {"first": "old", "second": "new"}
    page = http.get("/inferbench/trainings/clusters", params=pair).text
    assert "2.000" in page and "cluster: old and new" in page
    unknown = http.get("/inferbench/trainings/clusters", params={"first": "old", "second": "<i>"}).text
    assert 'role="alert"' in unknown and "<i>" not in unknown


def test_the_lists_titles_sort_by_their_columns(http: TestClient, trainings: dict[str, str]) -> None:
    """Fast runs first, the other way round the second time; filters stay."""
    page = http.get("/inferbench/trainings", params={"data": "digits"}).text
    assert "/inferbench/trainings?data=digits&amp;sort=step_ms" in page
    assert "/inferbench/trainings?data=digits&amp;sort=-samples_per_s" in page
    again = http.get("/inferbench/trainings", params={"sort": "step_ms"}).text
    assert 'aria-sort="ascending"' in again and "/inferbench/trainings?sort=-step_ms" in again
    assert again.index(trainings["fast"]) < again.index(trainings["slow"])
