"""Steps one after the other, of raw steps whose times are known."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.perfdb.documents import Provenance
from inferbench_tasks.training.diagnosis.observation import Steps
from inferbench_tasks.training.report import course
from inferbench_tasks.training.sending import MADE
from tests.unit.training.report.results import view

MS = 1e6


def steps(count: int = 12, *, slow: float = 1.0, rounds: int = 3, workers: bool = False) -> Steps:
    """Steps of 12 ms: 2 of loading, 4 of forward, 6 of backward, of which 3 are blocked; ``slow``: forward's factor."""
    start = np.arange(count) * 12 * MS
    made = {
        "step": np.tile(np.arange(count // rounds, dtype=float), rounds),
        "round": np.repeat(np.arange(rounds, dtype=float), count // rounds),
        "step_start_ns": start,
        "step_ns": np.full(count, 12 * MS),
        "loading_start_ns": start,
    }
    walls = {"loading": 2.0, "forward": 4.0 * slow, "backward": 6.0}
    for phase, wall_ms in walls.items():
        blocked_ms = 3.0 if phase == "backward" else 0.0
        made[f"{phase}_wall_ns"] = np.full(count, wall_ms * MS)
        made[f"{phase}_own_cpu_ns"] = np.full(count, (wall_ms - blocked_ms) * MS)
        made[f"{phase}_own_wait_ns"] = np.zeros(count)
    if workers:
        made |= {f"{part}_ns": np.full(count, MS) for part in (*MADE, "queued")}
    return made


def test_phases_are_stacked_over_all_steps_with_the_rounds_borders() -> None:
    """The mean of the ranks: 4 and 8 ms of forward are 6; rounds of four steps begin at 4 and 8."""
    chart = course.phases(view("a"), [steps(), steps(slow=2.0)])
    assert chart is not None
    drawn = {trace["name"]: trace["y"] for trace in chart["data"]}
    assert list(drawn) == ["loading", "forward", "backward"]
    assert drawn["forward"] == [6.0] * 12 and all(trace["stackgroup"] for trace in chart["data"])
    assert [shape["x0"] for shape in chart["layout"]["shapes"]] == [4, 8]
    assert course.phases(view("a"), []) is None


def test_ranks_are_drawn_without_what_they_wait_for_each_other() -> None:
    """Of 12 ms 3 are blocked in backward; one rank has nobody to be set beside."""
    chart = course.ranks(view("a"), [steps(), steps()])
    assert chart is not None
    assert [(trace["name"], trace["y"][0]) for trace in chart["data"]] == [("rank 0", 9.0), ("rank 1", 9.0)]
    assert course.ranks(view("a"), [steps()]) is None


@pytest.mark.parametrize(("network", "left_ms"), [("resnet-18", 8.0), ("fashion-cnn", 8.5)])
def test_waits_in_gathering_and_for_statistics_are_left_out_too(network: str, left_ms: float) -> None:
    """Beside 3 ms in backward half a millisecond in gathering; half a one in forward is a wait for the others only of a
    network with running statistics, which are exchanged there.
    """
    of = view("a", ranks=2)
    job = {
        "kind": "training", "name": "x", "data": {"kind": "jpeg"}, "model": {"name": network},
        "devices": {"processes": 2, "strategy": "ddp"},
    }  # fmt: skip
    of.result.provenance = Provenance.model_validate({"job": job})
    waiting = {**steps()}
    waiting["forward_own_cpu_ns"] = waiting["forward_wall_ns"] - 0.5 * MS
    waiting |= {"gather_wall_ns": np.full(12, MS), "gather_own_cpu_ns": np.full(12, 0.5 * MS)}
    waiting["gather_own_wait_ns"] = np.zeros(12)
    chart = course.ranks(of, [waiting, waiting])
    assert chart is not None
    assert [trace["y"][0] for trace in chart["data"]] == [left_ms, left_ms]
    # Where the exchange was timed, what else blocks a forward pass is the rank's own.
    timed = waiting | {"statistics_ns": np.full(12, 0.3 * MS), "statistics_cpu_ns": np.full(12, 0.1 * MS)}
    timed["statistics_wait_ns"] = np.zeros(12)
    chart = course.ranks(of, [timed, timed])
    assert chart is not None
    assert [trace["y"][0] for trace in chart["data"]] == pytest.approx([8.3, 8.3])


def test_long_runs_are_means_of_neighbours() -> None:
    """901 steps are 226 groups of four, the last of one."""
    at, means = course.thinned(np.arange(901.0))
    assert len(at) == 226 <= course.MOST_POINTS
    assert (at[1], means[0], means[-1]) == (4, 1.5, 900.0)


def test_a_batch_stands_in_its_own_loader_processes_row() -> None:
    """Two processes take turns; a batch ends ``queued`` (1 ms) before its rank has it, its parts of 1 ms before
    that.
    """
    chart = course.workers(view("a"), [steps(workers=True)], 2)
    assert chart is not None
    bars = {trace["name"]: trace for trace in chart["data"]}
    assert set(bars) == {"loading", "the rest of its step", *MADE}
    assert bars["read"]["y"] == ["loader 0", "loader 1", "loader 0", "loader 1"], (
        "the last round's four steps"
    )
    # Rank 0 has its first batch 2 ms after the start; four parts before 1 ms of queue.
    assert bars["collate"]["base"][0] == 0.0 and bars["read"]["base"][0] == -3.0
    assert bars["the rest of its step"]["base"][0] == 2.0 and bars["the rest of its step"]["x"][0] == 10.0


def test_without_loader_processes_or_their_times_there_is_no_such_picture() -> None:
    """Neither is there one of older runs, whose parts are null."""
    assert course.workers(view("a"), [steps(workers=True)], 0) is None
    assert course.workers(view("a"), [steps()], 2) is None
    older = {**steps(workers=True), "read_ns": np.full(12, np.nan)}
    assert course.workers(view("a"), [older], 2) is None
