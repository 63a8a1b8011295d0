"""What the pages are asked for beside REST: the table behind the picture, the fields' offers, a run's roof, ways."""

from __future__ import annotations

import csv
import html
import io
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pyarrow.parquet
import pytest
from fastapi.testclient import TestClient

from inferbench_tasks import settings
from inferbench_tasks.analysis.recommend import scatter
from inferbench_tasks.monitors import environment
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.api import cluster
from inferbench_tasks.provider.submit.coming import Coming
from tests.integration.test_web_api import seed
from tests.unit.analysis.charts.test_charts import roofline_run
from tests.unit.analysis.test_ceilings import keep
from tests.unit.perfdb.builders import latency, result
from tests.unit.regression.nights import write_nights

pytestmark = [pytest.mark.integration, pytest.mark.airflow]


def test_the_recommend_form_offers_what_there_is(perfdb: PerfDB, http: TestClient) -> None:
    """Under its conditions: figures with a value alone, the loads by how many results they have, ranges; a figure that
    is chosen stays in the page's list; conditions that are none are refused.
    """
    seed(perfdb, 4)
    arrivals = {"kind": "poisson", "rate_rps": 20.0}
    other = {"name": "other", "user": "bob", "digest": "f" * 64}
    load = {"arrivals": arrivals, "batch_size": 1, "duration_s": 10.0}
    summary = {"e2e_latency_ms": {"p50": 3.0}}
    perfdb.save_result(result("other", submission=other, load=load, summary=summary))
    offers = "/inferbench/recommend/offers"
    told = http.get(offers, params={"figure": ["p99_ms", "p50_ms"]}).json()
    names = [of["name"] for of in told["figures"]]
    assert set(names) == {"p99_ms", "throughput_rps", "p50_ms"}
    assert told["loads"] == ["poisson, 320 samples/s", "poisson, 20 samples/s"]
    assert told["ranges"] == {"p99_ms": [10.0, 30.0], "p50_ms": [3.0, 3.0]}  # the fourth is invalid
    of_bob = http.get(offers, params={"user": "bob", "figure": "p99_ms"}).json()
    assert [of["name"] for of in of_bob["figures"]] == ["p50_ms"] and of_bob["ranges"] == {"p99_ms": None}
    assert of_bob["loads"] == ["poisson, 20 samples/s"]
    under = http.get(offers, params={"load": "poisson, 320 samples/s", "figure": "p50_ms"}).json()
    assert under["ranges"] == {"p50_ms": None} and len(under["loads"]) == 2
    assert http.get(offers, params={"q": "nonsense=1"}).status_code == 422
    shown = http.get("/inferbench/recommend?user=bob&by=rss_bytes").text
    assert ">rss_bytes</option>" in shown and ">cpu_cores</option>" not in shown


def test_pages_say_why_a_rank_is_shared_and_which_interval_stands_there(
    perfdb: PerfDB, http: TestClient
) -> None:
    """0.643 and 1.04 ms that no run could bound: the leaderboard's and the model's row, REST, and the table of systems,
    in which the ports that five starts of one server drew make no rows.
    """
    alone = {"arrivals": {"kind": "closed_loop", "concurrency": 1}, "batch_size": 1}
    for name, kind, p99, port in (
        ("a", "onnxruntime", 0.643, None), *((f"b{at}", "triton", 1.04, 40000 + at) for at in range(5)),
    ):  # fmt: skip
        settings_of = {"threads": 1} | ({"metrics_port": port} if port else {})
        perfdb.save_result(
            result(
                name,
                submission={"name": "quick", "digest": kind.ljust(64, "0")},
                backend={"kind": kind, "version": "1", "settings": settings_of},
                load=alone,
                summary={"e2e_latency_ms": {"p99": p99, "ci95": {"p99": None}}},
            )
        )
    unknown = "not known which is better"
    for path in ("leaderboard?by=p99_ms", "model?name=resnet50"):
        page = http.get(f"/inferbench/{path}").text
        assert page.count(f">{unknown}</span>") == 1 and "95% interval of the run" in page, path
    rows = http.get("/inferbench/api/leaderboard?by=p99_ms").json()["items"]
    assert [row["rank"] for row in rows] == [1, 1] and rows[1]["tie"].startswith(unknown)
    systems = http.get("/inferbench/systems").text
    assert systems.count("<tr><th scope") - 1 == 2 and systems.count(">?</span>") == 1
    assert "metrics_port" not in systems
    assert "widened for the choice of the best" in http.get("/inferbench/devices").text
    recommended = http.get("/inferbench/recommend?by=p99_ms&ask=1").text
    assert "with the spread from run to run" in recommended


def test_the_table_leaves_out_what_the_picture_does(perfdb: PerfDB, http: TestClient) -> None:
    """The line judges a configuration by its newest run: an older one within it gets no row. Colours that are off go
    as well; a bound that is no number is told.
    """
    one, two = ({"name": "quick", "user": "ann", "digest": digit * 64} for digit in "12")
    perfdb.save_result(latency("old", 10.0, submission=one))
    perfdb.save_result(latency("new", 60.0, submission=one))
    perfdb.save_result(latency("other", 20.0, submission=two))

    def rows(asked: str) -> set[str]:
        text = http.get(f"/inferbench/leaderboard?{asked}").text
        return {run for run in ("old", "new", "other") if f'data-run="{run}"' in text}

    assert rows("") == {"new", "other"}
    assert rows("bound=50") == rows("x=p99_ms&bound=20") == {"other"}
    assert rows("x=throughput_rps&bound=10") == {"new", "other"}, "at least as much"
    assert rows("x=throughput_rps&bound=10.5") == rows("off=onnxruntime") == set()
    assert rows("colour=batch&off=8&off=9") == {"new", "other"}
    assert rows("colour=batch&off=8&off=4") == set()
    nothing = http.get("/inferbench/leaderboard?off=onnxruntime").text
    assert "No configuration is left by the picture" in nothing and 'id="board"' in nothing
    for wrong in ("bound=x", "bound=nan"):
        assert "is no number" in http.get(f"/inferbench/leaderboard?{wrong}").text
    assert "1 of 2 configurations" in http.get("/inferbench/leaderboard?rows=1").text


def test_table_and_picture_judge_the_same_run(perfdb: PerfDB, http: TestClient) -> None:
    """The newest run has no goodput, so the picture draws the one before it, of 10 ms: the table, which shows the
    newest, of 60 ms, keeps the configuration within 50 ms as well, and hides it by that run's colour.
    """
    drawn = {"e2e_latency_ms": {"p99": 10.0}, "throughput_rps": 10.0, "goodput_rps": 9.0}
    server = {"kind": "onnxruntime", "version": "1", "launcher": "process", "settings": {"label": "a|b"}}
    perfdb.save_result(result("drawn", summary=drawn, backend=server))
    perfdb.save_result(latency("newest", 60.0))
    picture = {"y": "goodput_rps", "colour": "settings.label"}

    def listed(**more: str | list[str]) -> bool:
        asked: dict[str, str | list[str]] = {"by": "throughput_rps", **picture, **more}
        shown = http.get(f"/inferbench/leaderboard?{urlencode(asked, doseq=True)}").text
        return 'data-run="newest"' in shown

    points = http.get("/inferbench/api/points", params=picture).json()
    assert [(row[0], row[1], row[3]) for row in points["rows"]] == [("drawn", 10.0, "a|b")]
    assert listed() and listed(bound="50") and not listed(bound="9")
    assert listed(off=["fast", "b"]) and not listed(off="a|b")


def test_the_picture_s_fields_have_the_figures_of_the_address(perfdb: PerfDB, http: TestClient) -> None:
    """By any of their names, so that the line is on the figure that the rows follow."""
    perfdb.save_result(latency("one", 10.0))
    shown = http.get("/inferbench/leaderboard?x=latency_p99_ms&y=resources.server.threads.max&bound=50").text
    assert "<option selected>latency_p99_ms</option>" in shown
    assert "<option selected>resources.server.threads.max</option>" in shown


def test_what_the_board_cuts_is_said(perfdb: PerfDB, http: TestClient) -> None:
    """Of 51 runs, valid or not, 50 are listed, and where the others are; of the file how many it has of each group."""
    for number in range(51):
        perfdb.save_result(latency(f"run-{number}", 10.0 + number, submission={"name": "x", "user": "ann"}))
    shown = http.get("/inferbench/leaderboard?all=1&user=ann").text
    assert "These are the first 50 by p99_ms" in shown
    assert html.escape("/inferbench/runs?user=ann&sort=p99_ms") in shown
    assert "of valid runs, the best 500 of each group" in http.get("/inferbench/leaderboard").text


def test_points_say_whether_their_colours_are_numbers(perfdb: PerfDB, http: TestClient) -> None:
    """A batch is one, a backend is none, and so is a setting that some server has as a word."""
    seed(perfdb, 2)
    kinds = {
        name: http.get("/inferbench/api/points", params={"y": "throughput_rps", "colour": name}).json()[
            "colour"
        ]
        for name in ("backend", "batch", "settings.threads", "p99_ms")
    }
    assert {name: of["kind"] for name, of in kinds.items()} == {
        "backend": "text", "batch": "number", "settings.threads": "number", "p99_ms": "number"
    }  # fmt: skip
    assert kinds["p99_ms"] == {"name": "p99_ms", "unit": "ms", "kind": "number"}
    backend = {"kind": "onnxruntime", "launcher": "process", "settings": {"threads": "auto"}}
    digest = {"name": "quick", "user": "ann", "digest": "f" * 64}
    perfdb.save_result(latency("auto", 5.0, backend=backend, submission=digest))
    mixed = http.get("/inferbench/api/points?y=throughput_rps&colour=settings.threads").json()
    assert mixed["colour"]["kind"] == "text"


def test_an_empty_board_says_why_on_its_page_and_over_rest(perfdb: PerfDB, http: TestClient) -> None:
    """Users who wait, by the server's cores: no row, and the reason beside it."""
    summary = {"throughput_rps": 10.0, "resources": {"server": {"cpu_cores": {"mean": 0.5}}}}
    load = {"arrivals": {"kind": "closed_loop", "concurrency": 1}, "batch_size": 1, "duration_s": 10.0}
    perfdb.save_result(result("users", summary=summary, load=load))
    answer = http.get("/inferbench/api/leaderboard?by=cpu_cores").json()
    why = "1 result(s) are not ranked by cpu_cores (closed_loop, 1 sample in flight)"
    assert answer["items"] == [] and answer["notes"][0].startswith(why)
    assert why in http.get("/inferbench/leaderboard?by=cpu_cores").text
    assert http.get("/inferbench/api/leaderboard?by=throughput_rps").json()["notes"] == []
    assert "not ranked by" not in http.get("/inferbench/leaderboard?by=throughput_rps").text


def test_a_link_with_a_load_in_the_words_of_before_still_finds_it(perfdb: PerfDB, http: TestClient) -> None:
    """One sample in flight was "1 samples"; the page's field then has the words of now."""
    summary = {"e2e_latency_ms": {"p99": 5.0}, "throughput_rps": 10.0, "throughput_samples_per_s": 10.0}
    load = {"arrivals": {"kind": "closed_loop", "concurrency": 1}, "batch_size": 1, "duration_s": 10.0}
    perfdb.save_result(result("users", summary=summary, load=load))
    asked = {"by": "p99_ms", "load": "closed_loop, 1 samples in flight"}
    answer = http.get("/inferbench/api/recommend", params=asked)
    assert answer.status_code == 200 and [row["run"] for row in answer.json()["top"]] == ["users"]
    page = http.get("/inferbench/recommend", params={**asked, "ask": "1"}).text
    assert 'value="closed_loop, 1 sample in flight"' in page and "No result that matches" not in page


def test_points_tell_whose_rate_was_not_steady(perfdb: PerfDB, http: TestClient) -> None:
    """As JSON in a column, with whether it was looked for; in CSV under the same name."""
    why = "not steady: the throughput drifts by -22% over the load"
    moved = {"figures": {"steady_state": why, "throughput_change_ratio": -0.22}}
    perfdb.save_result(latency("moved", 10.0, certificate=moved))
    body = http.get("/inferbench/api/points?y=throughput_rps").json()
    (row,) = (dict(zip(body["columns"], row, strict=True)) for row in body["rows"])
    assert row["not_steady"] == why and body["looked_into"] is True
    (line,) = csv.DictReader(io.StringIO(http.get("/inferbench/api/points?y=throughput_rps&format=csv").text))
    assert line["not_steady"] == why
    by_header = http.get("/inferbench/api/points?y=throughput_rps", headers={"accept": "text/csv"}).text
    assert list(csv.DictReader(io.StringIO(by_header))) == [line]


def test_what_is_not_looked_for_among_too_many_points_is_no_empty_column(
    perfdb: PerfDB, http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty cell would say that there is no interval, and that the rate was steady."""
    monkeypatch.setattr(scatter, "MOST_INTERVALS", 0)
    perfdb.save_result(latency("many", 10.0))
    body = http.get("/inferbench/api/points?y=throughput_rps").json()
    (line,) = csv.DictReader(io.StringIO(http.get("/inferbench/api/points?y=throughput_rps&format=csv").text))
    assert body["looked_into"] is False and line["run"] == "many"
    assert not {"x_interval", "y_interval", "not_steady"} & line.keys()


def test_a_run_s_page_has_the_roof_that_its_report_has(perfdb: PerfDB, http: TestClient) -> None:
    """100 GFLOP/s and 10 GB/s, as they were measured on this machine and kept: the ceiling over the run's point is the
    lower of 100 and 10 times the intensity. A run of another processor has no roof, and so no roofline.
    """
    for name, cpu in (("here", environment.processor()), ("elsewhere", "another")):
        run = roofline_run()
        measured, raw = run.result, settings.data_dir() / f"{name}.parquet"
        assert measured is not None and run.records is not None
        pyarrow.parquet.write_table(run.records(), raw)
        device = measured.device.model_copy(update={"name": "nowhere in the catalogue"})
        told: dict[str, Any] = {"run_id": name, "environment": {"hardware": {"cpu": cpu}}, "device": device}
        told["summary"] = type(measured.summary).model_validate(run.summary)
        perfdb.save_result(measured.model_copy(update=told), raw)

    def titles(run: str) -> dict[str, Any]:
        sections = http.get(f"/inferbench/api/runs/{run}/charts").json()["sections"]
        return {of["title"]: of for of in sections}

    assert "Roofline" not in titles("here")
    keep(settings.data_dir(), environment.processor())
    (chart,) = titles("here")["Roofline"]["charts"]
    roof = chart["data"][0]
    assert roof["name"].startswith("measured, 1 core(s)") and roof["name"].endswith("100 GFLOP/s, 10 GB/s")
    assert roof["y"] == pytest.approx([min(100.0, 10.0 * x) for x in roof["x"]])
    assert "Roofline" not in titles("elsewhere")


def test_a_change_on_the_home_leads_to_its_pair(perfdb: PerfDB, http: TestClient) -> None:
    """A stage that takes 5 ms longer in two nights is confirmed; its line leads to the runs of the newest session."""
    write_nights(perfdb, [*[{}] * 6, {"preprocess": 5.0}, {"preprocess": 5.0}])
    change = http.get("/inferbench/api/regression").json()["regressions"][0]
    shown = html.unescape(http.get("/inferbench/home").text)
    way = "/inferbench/regression/pair?" + urlencode(
        {"series": change["series"], "session": change["session"]}
    )
    assert f'<a href="{way}">{change["series"]}</a>' in shown
    answer = http.get(way, follow_redirects=False)
    session = change["session"]
    assert answer.headers["location"] == f"/inferbench/compare?run={session}-0.000&run={session}-1.000"


def test_what_was_sent_and_is_in_no_queue_yet_is_told(
    perfdb: PerfDB, http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside "Nothing runs": home and cluster have its line, REST the same; that Airflow can't be asked is told, and is
    no empty list.
    """
    sent = Coming("sweep", "ada", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), 24, "it is being read")
    monkeypatch.setattr(cluster, "coming", lambda: [sent])
    for name in ("home", "cluster"):
        text = http.get(f"/inferbench/{name}").text
        assert "Sent, not in a queue yet" in text and "2026-01-02 03:04:05 UTC" in text, name
        assert "it is being read" in text and "ada" in text
    (told,) = http.get("/inferbench/api/cluster").json()["coming"]
    assert (told["submission"], told["jobs"], told["sent"]) == ("sweep", 24, "2026-01-02T03:04:05+00:00")
    monkeypatch.setattr(cluster, "coming", lambda: None)
    assert http.get("/inferbench/api/cluster").json()["coming"] is None
    for name in ("home", "cluster"):
        assert "database does not answer" in http.get(f"/inferbench/{name}").text
