"""Devices side by side from a real PerfDB: by the commands, over REST, and on the page."""

from __future__ import annotations

import csv
import html
import json
import re
from datetime import UTC, datetime

import pytest
from fastapi.testclient import TestClient

from inferbench_tasks.cli.main import main
from inferbench_tasks.client import InferBench
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.ui import devices_page
from tests.unit.analysis.devices.builders import CPU, T4, run

pytestmark = [pytest.mark.integration, pytest.mark.airflow]


def seed(db: PerfDB) -> None:
    """A CPU alone and a T4 in batches; a faster run that does not count."""
    for document in (
        run("cpu", CPU, 10.0, 100.0), run("gpu", T4, 5.0, 400.0, batch=8), run("gpu-1", T4, 2.0, 300.0),
        run("bad", T4, 1.0, 9999.0, verdict="invalid: late"),
    ):  # fmt: skip
        document.pop("judgement")
        db.save_result(ResultDocument.model_validate(document))


def test_over_rest_and_on_the_page(perfdb: PerfDB, http: TestClient) -> None:
    """The same figures everywhere, CSV too; a wrong reference or statistic is the fault of its field."""
    seed(perfdb)
    bench = InferBench("http://testserver", "ann", "x", http=http)  # type: ignore[arg-type]
    found = bench.speedup()
    assert [(row["device"], row["speedup"]) for row in found["items"]] == [
        ("AMD EPYC 7R32, 2 cores", 1.0),
        ("Tesla T4, 4 cores", 4.0),
    ]
    other = bench.speedup("model=m", reference="t4", by="p50_ms")
    assert other["items"][1]["speedup"] is None and "keeps the bound" in other["items"][1]["reason"]
    text = http.get("/inferbench/api/speedup", params={"format": "csv"}).text
    assert [row["run"] for row in csv.DictReader(text.splitlines())] == ["cpu", "gpu"]
    for field, value in (("reference", "v100"), ("by", "throughput_rps"), ("q", "x=")):
        answer = http.get("/inferbench/api/speedup", params={field: value})
        assert answer.status_code == 422 and answer.json()["detail"][0]["loc"][-1] == field, answer.text
    costs = bench.costs()
    basis = {(row["provider"], row["batch_size"]): row["basis"] for row in costs["items"]}
    assert basis[("Google Cloud", 8)] == basis[("AWS", 1)] == "measured"
    assert any("not predicted" in note and "Tesla" not in note for note in costs["notes"])
    page = http.get("/inferbench/devices").text
    assert "Tesla T4, 4 cores" in page and "g4dn.xlarge" in page and "9999" not in page
    drawn = [json.loads(text) for text in re.findall(r'data-how="[^"]*">(\{.*?\})</script>', page)]
    assert any(trace["x"] == [4.0] for chart in drawn for trace in chart["data"])
    assert "no valid run of a user who waits" in http.get("/inferbench/devices?reference=v100").text


def test_a_page_is_of_the_models_with_the_newest_results_and_says_of_how_many(
    perfdb: PerfDB, http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole models as far as there is room, one at least; what is said of a device that is not among them says so."""
    for hour, model in enumerate(("old", "new")):
        for document in (run(f"{model}-cpu", CPU, 10.0, 100.0), run(f"{model}-gpu", T4, 5.0, 400.0, batch=8)):
            document.pop("judgement")
            document["model"]["name"] = model
            document["created_at"] = datetime(2026, 1, 1, hour, tzinfo=UTC)
            perfdb.save_result(ResultDocument.model_validate(document))
    whole = http.get("/inferbench/devices").text
    assert (
        "Speed-ups of old" in whole and "Speed-ups of new" in whole and "with the newest results" not in whole
    )
    monkeypatch.setattr(devices_page, "MOST_RUNS", 3)
    page = http.get("/inferbench/devices").text
    assert "Speed-ups of new" in page and "Speed-ups of old" not in page
    assert "These are the 1 of 2 models with the newest results" in page
    assert "Speed-ups of old" in http.get("/inferbench/devices?model=old").text
    other = http.get("/inferbench/devices?reference=v100").text
    assert re.search(r"Of the models that are shown: [^<]*no valid run of a user who waits", other)
    monkeypatch.setattr(devices_page, "MOST_RUNS", 1)
    assert "These are of the newest 1 of 2 results" in http.get("/inferbench/devices?model=new").text
    monkeypatch.setattr(devices_page, "MOST_RUNS", 2)
    assert "new-gpu" in http.get("/inferbench/devices").text
    perfdb.delete_result("new-gpu")
    assert "new-gpu" not in http.get("/inferbench/devices").text


def test_the_page_shows_intervals_and_notes_of_what_has_no_figure(perfdb: PerfDB, http: TestClient) -> None:
    """A device that possibly keeps the bound has its interval from 0 and its latency beside the reason; an offer whose
    device has no price has its note; what was never asked alone says so.
    """
    mig = {"kind": "gpu", "name": "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "cores": 4.0}
    for document in (
        run("cpu", CPU, 10.0, 100.0), run("late", T4, 10.01, 4000.0, batch=8),
        run("crowd", {**T4, "name": "NVIDIA L4"}, 80.0, 900.0, batch=64),
        run("slice", mig, 3.0, 200.0, model={"name": "tiny", "source_digest": "99" * 32}),
    ):  # fmt: skip
        document.pop("judgement")
        perfdb.save_result(ResultDocument.model_validate(document))
    page = http.get("/inferbench/devices").text
    assert "possibly (0–47.6)" in page and "4,000" in page and "49%" in page
    assert "a slice of a GPU, and the catalogue has prices of whole ones" in page
    assert "never asked one sample at a time, so not measured within the bound" in page
    assert "http, requests not recorded" in page
    rows = http.get("/inferbench/api/costs").json()["items"]
    assert {(row["protocol"], row["asked"], row["requests_merged"]) for row in rows} == {
        ("http", "requests not recorded", "not merged")
    }


def test_what_is_so_of_several_is_said_once(perfdb: PerfDB, http: TestClient) -> None:
    """Three models on one CPU alone: that nothing is faster is one sentence with their number, and so is which
    instances can't be predicted, whatever the model; a note of one alone stays with it.
    """
    for name in "abc":
        document = run(f"run-{name}", CPU, 10.0, 100.0, model={"name": name, "source_digest": name * 64})
        document.pop("judgement")
        perfdb.save_result(ResultDocument.model_validate(document))
    page = http.get("/inferbench/devices").text
    assert page.count("nothing is faster or slower than it") == 1
    assert "3 models and precisions: measured on AMD EPYC 7R32, 2 cores alone" in page
    notes = http.get("/inferbench/api/costs").json()["notes"]
    (same,) = {note.partition("not predicted: ")[2] for note in notes if "not predicted: " in note}
    assert len(notes) >= 3 and html.unescape(page).count(same) == 1 and "Of 3 models and loads" in page
    assert http.get("/inferbench/api/speedup").json()["notes"][2].startswith("c")


def test_by_the_commands(
    perfdb: PerfDB,
    perfdb_uri: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """speedup and costs as JSON; exit code 1 where nothing matches, 2 for what there is not."""
    monkeypatch.setenv("INFERBENCH_PERFDB_URI", perfdb_uri)

    def told(*arguments: str, code: int = 0) -> tuple[str, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        assert ended.value.code == code
        out, err = capsys.readouterr()
        return out, err

    told("speedup", code=1)
    seed(perfdb)
    rows = json.loads(told("speedup", "-o", "json")[0])
    assert [row["speedup"] for row in rows] == [1.0, 4.0]
    assert "AMD EPYC 7R32, 2 cores" in told("speedup", "--reference", "v100", code=2)[1]
    assert "allowed: mean_ms" in told("speedup", "--by", "rss_bytes", code=2)[1]
    out, err = told("costs", "batch=8", "-o", "json")
    assert {row["instance"] for row in json.loads(out)} == {"g4dn.xlarge", "n1-standard-4 + T4"}
    assert "a roofline needs this load on 3 GPUs" in err
    told("costs", "model=nobody", code=1)
