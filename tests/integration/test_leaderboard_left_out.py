"""What a leaderboard does not rank, and which points of its picture are doubtful, on a real PerfDB."""

from __future__ import annotations

import pytest

from inferbench_tasks import settings
from inferbench_tasks.analysis.recommend.leaderboard import leaderboard
from inferbench_tasks.analysis.recommend.not_ranked import not_ranked_note
from inferbench_tasks.analysis.recommend.scatter import scatter
from inferbench_tasks.cli import leaderboard as leaderboard_command
from inferbench_tasks.perfdb.store import PerfDB
from tests.integration.test_analysis_leaderboard import add, call, found
from tests.unit.perfdb.builders import result

pytestmark = pytest.mark.integration


def users(db: PerfDB, run_id: str, concurrency: int, cores: float) -> None:
    """A run of users who wait, whose server used so many cores."""
    summary = {
        "throughput_rps": 100.0,
        "throughput_samples_per_s": 100.0,
        "resources": {"server": {"cpu_cores": {"mean": cores}}},
    }
    arrivals = {"kind": "closed_loop", "concurrency": concurrency}
    load = {"arrivals": arrivals, "batch_size": 1, "duration_s": 10.0}
    submission = {"name": "x", "digest": run_id}
    db.save_result(result(run_id, summary=summary, load=load, submission=submission))


def test_an_empty_board_says_why(
    perfdb: PerfDB, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Users who wait are answered as fast as the server can: none is ranked by its cores, and that is said with the
    loads; of a figure that ranks them nothing is said.
    """
    users(perfdb, "one", 1, 0.5)
    users(perfdb, "more", 1, 0.7)
    users(perfdb, "many", 8, 1.5)
    assert leaderboard(perfdb, "cpu_cores") == []
    why = not_ranked_note(perfdb, "cpu_cores")
    assert why == (
        "3 result(s) are not ranked by cpu_cores (closed_loop, 1 sample in flight; closed_loop, 8 samples in flight): "
        "there the server says how much it answers, and by answering less it has less CPU. cpu_ms_per_sample compares "
        "them."
    )
    assert not_ranked_note(perfdb, "throughput_rps") is None
    assert not_ranked_note(perfdb, "p99_ms") is None, "none of them has it"
    monkeypatch.setenv(settings.PERFDB_URI, perfdb.uri)
    call(leaderboard_command, "--by", "cpu_cores")
    told = capsys.readouterr().err
    assert why in told and "Nothing to show." in told


def test_searches_and_runs_without_a_load_are_counted_where_nothing_is_left(perfdb: PerfDB) -> None:
    """By a latency that each search has at a rate of its own; once anything else is ranked by it nothing is said."""
    found(perfdb, "search", 100.0, 5.0)
    summary = {"cold_start_ms": {"total_ms": 900.0}}
    perfdb.save_result(result("asked", summary=summary, load={"arrivals": {"kind": "none"}, "batch_size": 1}))
    assert not_ranked_note(perfdb, "cold_start_ms", "run=asked") == (
        "1 result(s) are not ranked by cold_start_ms (no load): without a load nobody watched what disturbed them."
    )
    searched = not_ranked_note(perfdb, "p99_ms")
    assert searched is not None and searched.endswith(
        "each searched for its highest rate, and has its p99 at a rate of its own."
    )
    add(perfdb, "open", 10.0)
    assert not_ranked_note(perfdb, "p99_ms", listed=1) is None


def test_points_say_whose_rate_was_not_steady(perfdb: PerfDB) -> None:
    """Against a throughput, which moved; of a latency against a cold start it says nothing."""
    why = "not steady: the throughput drifts by -22% over the load, about a level of 100 requests/s"
    add(
        perfdb,
        "steady",
        10.0,
        certificate={"figures": {"steady_state": "steady", "throughput_change_ratio": 0.0}},
    )
    add(
        perfdb, "moved", 8.0, certificate={"figures": {"steady_state": why, "throughput_change_ratio": -0.22}}
    )
    shown = scatter(perfdb, "p99_ms", "throughput_rps", "backend")
    assert {point.run: point.not_steady for point in shown.points} == {"steady": None, "moved": why}
    assert shown.looked_into
    latencies = scatter(perfdb, "p99_ms", "p99_ms", "backend")
    assert {point.not_steady for point in latencies.points} == {None}


def test_a_board_s_energy_is_no_worse_than_a_processor_s_share(perfdb: PerfDB) -> None:
    """An estimate of a server's share of a processor does not take a GPU from the front, whose board was read."""
    for name, kind, joule, p99 in (
        ("cpu", "cpu", 0.1, 5.0),
        ("gpu", "gpu", 2.0, 8.0),
        ("worse", "gpu", 3.0, 9.0),
    ):
        device = {"kind": kind, "name": kind, "cores": 2.0}
        add(perfdb, name, p99, energy={"joule_per_sample": joule, "method": kind}, device=device)
    by_energy = scatter(perfdb, "p99_ms", "joule_per_sample", "backend")
    assert {(point.run, point.front) for point in by_energy.points} == {
        ("cpu", True),
        ("gpu", True),
        ("worse", False),
    }
    # Nor does an estimate of a processor take one off whose counter was read.
    counted = {"joule_per_sample": 1.0, "method": "rapl"}
    device = {"kind": "cpu", "name": "another", "cores": 2.0}
    add(perfdb, "counted", 6.0, energy=counted, device=device)
    by_energy = scatter(perfdb, "p99_ms", "joule_per_sample", "backend")
    ways = {point.run: point.group.rpartition(", ")[2] for point in by_energy.points if point.front}
    assert ways == {"cpu": "energy by cpu", "gpu": "energy by gpu", "counted": "energy by rapl"}
    by_rate = scatter(perfdb, "p99_ms", "p99_ms", "backend")
    assert {point.run for point in by_rate.points if point.front} == {"cpu"}
