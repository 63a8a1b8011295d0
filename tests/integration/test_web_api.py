"""The web application on a real PerfDB: its REST API, its pages, and the client over it.

The login is Airflow's and is tested on the whole system (``test_web_system``); here it is taken for granted.
"""

from __future__ import annotations

import csv
import html
import io
from typing import Any

import pytest
from fastapi.testclient import TestClient

from inferbench_tasks.client import InferBench, api
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.errors import InputError, SubmissionError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.api import runs
from tests.unit.perfdb.builders import latency, result
from tests.unit.regression.nights import write_nights

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
NASTY = "<script>alert(1)</script>"
GOOD = "name: quick\nmodel: {kind: zoo, name: digits}\nload: {arrivals: {kind: poisson, rate_rps: 10}}\n"


@pytest.fixture
def bench(http: TestClient) -> InferBench:
    # starlette's client is not httpx's own class, and works alike.
    return InferBench("http://testserver", "ann", "x", http=http)  # type: ignore[arg-type]


def seed(db: PerfDB, count: int = 7) -> None:
    """Runs with p99 of 10, 20, ... ms; the last is invalid; the first has raw samples."""
    import pyarrow
    import pyarrow.parquet

    from inferbench_tasks import settings

    path = settings.data_dir() / "samples.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"intended_ns": [1, 2], "done_ns": [5, 9]}), path)
    for number in range(count):
        digest = {"name": "quick", "user": "ann", "digest": f"{number:064x}"}
        verdict = "invalid: late" if number == count - 1 else "valid"
        document = latency(f"run-{number}", 10.0 * (number + 1), submission=digest, verdict=verdict)
        db.save_result(document, path if number == 0 else None)


def test_runs_come_in_pages(perfdb: PerfDB, bench: InferBench, http: TestClient) -> None:
    """Every run once, in the order asked for, however small the pages are."""
    seed(perfdb)
    first = http.get("/inferbench/api/runs", params={"sort": "p99_ms", "limit": 3}).json()
    assert [row["run"] for row in first["items"]] == ["run-0", "run-1", "run-2"]
    assert first["next_offset"] == 3
    last = http.get("/inferbench/api/runs", params={"sort": "p99_ms", "limit": 3, "offset": 6}).json()
    assert [row["run"] for row in last["items"]] == ["run-6"] and last["next_offset"] is None
    assert len(list(bench.runs())) == 7
    assert [row["run"] for row in bench.runs("p99<=20", sort="-p99")] == ["run-1", "run-0"]
    assert len(list(bench.runs(limit=2))) == 2


def test_csv_has_the_same_rows(perfdb: PerfDB, http: TestClient) -> None:
    """By ``format`` or Accept; a text that a spreadsheet would run as a formula is disarmed."""
    seed(perfdb, 2)
    perfdb.save_result(result("run-x", model={"name": "=1+1"}))
    answer = http.get("/inferbench/api/runs", headers={"Accept": "text/csv"})
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert answer.headers["content-type"].startswith("text/csv")
    assert {row["run"]: row["model"] for row in rows} == {
        "run-0": "resnet50",
        "run-1": "resnet50",
        "run-x": "'=1+1",
    }
    assert answer.text == http.get("/inferbench/api/runs?format=csv").text


def test_a_list_that_no_page_ends_says_so(
    perfdb: PerfDB, bench: InferBench, http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven runs of which an offset reaches the first five: the last page is not taken for the end of the list."""
    monkeypatch.setattr(runs, "MAX_OFFSET", 3)
    seed(perfdb)
    first, last, end = (
        http.get("/inferbench/api/runs", params={"limit": 2, "offset": offset}).json() for offset in (0, 3, 5)
    )
    assert (first["next_offset"], first["truncated"]) == (2, False)
    assert (last["next_offset"], last["truncated"], len(last["items"])) == (None, True, 2)
    assert (end["next_offset"], end["truncated"], len(end["items"])) == (None, False, 2)
    assert "pages go no further" in http.get("/inferbench/runs?limit=2&offset=3").text
    assert "pages go no further" not in http.get("/inferbench/runs?limit=2&offset=5").text
    monkeypatch.setattr(api, "_PAGE", 2)
    with pytest.raises(InputError, match="no page reaches"):
        list(bench.runs())
    assert len(list(bench.runs(limit=4))) == 4
    assert runs.following(3, 2, True) == {"next_offset": None, "truncated": True}
    assert runs.following(1, 2, True) == {"next_offset": 3, "truncated": False}


@pytest.mark.parametrize(
    "path",
    ["/runs?q=user=ann", "/leaderboard?by=throughput&q=user=ann", "/cluster", "/regression",
     "/recommend?by=p99_ms&slo=p99_ms<=60&slo=throughput_rps>=1&q=user=ann", "/recommend?by=p99_ms&q=user=ann"],
)  # fmt: skip
def test_csv_without_rows_has_the_same_header(perfdb: PerfDB, http: TestClient, path: str) -> None:
    """A program that reads the file finds its columns, whether there is a row or not."""
    url = f"/inferbench/api{path}{'&' if '?' in path else '?'}format=csv"
    empty = http.get(url).text
    seed(perfdb)
    write_nights(perfdb, [{}])
    Cluster(perfdb).register(Device(device_id="cpu:0", device_type="cpu", name="a", host="b"))
    (header, *rows) = http.get(url).text.splitlines()
    assert rows and empty.splitlines() == [header]


def test_a_comparison_as_csv_has_a_line_per_difference(perfdb: PerfDB, http: TestClient) -> None:
    """Figure, both values, ratio: cells that a spreadsheet can work with."""
    seed(perfdb, 3)
    answer = http.get("/inferbench/api/compare?run=run-0&run=run-1&run=run-2&format=csv")
    rows = [row for row in csv.DictReader(io.StringIO(answer.text)) if row["figure"] == "p99_ms"]
    found = [(row["first_run"], row["run"], row["first_value"], row["value"], row["ratio"]) for row in rows]
    assert found == [("run-0", "run-1", "10.0", "20.0", "2.0"), ("run-0", "run-2", "10.0", "30.0", "3.0")]


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/runs?q=batsch>=4", "q"), ("/runs?q='open", "q"), ("/runs?sort=nothing", "sort"), ("/runs?limit=0", "limit"),
        ("/runs?offset=10001", "offset"), ("/leaderboard?by=model", "by"), ("/leaderboard?q=batch>=x", "q"),
        ("/compare?run=run-0", "run"), ("/recommend?slo=p99_ms<20", "slo"), ("/recommend?slo=p98_ms<=20", "slo"),
        ("/recommend?by=model", "by"), ("/recommend?slo=p99_ms<=1e400", "slo"), ("/runs?format=xml", "format"),
    ],
)  # fmt: skip
def test_a_wrong_parameter_is_named(http: TestClient, path: str, field: str) -> None:
    """422, with the parameter at fault and a message that says what is allowed."""
    answer = http.get(f"/inferbench/api{path}")
    assert answer.status_code == 422
    (problem,) = answer.json()["detail"]
    assert problem["loc"][:2] == ["query", field]
    assert len(problem["msg"]) > 10


def test_what_is_not_there_is_404(perfdb: PerfDB, bench: InferBench, http: TestClient) -> None:
    """Runs, their samples and pages that there are none of."""
    seed(perfdb, 2)
    for path in ("/api/runs/none", "/api/runs/run-1/samples", "/run/none", "/api/compare?run=run-0&run=none"):
        assert http.get(f"/inferbench{path}").status_code == 404, path
    with pytest.raises(InputError, match="no run 'none'"):
        bench.run("none")


def test_raw_samples_come_as_they_are(perfdb: PerfDB, bench: InferBench, http: TestClient) -> None:
    """Parquet, byte for byte what was stored, and CSV."""
    seed(perfdb, 1)
    assert bench.samples("run-0").to_pydict() == {"intended_ns": [1, 2], "done_ns": [5, 9]}
    text = http.get("/inferbench/api/runs/run-0/samples?format=csv").text
    assert text.split() == ["intended_ns,done_ns", "1,5", "2,9"]


def test_raw_samples_are_never_in_memory_as_a_whole(perfdb: PerfDB, http: TestClient) -> None:
    """Of 250,000 requests, 20 MB of CSV: pieces, whose sum is the table; a whole number beside a gap stays one."""
    import asyncio
    import tracemalloc

    import numpy as np
    import pyarrow
    import pyarrow.parquet
    from starlette.requests import Request

    from inferbench_tasks import settings

    count = 250_000
    moments = np.arange(count, dtype=np.int64) + 1_764_000_000_000_000_001
    first_byte = pyarrow.array(moments, mask=moments % 3 == 0)
    path = settings.data_dir() / "samples.parquet"
    columns = {"intended_ns": moments, "first_byte_ns": first_byte, "done_ns": moments + 7}
    pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=50_000)
    perfdb.save_result(latency("large", 10.0), path)
    request = Request({"type": "http", "headers": [], "query_string": b"", "method": "GET", "path": "/"})

    async def size(format: Any) -> int:
        answer: Any = runs.samples("large", request, perfdb, format)
        return sum([len(piece) async for piece in answer.body_iterator])

    asyncio.run(size("csv"))  # what is imported on the way does not count
    tracemalloc.start()
    sent = asyncio.run(size("csv"))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sent >= 12_000_000 and peak_bytes < 10_000_000, (sent, peak_bytes)
    lines = http.get("/inferbench/api/runs/large/samples?format=csv").text.splitlines()
    assert len(lines) == count + 1 and lines[0] == "intended_ns,first_byte_ns,done_ns"
    for number in (0, 4_999, 5_000, 123_456, count - 1):
        cells = [str(table[number]) for table in (moments, columns["done_ns"])]
        gap = "" if moments[number] % 3 == 0 else str(moments[number])
        assert lines[number + 1].split(",") == [cells[0], gap, cells[1]]
    whole = http.get("/inferbench/api/runs/large/samples")
    assert whole.content == path.read_bytes()
    assert int(whole.headers["content-length"]) == len(whole.content)


def test_samples_that_were_damaged_are_no_answer(perfdb: PerfDB, http: TestClient) -> None:
    """Their SHA-256 is looked at before the first byte is sent: 503, and not half a file."""
    seed(perfdb, 1)
    perfdb.collection("fs.chunks").update_many({}, {"$set": {"data": b"other bytes"}})
    for format in ("csv", "json"):
        answer = http.get(f"/inferbench/api/runs/run-0/samples?format={format}")
        assert answer.status_code == 503 and "damaged" in answer.json()["detail"]


def test_figures_of_a_disturbed_run_are_shown_as_bounds_and_never_rank(
    perfdb: PerfDB, bench: InferBench, http: TestClient
) -> None:
    """15.26: not on the leaderboard, which says that one was left out; among all runs with that word and a sign."""
    perfdb.save_result(latency("quiet", 20.0))
    perfdb.save_result(latency("noisy", 10.0, verdict="disturbed: the hypervisor took 30.0% (at most 5%)"))
    assert [row["run"] for row in bench.leaderboard("p99_ms")] == ["quiet"]
    board = http.get("/inferbench/leaderboard").text
    assert "noisy" not in board and "1 disturbed result(s) are left out" in board and "≤" not in board
    for page in ("leaderboard?all=1", "runs", "run/noisy"):
        text = http.get(f"/inferbench/{page}").text
        assert "disturbed" in text and "≤ 10" in text and "≤ 20" not in text, page


def test_the_leaderboard_has_valid_runs_only(perfdb: PerfDB, bench: InferBench, http: TestClient) -> None:
    """The invalid run is on the page on request only, with its reason."""
    seed(perfdb)
    assert [row["run"] for row in bench.leaderboard("p99_ms")] == [f"run-{n}" for n in range(6)]
    assert "run-6" not in http.get("/inferbench/leaderboard").text
    everything = http.get("/inferbench/leaderboard?all=1").text
    assert "run-6" in everything and "late" in everything


def test_a_difference_comes_with_its_confidence(perfdb: PerfDB, bench: InferBench) -> None:
    """p99 of 60 against 10 ms is worse for sure, 10.1 against 10 is no difference; other settings are listed.

    Repeated runs of the very same job that differ as much show that such a difference means nothing.
    """
    perfdb.save_result(latency("a", 10.0, job_id="x"))
    perfdb.save_result(latency("b", 10.1, job_id="y", format="torchscript"))
    perfdb.save_result(latency("c", 60.0, job_id="z"))
    found = bench.compare("a", "b", "c")
    (p99,) = [row for row in found["figures"] if row["figure"] == "p99_ms"]
    b, c = p99["differences"]
    assert (b["verdict"], c["verdict"]) == ("no difference shown", "worse")
    assert c["ratio"] == pytest.approx(6) and c["ci95"][0] < 6 < c["ci95"][1] and c["probability"] > 0.99
    assert {"field": "format", "a": "onnx", "b": "torchscript", "c": "onnx"} in found["settings"]
    for number, p99_ms in enumerate((10.0, 60.0, 20.0, 50.0)):
        perfdb.save_result(latency(f"again-{number}", p99_ms, job_id="z"))
    (p99,) = [row for row in bench.compare("a", "c")["figures"] if row["figure"] == "p99_ms"]
    assert p99["differences"][0]["probability"] < c["probability"]


def test_runs_between_other_hosts_are_no_repeats(perfdb: PerfDB, bench: InferBench) -> None:
    """The same job from the same client to a server elsewhere: what it adds to a latency is not this one's spread."""

    def save(run_id: str, p99_ms: float, job_id: str, server: str = "a") -> None:
        load = {
            "arrivals": {"kind": "poisson", "rate_rps": 80.0},
            "network": f"between hosts from c to {server}",
        }
        perfdb.save_result(latency(run_id, p99_ms, job_id=job_id, load=load))

    def probability() -> float:
        (p99,) = [row for row in bench.compare("one", "other")["figures"] if row["figure"] == "p99_ms"]
        return float(p99["differences"][0]["probability"])

    save("one", 10.0, "x")
    save("other", 60.0, "z")
    alone = probability()
    for number, p99_ms in enumerate((10.0, 60.0, 20.0, 50.0)):
        save(f"elsewhere-{number}", p99_ms, "z", "b")
    assert probability() == alone
    for number, p99_ms in enumerate((10.0, 60.0, 20.0, 50.0)):
        save(f"again-{number}", p99_ms, "z")
    assert probability() < alone


def test_the_page_that_compares_says_it_in_words_and_draws_it(perfdb: PerfDB, http: TestClient) -> None:
    """The same sentences as REST's; charts by the runs that were asked for, an error where they can't be compared."""
    for name, p99_ms in (("a", 10.0), ("c", 60.0)):
        perfdb.save_result(latency(name, p99_ms, job_id=name))
    (sentence,) = http.get("/inferbench/api/compare?run=a&run=c").json()["words"]
    assert sentence.startswith("Run 2: worse in p99 (6 times run 1's, 95%: ")
    shown = html.unescape(http.get("/inferbench/compare?run=a&run=c").text)
    assert sentence in shown and "/inferbench/api/compare/charts?run=a&run=c" in shown
    assert http.get("/inferbench/api/compare/charts?run=a&run=c").json().keys() == {"sections"}
    assert http.get("/inferbench/api/compare/charts?run=a").status_code == 422
    assert http.get("/inferbench/api/compare/charts?run=a&run=nobody").status_code == 404


def test_the_cluster_s_timeline(perfdb: PerfDB, bench: InferBench, http: TestClient) -> None:
    """A run's time on a device, over REST and as a bar of the page; text of users is text."""
    perfdb.start_run("run-1", "inv", "job", {"name": "s", "user": NASTY})
    perfdb.stage_started("run-1", "serve")
    perfdb.stage_holds("run-1", "serve", 1, ["cpu-0"])
    perfdb.stage_finished("run-1", "serve", output={}, duration_s=1.0)
    (stay,) = bench.timeline(hours=1)
    assert (stay["device"], stay["run"], stay["user"], stay["state"]) == ("cpu-0", "run-1", NASTY, "running")
    assert "cpu-0,run-1" in http.get("/inferbench/api/cluster/timeline?format=csv").text
    page = http.get("/inferbench/cluster?hours=1").text
    assert 'data-draw="timeline"' in page and NASTY not in page
    assert http.get("/inferbench/cluster?hours=0").status_code == 422


def test_a_recommendation(perfdb: PerfDB, bench: InferBench) -> None:
    """The best configuration that keeps the bound; an invalid run is no candidate."""
    seed(perfdb)
    found = bench.recommend("p99_ms", slo=["p99_ms<=25"])
    assert [row["run"] for row in found["top"]] == ["run-0", "run-1"]
    assert (found["candidates"], found["fitting"]) == (6, 2)


def test_bounds_of_the_form_are_those_of_a_link(perfdb: PerfDB, http: TestClient) -> None:
    """Field by field as by one text; both come back as fields. Half a bound is refused by its number."""
    seed(perfdb, 3)
    fields = "bounded=p99_ms&sign=%3C%3D&value=25&bounded=&sign=%3C%3D&value="
    for asked in ("slo=p99_ms%3C%3D25", fields):
        shown = http.get(f"/inferbench/recommend?by=p99_ms&{asked}").text
        assert "keep p99_ms ≤ 25" in shown
        assert '<option value="p99_ms" selected' in shown and 'value="25"' in shown
    for half, words in (
        ("bounded=p99_ms&value=", "bound 1: a value for p99_ms is missing"),
        ("value=5", "bound 1: a figure is missing"),
    ):
        assert words in http.get(f"/inferbench/recommend?by=p99_ms&{half}").text


def test_problems_of_a_submission_are_told_at_once(bench: InferBench, http: TestClient) -> None:
    """422 with every problem, its field and line; nothing is placed. The client raises them as the reader does."""
    bad = GOOD.replace("load:", "lod:") + "priority: high\n"
    answer = http.post("/inferbench/api/submissions", json={"submission": bad})
    assert answer.status_code == 422
    assert {(e["loc"][-1], e["line"]) for e in answer.json()["detail"]} >= {("lod", 3), ("priority", 4)}
    with pytest.raises(SubmissionError) as caught:
        bench.submit(bad)
    assert {(p.field, p.line) for p in caught.value.problems} >= {("lod", 3), ("priority", 4)}
    with pytest.raises(InputError, match="nam"):
        bench.validate(GOOD, nam="x")


def test_a_valid_submission_says_what_it_amounts_to(bench: InferBench) -> None:
    """Jobs, and the login (made a plain name) as the user of a submission that names none."""
    found = bench.validate(GOOD + "sweep: {serve.threads: [1, 2]}\n", priority=3)
    assert (found["name"], found["user"], found["priority"], found["jobs"]) == ("quick", "ann-example", 3, 2)
    assert found["points"] == [{"serve.threads": 1}, {"serve.threads": 2}]


@pytest.mark.parametrize(
    "path",
    ["/home", "/leaderboard", "/leaderboard?all=1", "/runs", "/run/nasty", "/compare?run=nasty&run=other", "/cluster",
     "/recommend?by=throughput_rps&ask=1", f"/leaderboard?model={NASTY}", f"/runs?q={NASTY}",
     f"/compare?run={NASTY}&run=b", f"/recommend?slo={NASTY}", f"/leaderboard?by={NASTY}"],
)  # fmt: skip
def test_text_of_users_is_never_markup(perfdb: PerfDB, http: TestClient, path: str) -> None:
    """A model, user, setting or parameter named <script> is shown as text, under a policy without inline scripts."""
    for run in ("nasty", "other"):
        perfdb.save_result(
            result(
                run,
                submission={"name": NASTY, "user": NASTY, "digest": run},
                model={"name": NASTY, "task": NASTY, "version": 1},
                device={"kind": "cpu", "name": NASTY},
                environment={NASTY: run + NASTY},
                certificate={"valid": False, "reasons": [NASTY], "checks": []},
                backend={"kind": NASTY, "settings": {"a": NASTY + run}},
            )
        )
    answer = http.get(f"/inferbench{path}")
    assert answer.status_code == 200
    assert NASTY not in answer.text
    assert "&lt;script&gt;" in answer.text or path == "/cluster"
    assert "script-src 'self';" in answer.headers["content-security-policy"]


def test_pages_need_nothing_from_elsewhere(perfdb: PerfDB, http: TestClient) -> None:
    """Every address in every page is this server's own: it works without internet."""
    import re

    seed(perfdb)
    for path in ("home", "leaderboard", "runs", "run/run-0", "compare", "recommend", "cluster", "regression"):
        text = http.get(f"/inferbench/{path}").text
        found = re.findall(r"""(?:src|href|action)=["']([^"']*)""", text)
        assert found and all(u.startswith(("/", "?", "#", "data:,")) for u in found), path


def test_the_api_describes_itself(http: TestClient) -> None:
    """OpenAPI lists every route of the API with a summary."""
    described = http.get("/inferbench/api/openapi.json").json()["paths"]
    assert {"/api/runs", "/api/submissions", "/api/leaderboard", "/api/compare", "/api/recommend"} <= set(
        described
    )
    assert all(m.get("summary") for methods in described.values() for m in methods.values())


def test_a_run_s_figures(perfdb: PerfDB, http: TestClient) -> None:
    """The sections of a run, as JSON; an empty list where there are no raw samples is an answer, too."""
    seed(perfdb, 2)
    assert http.get("/inferbench/api/runs/run-1/charts").json().keys() == {"sections"}


def test_nightly_series_and_their_regressions(perfdb: PerfDB, bench: InferBench, http: TestClient) -> None:
    """A stage that became slower night after night is on the page, with its stage, and in the API."""
    write_nights(perfdb, [{}] * 5 + [{"preprocess": 2.0}] * 3)
    found = bench.regression()
    assert {
        change["stage"] for series in found["series"] for change in series["events"] if change["stage"]
    } == {"preprocess"}
    assert len(list(csv.DictReader(io.StringIO(http.get("/inferbench/api/regression?format=csv").text)))) >= 8
    text = http.get("/inferbench/regression?name=quick").text
    assert "preprocess" in text or not found["regressions"]
    assert text.count("data-draw=") == len(found["series"])


def test_a_figure_has_its_range(perfdb: PerfDB, http: TestClient) -> None:
    """Of valid results that match, by any name of the figure; null where none has it; no figure is refused."""
    seed(perfdb)
    asked = {"figure": "p99_ms"}
    assert http.get("/inferbench/api/range", params=asked).json() == {
        "figure": "p99_ms", "unit": "ms", "low": 10.0, "high": 60.0
    }  # fmt: skip
    fewer = http.get("/inferbench/api/range", params={**asked, "q": "p99<=20"}).json()
    assert (fewer["low"], fewer["high"]) == (10.0, 20.0)
    none = http.get("/inferbench/api/range", params={"figure": "p50_ms"}).json()
    assert (none["low"], none["high"]) == (None, None)
    assert http.get("/inferbench/api/range", params={"figure": "p98_ms"}).status_code == 422
