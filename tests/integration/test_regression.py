"""Nights in a real PerfDB: what check, report and the overview make of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from inferbench_tasks import settings
from inferbench_tasks.cli.main import main
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.regression import store
from inferbench_tasks.regression.overview import bisectable, overview
from inferbench_tasks.regression.report import write_report
from tests.report_page import charts_of
from tests.unit.regression.nights import side, write_nights, write_training_nights

pytestmark = pytest.mark.integration
QUIET: list[dict[str, float]] = [{}] * 5


class Done(NamedTuple):
    """What a command ended with and printed."""

    code: int
    stdout: str
    stderr: str


Command = Callable[..., Done]


@pytest.fixture
def regress(perfdb_uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """``inferbench regress ARGUMENTS``, called in this process as its entry point does."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)

    def call(*arguments: str) -> Done:
        with pytest.raises(SystemExit) as ended:
            main(["regress", *arguments])
        return Done(int(ended.value.code or 0), *capsys.readouterr())

    return call


def test_a_slower_stage_is_confirmed_attributed_and_fails_ci(
    perfdb: PerfDB, regress: Command, tmp_path: Path
) -> None:
    """5 ms more in pre-processing for two nights: one regression per latency figure, in that stage, exit code 1."""
    write_nights(perfdb, [*QUIET, {"preprocess": 5.0}, {"preprocess": 5.0}])
    done = regress("check", "-o", "json")
    assert done.code == 1, done.stderr
    found = json.loads(done.stdout)["regressions"]
    assert {change["series"].rpartition("-")[2] for change in found} == {"p50_ms", "p95_ms"}
    assert {change["stage"] for change in found} == {"preprocess"}
    assert found[0]["change_percent"] == pytest.approx(100 * 5 / 9.5, rel=0.1)
    assert {"field": "provenance.versions.onnxruntime", "baseline": "1.23", "candidate": "1.24"} in found[0][
        "environment"
    ]
    done = regress("report", "--to", str(tmp_path / "report"))
    assert done.code == 0, done.stderr
    page = (tmp_path / "report" / "index.html").read_text()
    assert "Regression" in page and "in <b>preprocess</b>" in page
    charts = charts_of(page)
    assert {f'data-chart="{name}"' in page for name in charts} == {True} and charts["0"]["data"][0]["y"]
    assert "http://" not in page.split("<script")[0] and 'src="http' not in page


def test_a_slower_phase_of_a_training_is_confirmed_beside_nights_of_serving(perfdb: PerfDB) -> None:
    """2 ms more in backward for two nights: the step and samples/s of the training, in that phase; serving is quiet."""
    write_nights(perfdb, [{}] * 7)
    write_training_nights(perfdb, [*QUIET, {"backward": 2.0}, {"backward": 2.0}])
    found = overview(perfdb)
    changes = {change["series"].rpartition("-")[2]: change for change in found["regressions"]}
    assert set(changes) == {"step_ms", "epoch_samples_per_s"}
    assert {change["stage"] for change in changes.values()} == {"backward"}
    assert changes["step_ms"]["change_percent"] == pytest.approx(100 * 2 / 15.5, rel=0.15)
    assert changes["epoch_samples_per_s"]["change_percent"] < 0
    assert {"field": "engine.version", "baseline": "2.12", "candidate": "2.13"} in changes["step_ms"][
        "environment"
    ]
    units = {series["figure"]: (series["unit"], series["better"]) for series in found["series"]}
    assert units["step_ms"] == ("ms", "lower") and units["epoch_samples_per_s"] == ("samples/s", "higher")
    assert units["p50_ms"] == ("ms", "lower")


def test_a_bisection_starts_from_the_job_and_the_size_of_the_change(perfdb: PerfDB) -> None:
    """15.25: 1.26% of the second job of a sweep: neither the first job nor 3% is what the night confirmed."""
    write_nights(perfdb, [{}])
    (night,) = store.sessions(perfdb)
    night = night.model_copy(
        update={
            "baseline": night.baseline.model_copy(update={"git_sha": "a" * 40}),
            "candidate": night.candidate.model_copy(update={"git_sha": "b" * 40}),
            "runs": [run.model_copy(update={"job": 1}) for run in night.runs],
        }
    )
    series = {"figure": "p50_ms", "digest": "ab" * 32}
    ends = {"figure": "p50_ms", "good": "a" * 40, "bad": "b" * 40}
    small = bisectable(perfdb, series, {"change_percent": -1.256}, night)
    assert small == ends | {"job": 1, "detect_percent": 1.26}
    large = bisectable(perfdb, {**series, "digest": "gone"}, {"change_percent": 12.0}, night)
    assert large == ends
    night.candidate = night.baseline
    assert bisectable(perfdb, series, {"change_percent": 12.0}, night) is None


def test_an_unconfirmed_suspicion_fails_nothing(perfdb: PerfDB, regress: Command) -> None:
    """After the first bad night the check says what it suspects, with exit code 0."""
    write_nights(perfdb, [*QUIET, {"inference": 3.0}])
    done = regress("check")
    assert done.code == 0, done.stderr
    assert "suspected, not confirmed" in done.stdout and "regression:" not in done.stdout


def test_a_night_of_too_few_pairs_is_no_night_without_a_change(
    perfdb: PerfDB, regress: Command, tmp_path: Path
) -> None:
    """Four pairs, in which the candidate takes 5 ms more of 9.5, decide nothing: that is said, and nowhere that nothing
    changed; beside a quiet submission both are said."""
    write_nights(perfdb, [{"preprocess": 5.0}], pairs=4)
    done = regress("check")
    assert done.code == 0, done.stderr
    assert "nothing decided: 4 of at least 5 pairs" in done.stdout and "no change" not in done.stdout
    series = overview(perfdb)["series"]
    assert {(one["decided"], one["newest_pairs"]) for one in series} == {(False, 4)}
    index, _ = write_report(overview(perfdb), tmp_path)
    page = index.read_text()
    assert f"Nothing is decided of {len(series)} of {len(series)} series" in page
    assert "No change was found in the newest sessions" not in page
    write_nights(perfdb, QUIET, name="quiet")
    done = regress("check")
    assert f"nothing decided: {len(series)} of {2 * len(series)} series" in done.stdout
    assert done.stdout.splitlines()[-1] == "no change was found"
    assert len(json.loads(regress("check", "-o", "json").stdout)["undecided"]) == len(series)


def test_quiet_nights_are_quiet(perfdb: PerfDB, tmp_path: Path) -> None:
    """Each series states what it could find; nothing is reported; the JSON is strict JSON."""
    write_nights(perfdb, QUIET)
    found = overview(perfdb)
    assert found["regressions"] == found["improvements"] == found["suspicions"] == []
    stated = [series["minimum_detectable_effect_percent"] for series in found["series"]]
    assert len(stated) == 4 and all(0 < mde < 10 for mde in stated)
    _, path = write_report(found, tmp_path)
    assert json.loads(path.read_text())["series"][0]["points"][0]["session"] == "quick-000"


@pytest.mark.parametrize(
    "verdict",
    [
        "invalid: the sender was late",
        "disturbed: the hypervisor took 30.0% of the machine's CPU time (at most 5%)",
        "disturbed: what else happened on the machine was only noted (INFERBENCH_INTERFERENCE=note)",
    ],
)
def test_runs_that_are_not_valid_count_for_nothing(perfdb: PerfDB, verdict: str) -> None:
    """15.11, 15.26: a series is made of valid runs only; what a disturbed machine gave is none."""
    write_nights(perfdb, [{}])
    run_id = "quick-000-0.000"
    document = perfdb.get_result(run_id)
    perfdb.delete_result(run_id)
    perfdb.save_result(document.model_copy(update={"verdict": Verdict.read(verdict)}))
    (history, *_) = store.histories(perfdb).values()
    assert (len(history[0].baseline), len(history[0].candidate)) == (5, 6)


def test_series_are_kept_apart_by_the_number_of_cores(perfdb: PerfDB) -> None:
    """15.5: nights on 8 of a CPU's cores are another series than those on 2, with another id, shown with its cores."""
    on_two, on_eight = ({"kind": "cpu", "name": "Example CPU", "cores": cores} for cores in (2.0, 8.0))
    write_nights(perfdb, QUIET, device=on_two)
    write_nights(perfdb, [{"inference": -3.0}] * 2, device=on_eight, first=5)
    p50 = {s["cores"]: s for s in overview(perfdb)["series"] if s["figure"] == "p50_ms"}
    assert {cores: len(series["points"]) for cores, series in p50.items()} == {2.0: 5, 8.0: 2}
    assert p50[2.0]["id"] != p50[8.0]["id"] and "2-cores" in p50[2.0]["id"]


def test_series_that_were_stored_without_cores_go_on(perfdb: PerfDB) -> None:
    """15.5: older results tell the cores by their environment; those that don't are a series with the id of before."""
    write_nights(perfdb, [{}], first=0, device={"kind": "cpu", "name": "Example CPU"})
    pinned = {"cores_logical": 8, "cores_allowed": [0, 1]}
    write_nights(perfdb, [{}] * 2, first=1, device={"kind": "cpu", "name": "Example CPU"}, hardware=pinned)
    write_nights(perfdb, [{}] * 2, first=3, device={"kind": "cpu", "name": "Example CPU", "cores": 2.0})
    collection = perfdb.collection("results")
    collection.update_many({"device.cores": None}, {"$unset": {"device.cores": ""}})
    p50 = {
        key.cores: (key, history)
        for key, history in store.histories(perfdb).items()
        if key.figure == "p50_ms"
    }
    assert {cores: len(history) for cores, (_, history) in p50.items()} == {None: 1, 2.0: 4}
    assert p50[None][0].id == f"quick-{'ab' * 6}-Example-CPU-p50_ms"


def test_runs_on_other_cores_count_for_nothing(perfdb: PerfDB) -> None:
    """15.5: a run of a session that had another number of cores than its newest candidate is in no pair."""
    write_nights(perfdb, [{}], device={"kind": "cpu", "name": "Example CPU", "cores": 2.0})
    elsewhere = {"run_id": "quick-000-0.000"}
    perfdb.collection("results").update_one(elsewhere, {"$set": {"device.cores": 4.0}})
    (history, *_) = store.histories(perfdb).values()
    assert (len(history[0].baseline), len(history[0].candidate)) == (5, 6)


def test_no_nights_is_an_input_error(perfdb: PerfDB, regress: Command) -> None:
    """It says what to do; exit code 2."""
    done = regress("check")
    assert done.code == 2 and "inferbench regress run" in done.stderr


def test_the_baseline_is_kept_and_moves_when_it_is_told(perfdb: PerfDB) -> None:
    """One baseline per submission."""
    assert store.baseline(perfdb, "quick") is None
    store.move_baseline(perfdb, "quick", side("a"), "the first night")
    store.move_baseline(perfdb, "quick", side("b"), "confirmed")
    assert store.baseline(perfdb, "quick") == side("b")
