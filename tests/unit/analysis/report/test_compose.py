"""The report: one page for whatever became of the runs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from inferbench_tasks.analysis.charts import rates
from inferbench_tasks.analysis.charts.latency import cdf, ecdf_ranks, percentiles
from inferbench_tasks.analysis.labels import name_by_difference, short_names
from inferbench_tasks.analysis.report import page, terminal
from inferbench_tasks.analysis.report.compose import html, notes_of
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.analysis.report.tables import energy_table
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.errors import StorageError
from inferbench_tasks.output import OutputFormat
from tests.report_page import charts_of, unpacked
from tests.unit.analysis.builders import named, records, view
from tests.unit.analysis.report.test_answers import run as judged_run

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def sweep() -> list[RunView]:
    """Two valid runs, an invalid one and a failed one."""
    resources = {"timeseries": {"server.cpu_cores": {"t_s": [-1.0, 0.0, 1.0], "value": [0.1, 0.2, 0.3]}}}
    return named(
        view(records(5.0), "r.000", resources=resources),
        view(records(9.0), "r.001", job={"load__batch_size": 8}),
        view(records(30, failed=100), "r.002", "invalid: 100 requests failed", job={"load__batch_size": 4}),
        view(None, "r.003", "failed: serve, it died", job={"load__batch_size": 2}),
    )


def test_a_page_is_whole_and_small(sweep: list[RunView]) -> None:
    """No reference leaves the file, plotly is in it, and with lines and bars alone it is below 700 kB."""
    text = html(sweep, {"name": "quickstart"})
    assert len(text) < 700_000
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", text)
    assert b"plotly.js" in unpacked(text, "plotly")[:200]


def test_two_evaluated_runs_are_a_small_page_too() -> None:
    """Measured and judged, each with a matrix of ten classes: below 700 kB. The matrix is a table whose rows and
    columns have heads, a cell shaded by its share: of class 1 two of 20 were answered as 0.
    """
    views = []
    for name in ("r.000", "r.001"):
        judged, one = judged_run(name, {1, 5, 9}), view(records(5.0), name)
        assert judged.result is not None and one.result is not None
        counts = [[18 * (row == column) + 2 * (column == 0) for column in range(10)] for row in range(10)]
        document = judged.result.extensions["evaluation"]
        one.result.extensions["evaluation"] = document | {
            "confusion": {"classes": list(range(10)), "counts": counts}
        }
        one.answers = judged.answers
        views.append(one)
    text = html(named(*views), {"name": "evaluated"})
    assert len(text) < 700_000
    assert b"heatmap" not in unpacked(text, "charts")
    row = text[text.index('<th scope="row">1</th>') :].partition("</tr>")[0]
    assert '<td class="n shaded" style="--share: 0.1">2</td>' in row and '<td class="n">0</td>' in row
    assert '<th scope="col" class="n">as 9</th>' in text


def test_names_lead_to_pages_only_where_the_report_is_served(sweep: list[RunView]) -> None:
    """The head names submission, model and its rows of the leaderboard, hidden and without a link: only the page's
    script, served beside InferBench's pages, makes links of them. An invalid run alone leads to no leaderboard.
    """
    text = html(sweep, {"name": "quick start"})
    head = text[text.index("data-served") :].partition("</p>")[0]
    assert head.startswith("data-served hidden>") and "href" not in text.partition("<script")[0]
    paths = dict(re.findall(r'data-path="([^"]*)">([^<]*)<', head))
    assert paths == {
        "/inferbench/runs?q=submission%3D%27quick+start%27": "Submission quick start",
        "/inferbench/model?name=digits": "Model digits",
        "/inferbench/leaderboard?model=digits": "digits on the leaderboard",
    }
    alone = html([view(records(30, failed=100), "r.002", "invalid: 100 requests failed")], {"name": "x"})
    assert "/inferbench/leaderboard" not in alone


def test_a_report_is_dark_where_its_reader_s_system_is(sweep: list[RunView]) -> None:
    """Its colours are those of the pages, with the dark ones on screens alone: paper stays light. A night's report has
    the same, and neither has a colour of its own for text or ground.
    """
    text = html(sweep, {"name": "x"})
    style = text.partition("<style>")[2].partition("</style>")[0]
    look = page.own_file("look.css")
    assert look in style and "@media screen and (prefers-color-scheme: dark)" in look
    own = style.replace(look, "")
    assert not re.search(r"[^-]color:\s*#|background: #", own)
    outcome: dict[str, Any] = {
        "series": [],
        "sessions": [],
        "regressions": [],
        "improvements": [],
        "suspicions": [],
    }
    assert look in page.render("regression.html", title="Regressions", outcome=outcome, charts={})


def test_a_chart_of_another_kind_has_the_whole_of_plotly() -> None:
    """Which draws it; both are of one version, so that a chart looks alike on every page."""

    def script(kind: str) -> bytes:
        chart = {"data": [{"type": kind}], "layout": {}}
        return unpacked(page.render("base.html", title="x", charts={"one": chart}), "plotly")

    basic, whole = script("bar"), script("heatmap")
    assert len(basic) < len(whole) / 3
    versions = [re.search(rb"plotly\.js [a-z() -]*v([\d.]+)", text[:300]) for text in (basic, whole)]
    assert versions[0] is not None and versions[1] is not None and versions[0][1] == versions[1][1]


def test_every_figure_is_what_plotly_takes(sweep: list[RunView]) -> None:
    """Plotly's own schema accepts each figure; each has a title and titled axes."""
    charts = charts_of(html(sweep, {}))
    assert len(charts) >= 7
    for figure in charts.values():
        checked = go.Figure(figure)
        assert checked.layout.title.text
        assert checked.layout.xaxis.title.text or checked.layout.yaxis.title.text


def test_failed_and_invalid_runs_are_shown_with_why(sweep: list[RunView]) -> None:
    """What went wrong stands in the page, and such a run is marked in the figures."""
    text = html(sweep, {})
    assert "failed: serve, it died" in text
    assert "invalid: 100 requests failed" in text
    names = [trace["name"] for trace in charts_of(text)["c0"]["data"]]
    assert names == ["batch_size 1", "batch_size 8", "batch_size 4 — invalid"]


def test_a_users_text_is_text() -> None:
    """Markup in a name, a description, a verdict or a device does nothing, in the page and in figures."""
    evil = view(records(5.0), "r.000", f"invalid: {EVIL}", device={"kind": "cpu", "name": EVIL})
    evil.label = EVIL
    text = html([evil], {"name": EVIL, "description": f"{EVIL} </pre>{EVIL}"})
    assert EVIL not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert charts_of(text)["c0"]["data"][0]["name"].startswith("&lt;script&gt;")


def test_the_curve_is_the_samples() -> None:
    """Each point of the cumulative curve is a sample at its exact rank, first and last included."""
    run = view(records(5.0))
    charts = cdf([run], {})
    assert charts is not None and run.latencies_ms is not None
    x, y = np.array(charts["data"][0]["x"]), np.array(charts["data"][0]["y"])
    everything = run.latencies_ms
    assert x[0] == everything[0] and x[-1] == everything[-1] and y[-1] == 1
    for value, share in zip(x, y, strict=True):
        assert np.mean(everything <= value) == pytest.approx(share)


@pytest.mark.parametrize("samples", [1, 2, 999, 1_000_000])
def test_ranks_reach_into_the_tail(samples: int) -> None:
    """Ranks lie in 1..n, ascend, are few, and hold the last ones."""
    ranks = ecdf_ranks(samples)
    assert ranks[0] == 1 and ranks[-1] == samples
    assert all(np.diff(ranks) > 0) and len(ranks) <= 400


def test_a_percentile_without_support_is_left_out() -> None:
    """200 requests have no p99: there is no bar for it."""
    charts = percentiles([view(records(5.0, rate_rps=25))], {})
    assert charts is not None
    bars = dict(zip(charts["data"][0]["x"], charts["data"][0]["y"], strict=True))
    assert bars["p95"] is not None and "p99" not in bars


def test_an_interval_that_is_not_known_is_not_drawn() -> None:
    """Not as one of no width either, and the title says so; where it is known, the bar has it."""
    run = view(records(5.0, seed=2))
    assert run.result is not None
    intervals = run.result.summary.e2e_latency_ms.ci95
    assert intervals is not None and all(intervals[q] for q in ("p50", "p90", "p95"))
    before = percentiles([run], {})
    unknown = run.result.model_copy(deep=True)
    unknown.summary.e2e_latency_ms.ci95 = {**intervals, "p95": None}
    after = percentiles([replace(run, result=unknown)], {})
    assert before is not None and after is not None
    assert "with 95% intervals" in str(before["layout"]["title"])
    assert "where enough requests are independent" in str(after["layout"]["title"])
    at = after["data"][0]["x"].index("p95")
    charts = [
        [fig["data"][0]["error_y"][side][at] for side in ("array", "arrayminus")] for fig in (before, after)
    ]
    assert all(isinstance(value, float) and value > 0 for value in charts[0]) and charts[1] == ["unknown"] * 2


def test_a_bound_far_above_all_bars_is_told_and_not_drawn() -> None:
    """5 ms under an SLO of 20 ms of the p99: a line at 20 ms; under one of 2 s: a word in the title."""
    for bound_ms, visible in ((20.0, True), (2000.0, False)):
        figure = percentiles([view(records(5.0))], {"p99": bound_ms})
        assert figure is not None
        layout = figure["layout"]
        assert bool(layout.get("shapes")) is visible
        assert ("SLO far above: p99 2000 ms" in str(layout["title"])) is not visible


@pytest.mark.parametrize(
    "run",
    [
        view(records(5.0, seconds=1, rate_rps=1), seconds=1),
        view(records(5.0, failed=2000), verdict="invalid: all requests failed"),
        view(None, verdict="failed: generate, no space left"),
        view(None, verdict="cancelled: load"),
        view(records(5.0), cpu_cores=None),
    ],
    ids=["one sample", "only errors", "failed", "cancelled", "no monitors"],
)
def test_there_is_a_report_whatever_happened(run: RunView, capsys: pytest.CaptureFixture[str]) -> None:
    """Page and terminal show a run without this or that, and its verdict."""
    assert run.state in html(named(run), {"name": "x"})
    assert run.result is not None
    terminal.show_results([run.result], None, OutputFormat.table)
    assert run.state in capsys.readouterr().out


def test_no_run_at_all_gives_a_page() -> None:
    """A submission none of whose runs started has a page that says so."""
    text = html([], {"name": "x"}, unstarted=3)
    assert "3 run(s) of this submission never started" in text


def test_json_has_nothing_but_data(sweep: list[RunView], capsys: pytest.CaptureFixture[str]) -> None:
    """With -o json stdout is one JSON document, figures under the field's names."""
    results = [run.result for run in sweep if run.result]
    terminal.show_results(results, Path("report.html"), OutputFormat.json)
    rows = json.loads(capsys.readouterr().out)
    assert [row["verdict"].partition(":")[0] for row in rows] == ["valid", "valid", "invalid", "failed"]
    assert rows[0]["p50_ms"] == results[0].summary.e2e_latency_ms.p50
    assert rows[3]["p50_ms"] is None
    assert rows[0]["report"] == "report.html"


def test_runs_are_named_by_what_differs() -> None:
    """A label has the swept fields only, by the shortest name that is unique; equal runs get their index."""
    a, b = view(None, "i.000"), view(None, "i.001", job={"load__batch_size": 8, "serve": {"threads": 2}})
    name_by_difference([a, b])
    assert (a.label, b.label) == ("threads 1, batch_size 1", "threads 2, batch_size 8")
    twins = [view(None, "i.000"), view(None, "i.001")]
    name_by_difference(twins)
    assert [t.label for t in twins] == ["quickstart (000)", "quickstart (001)"]
    assert short_names(["serve.batching.max_batch_size", "load.batch_size", "load.arrivals.kind"]) == {
        "serve.batching.max_batch_size": "max_batch_size",
        "load.batch_size": "batch_size",
        "load.arrivals.kind": "arrivals.kind",
    }


def test_a_page_that_can_not_be_written_is_a_storage_error(tmp_path: Path) -> None:
    """The message names the file and why; no half page stays."""
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="can't be written"):
        page.write(tmp_path / "file" / "report.html", "x")


def test_a_million_samples_are_drawn_quickly_enough_to_wait_for() -> None:
    """A run of a million requests gives a page as small as any other."""
    big = view(records(5.0, rate_rps=100_000, seconds=8))
    text = html(named(big), {"name": "big"})
    assert len(text) < 2_500_000


def test_a_label_has_only_what_the_job_has_and_what_tells_runs_apart() -> None:
    """Models of two families have fields of their own; those of the other family are not in the label."""
    specs = [
        {"kind": "canonical", "family": "mlp", "neurons": 64},
        {"kind": "canonical", "family": "mlp", "neurons": 256},
        {"kind": "canonical", "family": "cnn", "channels": 8},
    ]
    views = [view(None, f"i.{index:03}", job={"model": spec}) for index, spec in enumerate(specs)]
    name_by_difference(views)
    assert [v.label for v in views] == ["family mlp, neurons 64", "family mlp, neurons 256", "family cnn"]


def test_labels_are_even_where_jobs_are_of_different_kinds() -> None:
    """A model is named in one place whatever kind it is; a group of settings is off, on, or told by what differs."""
    models = [{"kind": "zoo", "name": "digits"}, {"kind": "canonical", "family": "cnn", "channels": 8}]
    views = named(
        *(
            view(None, f"i.{index:03}", job={"model": model, "load__batch_size": size})
            for index, (model, size) in enumerate((model, size) for model in models for size in (1, 4))
        )
    )
    assert [v.label for v in views] == [
        f"model {model}, batch_size {size}" for model in ("digits", "cnn") for size in (1, 4)
    ]

    def batched(*groups: dict[str, Any] | None) -> list[str]:
        views = [
            view(None, f"i.{n:03}", job={"serve": {"batching": group}}) for n, group in enumerate(groups)
        ]
        return [v.label for v in named(*views)]

    off, short, long = (None, *({"max_batch_size": 8, "max_delay_ms": delay} for delay in (1.0, 2.0)))
    assert batched(off, short) == ["batching off", "batching on"]
    assert batched(off, short, long) == ["batching off", "batching max_delay_ms 1", "batching max_delay_ms 2"]
    assert batched(short, long) == ["max_delay_ms 1", "max_delay_ms 2"]


def test_what_is_the_same_for_all_runs_is_said_once_above_a_table() -> None:
    """Two runs with one method and one grid: neither is a column; of one run, everything is shown."""
    views = named(*(view(records(5.0), f"r.{n}", job={"load__batch_size": n}) for n in (1, 2)))
    for number, run in enumerate(views, start=1):
        run.summary["energy"] = {"joule_per_request": 0.1 * number, "uncertainty_ratio": 0.3, "method": "rapl",
                                 "scope": "package"}  # fmt: skip
        run.summary["carbon"] = {"g_per_1k": 0.5 * number, "region": "FR", "g_per_kwh": 56, "date": "2024"}
    (table,) = energy_table(views)
    assert table["head"] == ["run", "J/request", "CO₂e, g/1,000 requests"]
    assert table["rows"] == [["batch_size 1", "0.1 ± 30%", "0.5"], ["batch_size 2", "0.2 ± 30%", "1"]]
    assert table["numbers"] == [1, 2]
    assert table["note"] == (
        "For all rows: method: rapl; of what: package; cross-check: none; electricity: FR, 56 g/kWh, 2024."
    )
    (single,) = energy_table(views[:1])
    assert single["rows"] == [
        ["batch_size 1", "0.1 ± 30%", "rapl", "package", "–", "0.5", "FR, 56 g/kWh, 2024"]
    ]
    assert "note" not in single
    why = "it counts the whole machine, and 48% of the CPU time that was used was others'"
    views[0].summary["energy"]["left_out"] = {"rapl": {"joule_per_request": 0.7, "reason": why}}
    (apart,) = energy_table(views[:1])
    assert apart["rows"][0][4] == f"rapl 0.7 J, not this run's: {why}"
    assert "rapl is of: all processor packages" in apart["note"]


def test_a_valid_run_that_was_disturbed_is_noted_at_the_top() -> None:
    """How much of the CPU others had stands among the notes, once for all runs; of an invalid run its verdict tells."""
    views = named(*(view(records(5.0), f"r.{n}", job={"load__batch_size": n}) for n in (1, 2)))
    for share, run in zip((0.3, 0.95), views, strict=True):
        finding = {"kind": "foreign_cpu", "value": share, "text": "x", "quarantine": False}
        run.summary["interference"] = {"findings": [finding]}
    sentence = "valid run(s): other processes used up to {} of the CPU meanwhile; see Interference."
    assert f"2 of 2 {sentence.format('95%')}" in notes_of(views, 0)
    views[1].verdict = Verdict.read("invalid: interference")
    assert f"1 of 1 {sentence.format('30%')}" in notes_of(views, 0)
    # Of a load from another host either has a finding: others had 60% of the server's, and 12% of the load's.
    both = [
        {"kind": "foreign_cpu", "value": share, "text": "x", "quarantine": False} for share in (0.6, 0.12)
    ]
    views[0].summary["interference"] = {"findings": both}
    assert f"1 of 1 {sentence.format('60%')}" in notes_of(views, 0)


SEARCH = {
    "objective": "p99_ms <= 20",
    "rps": 400.0,
    "samples_per_s": 400.0,
    "broken_rps": 420.0,
    "interval": {"rps": [400.0, 420.0], "samples_per_s": [400.0, 420.0]},
    "probes": [
        {"rate_rps": 400.0, "duration_s": 10.0, "outcome": "kept", "reason": "0.1% over", "requests": 4000,
         "objective": {"p99_ms": {"value": 9.0, "bound": 20.0, "met": True, "over": 4, "requests": 4000}}},
        {"rate_rps": 420.0, "duration_s": 10.0, "outcome": "broken", "reason": "5% over", "requests": 4200,
         "objective": {"p99_ms": {"value": 50.0, "bound": 20.0, "met": False, "over": 210, "requests": 4200}}},
        {"rate_rps": 410.0, "outcome": "unusable", "reason": "it did not come about", "verdict": None},
    ],
}  # fmt: skip


def test_a_search_for_the_highest_rate_shows_its_probes() -> None:
    """In words, as a table with the reason of each, and over the rate: 2% of what may be over, and five times that."""
    run = view(records(5.0), "r.000", job={"load__arrivals": {"kind": "max_rate"}})
    run.summary["max_rate"] = SEARCH
    chart = rates.probes([run])
    assert chart is not None
    points = [(trace["x"], trace["y"]) for trace in chart["data"]]
    assert points == [([400.0], [pytest.approx(0.1)]), ([420.0], [pytest.approx(5.0)])]
    (table,) = rates.table([run])
    assert [row[5:] for row in table["rows"]] == [
        ["kept", "0.1% over"],
        ["broken", "5% over"],
        ["unusable", "it did not come about"],
    ]
    text = html([run], {"name": "x"})
    assert "400 requests/s keep p99_ms &lt;= 20, 420 break it" in text and "Highest rate" in text


def test_a_report_without_a_search_says_nothing_of_one(sweep: list[RunView]) -> None:
    """No section, no column."""
    assert "Highest rate" not in html(sweep, {"name": "quickstart"})
