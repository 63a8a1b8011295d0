"""A PerfDB that the version before the restructuring filled answers as it did then (``tests/data/golden``).

All is asked for by the names of then; a figure may have another name by now.
"""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.recommend.leaderboard import leaderboard
from inferbench_tasks.analysis.recommend.recommender import choose, recommend
from inferbench_tasks.analysis.report.advise import advise
from inferbench_tasks.analysis.report.differences import compare_runs
from inferbench_tasks.analysis.report.runs import RunView, load_runs
from inferbench_tasks.analysis.report.slowdown import slowdowns
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.errors import InputError, PerfDBError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.modelrepo.repository import ModelRepository
from inferbench_tasks.perfdb import fields, frames
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain
from inferbench_tasks.regression import store as nights
from tests.unit.perfdb.golden import expected, fill, key

pytestmark = pytest.mark.integration
OPEN = "golden-open-20261122T105156-8f0e81"
SHARING = "golden-sharing-20261122T105641-94597f"


def as_then(now: Any, then: Any) -> Any:
    """Without the fields that came since."""
    if isinstance(now, dict) and isinstance(then, dict):
        return {name: as_then(now[name], then[name]) for name in then}
    return now


@pytest.fixture
def golden(perfdb: PerfDB) -> PerfDB:
    """Filled with all that was stored."""
    return fill(perfdb)


def test_leaderboards_have_the_same_rows(golden: PerfDB) -> None:
    """By every figure: the same runs with the same values and intervals, in the same order within each load.

    And the same ranks among these, but where the judge has become more careful since: of latencies more are ties.
    """
    for name, then in expected()["leaderboard"].items():
        figure = FIGURES.named(fields.field(name).name)
        shown = ("run", "ci95", "task", "dataset")
        board = leaderboard(golden, name)
        now = [{**{part: row[part] for part in shown}, "value": row[figure.name],
                "energy_method": row.get("energy_method")} for row in board]  # fmt: skip
        load_of = {row["run"]: row["load"] for row in board}
        before = sorted(then, key=lambda row: (row["task"], row["dataset"], load_of[row["run"]]))
        assert now == [{part: row[part] for part in row if part != "rank"} for row in before], name
        ranks = [
            (row["rank"], 1 + sum(other["rank"] < known["rank"] and load_of[other["run"]] == row["load"]
                                  for other in then))
            for row, known in zip(board, before, strict=True)
        ]  # fmt: skip
        if figure.interval:
            assert all(rank <= before for rank, before in ranks), name
        elif not figure.energy_based:
            assert all(rank == before for rank, before in ranks), name


def test_queries_select_the_same_results(golden: PerfDB) -> None:
    """Old names, aliases, paths below open fields, verdicts."""
    for query, then in expected()["queries"].items():
        rows = frames.rows(golden, query, unfinished=False)
        run, attempt = fields.field("run").name, fields.field("attempt").name
        assert {key(row[run], row[attempt]) for row in rows} == {*then}, query


def test_sorted_lists_have_the_same_order(golden: PerfDB) -> None:
    """By old names; of results with equal figures any may come first."""
    known = expected()["results"]
    for sort, then in expected()["sorts"].items():
        names = [name.lstrip("-") for name in sort.split(",")][:1]
        rows = frames.rows(golden, "verdict=valid", sort)
        for name in names:
            then_values = [known[result]["row"].get(expected()["names"][name]) for result in then]
            assert [row[fields.field(name).name] for row in rows] == then_values, sort


def test_recommendations_are_the_same(golden: PerfDB) -> None:
    """Objectives and bounds by their old names, on all results together; PerfDB's are asked for load by load."""
    where = {"$and": [parse("model=digits").filter, {"verdict": "valid"}]}
    documents = [to_plain(document) for document in golden.find_raw(where, [("created_at", -1)])]
    for asked, then in expected()["recommend"].items():
        objective, *texts = asked.split()
        bounds = [Bound.parse(bound) for bound in texts]
        with pytest.raises(InputError, match="'poisson, 200 samples/s'"):
            recommend(golden, objective, bounds, "model=digits")
        now = choose(documents, objective, bounds)
        assert [row["run"] for row in now.top] == then["top"], asked
        assert (now.candidates, now.fitting) == (then["candidates"], then["fitting"]), asked


def test_runs_are_read_with_their_stages(golden: PerfDB) -> None:
    """Status, verdict and every execution of a stage."""
    for run_id, then in expected()["runs"].items():
        run = golden.get_run(run_id)
        assert run.status == then["status"]
        assert (None if run.verdict is None else str(run.verdict)) == then["verdict"]
        assert [[s.stage, s.attempt, s.state] for s in run.stages] == then["stages"]


def test_reports_see_the_same_runs_and_give_the_same_advice(golden: PerfDB) -> None:
    """Of every invocation: labels, verdicts, what was measured, whether the SLO was met, and the best run."""
    for invocation_id, then in expected()["invocations"].items():
        invocation = golden.get_invocation(invocation_id)
        assert invocation.status == then["status"]
        views = load_runs(golden, invocation.run_ids)
        assert {view.run_id: _seen(view) for view in views} == then["runs"]
        best = advise(views).best
        assert (best.run_id if best else None) == then["best"]


def _seen(view: RunView) -> dict[str, Any]:
    return {
        "label": view.label,
        "verdict": str(view.verdict),
        "valid": view.valid,
        "measured": view.measured,
        "samples_per_request": view.samples_per_request,
        "slo_met": view.figure("slo.met"),
    }


def test_two_runs_compare_as_they_did(golden: PerfDB) -> None:
    """Ratios, probabilities and judgements of every figure; the intervals are wider, for they hold for all together.

    The judge has become more careful since of latencies that a run could not bound: of these a difference is less sure
    than it was, or not shown at all. Both runs' energies are of one machine by one method, whose error is the same in
    both. Under one load the second run has half as many requests of twice as many samples: of a request's figures
    neither is better.
    """
    first, second = f"{OPEN}.000", f"{OPEN}.001"
    comparison = compare_runs(load_runs(golden, [first, second]))
    now = {row["figure"]: row for row in comparison.as_dict()["figures"]}
    for name, then in expected()["compare_runs"].items():
        figure = FIGURES.named(fields.field(name).name)
        row = now[figure.name]
        (difference,) = row["differences"]
        assert row[first] == then["first"]
        assert difference["value"] == then["value"]
        assert difference["ratio"] == pytest.approx(then["ratio"], rel=1e-9)
        low, high = difference["ci95"]
        if not figure.drifts:
            # Answers are judged by their samples now, and by no machine's drift: of equal ones nothing is shown.
            assert (difference["ratio"], difference["probability"], difference["verdict"]) == (
                1.0,
                0.5,
                "no difference shown",
            )
            assert then["ci95"][0] < low < 1 < high < then["ci95"][1]
        elif figure.interval:
            assert 0.5 <= difference["probability"] < then["probability"], name
            judged: tuple[Any, ...] = (then["verdict"], "no difference shown", "not decided")
            assert difference["verdict"] in ((None,) if figure.per_sample else judged)
            assert low < then["ci95"][0] < then["ci95"][1] < high
        else:
            judged = (then["verdict"], "no difference shown")
            assert difference["verdict"] in ((None,) if figure.per_sample else judged)
            assert difference["probability"] == pytest.approx(then["probability"], rel=1e-9)
            assert low < then["ci95"][0] < then["ci95"][1] < high
        if difference["verdict"] is not None:
            open_ = difference["verdict"] in ("no difference shown", "not decided")
            assert open_ == (low <= 1 <= high), name
            assert (difference["verdict"] == "not decided") == (difference["reason"] is not None), name


def test_slow_downs_of_a_share_are_the_same(golden: PerfDB) -> None:
    """Each model beside the other against alone."""
    views = load_runs(golden, golden.get_invocation(SHARING).run_ids)
    now = {row["member"]: row for row in slowdowns(views)}
    for then in expected()["slowdowns"]:
        row = now[then["member"]]
        for part in ("p50", "p99", "throughput"):
            for bound, value in then[part].items():
                assert getattr(row[part], bound) == (value and pytest.approx(value, rel=1e-9))
        for part in ("model", "alone", "together", "beside", "neighbours", "verdict"):
            assert row[part] == then[part]


def test_nights_are_read(golden: PerfDB) -> None:
    """Sessions, the baseline, and every series with its figures."""
    then = expected()["nights"]
    sessions = nights.sessions(golden)
    assert [[s.session_id, s.kind, s.pairs, len(s.runs), s.ended_at is not None] for s in sessions] == then[
        "sessions"
    ]
    baseline = nights.baseline(golden, "golden-night")
    assert baseline is not None and baseline.id == then["baseline"]
    paths = {figure.field_path: figure.name for figure in FIGURES.on("night")}
    series = {(k.name, k.digest, k.figure): history for k, history in nights.histories(golden).items()}
    for known in then["series"]:
        metric = paths[expected()["watched"][known["metric"]]]
        history = series[known["name"], known["digest"], metric]
        assert [[s.id, list(s.baseline), list(s.candidate)] for s in history] == known["sessions"]


def test_models_are_read(golden: PerfDB) -> None:
    """The card of a registered model, in full."""
    assert [card.model_dump(mode="json") for card in ModelRepository(golden).search()] == expected()["models"]


def test_devices_and_what_jobs_went_through_are_read(golden: PerfDB) -> None:
    """With leases that are held, granted and lost; a lease of then holds its own device alone."""
    cluster = Cluster(golden)
    devices = cluster.devices()
    for device, then in zip(devices, expected()["devices"], strict=True):
        assert as_then(device.model_dump(mode="json", exclude={"age_s"}), then) == then
    assert {device.held_with for device in devices if device.lease} == {
        (device.device_id,) for device in devices if device.lease
    }
    for job, (attempt, avoid) in expected()["job_history"].items():
        assert cluster.history(job) == (attempt, frozenset(avoid))


def test_raw_samples_are_read(golden: PerfDB) -> None:
    """The latencies can be derived from them again; a file that is gone is an error that says so."""
    then = expected()["samples"]
    table = golden.samples(then["run"])
    assert (table.num_rows, table.column_names) == (then["rows"], then["columns"])
    (view,) = load_runs(golden, [then["run"]])
    latencies = view.latencies_ms
    assert latencies is not None
    assert len(latencies) == then["answered"]
    assert float(latencies.sum()) == pytest.approx(then["latency_ms_sum"])
    with pytest.raises(PerfDBError):
        golden.samples(f"{OPEN}.000")
