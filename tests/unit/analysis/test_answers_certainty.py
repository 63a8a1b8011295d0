"""How right answers are is as sure as the samples make it: no drift of a machine is added to it."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.analysis.certainty import Change, of_answers, of_result
from inferbench_tasks.analysis.recommend.leaderboard import ranked
from inferbench_tasks.analysis.recommend.recommender import choose
from inferbench_tasks.analysis.report.differences import difference
from inferbench_tasks.analysis.stated import Stated
from inferbench_tasks.analysis.systems.found import sorted_in
from inferbench_tasks.analysis.systems.table import rows
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.documents import ResultDocument
from tests.unit.perfdb.builders import result

TOP1 = FIGURES["top1_ratio"]


def judged(
    run_id: str, value: float, low: float, high: float, backend: str = "onnxruntime"
) -> ResultDocument:
    """A run that was asked the same 10,000 samples as all others."""
    evaluation = {"dataset": "digits", "samples": 10_000, "samples_digest": "aa" * 32}
    return result(
        run_id,
        submission={"name": run_id, "digest": (run_id * 64)[:64]},
        backend={"kind": backend, "version": "1", "settings": {"threads": 1}},
        summary={"quality": {"top1_ratio": {"value": value, "ci95": [low, high]}}},
        extensions={"evaluation": evaluation},
    )


def three() -> list[dict[str, Any]]:
    """0.99 and 0.90, far outside of each other's interval, and 0.899, which is inside."""
    made = [judged("a", 0.99, 0.987, 0.993), judged("b", 0.90, 0.897, 0.903, "openvino"),
            judged("c", 0.899, 0.896, 0.902, "torchscript")]  # fmt: skip
    return [each.model_dump() for each in made]


def test_nine_points_apart_are_two_ranks() -> None:
    """On the leaderboard and in the table of systems: 0.99 before 0.90; a tenth of a point is a tie."""
    assert [row["rank"] for row in ranked(three(), TOP1, ())] == [1, 2, 2]
    table = {row["judged_run"]: row["rank_quality"] for row in rows(sorted_in(three()), lambda run: None)}
    assert table == {"a": 1, "b": 2, "c": 2}


def test_a_recommendation_has_the_interval_that_the_result_states() -> None:
    """0.95 of 0.90 to 0.99, and not beyond 1; nothing is said of a spread of 5%, nor are repeats asked for."""
    chosen = choose([judged("a", 0.95, 0.90, 0.99).model_dump()], "top1_ratio", [])
    assert chosen.top[0]["ci95"] == [0.90, 0.99]
    assert not any("spread between runs" in note for note in chosen.notes)


def test_equal_shares_are_compared_by_their_own_errors() -> None:
    """Both 0.95 +- 0.0098: the ratio's interval is exp(+- sqrt(2) x 0.0098 / 0.95), 0.9855 to 1.0147."""
    one, two = (judged(name, 0.95, 0.9402, 0.9598) for name in "ab")
    found = difference(one, two, "top1_ratio", {})
    assert found.ci95 == pytest.approx((0.9855, 1.0147), abs=1e-4)


def test_more_runs_of_the_same_samples_make_it_no_surer() -> None:
    """The error of the choice of samples stays; what runs differ by among themselves is added: sd of 0.90 and 0.92 is
    0.01414, over the root of two 0.01.
    """
    assert of_answers([0.9] * 9, Stated(within=0.01)).error == pytest.approx(0.01)
    assert of_answers([0.90, 0.92], Stated()).error == pytest.approx(0.01)


def test_figures_of_speed_still_drift() -> None:
    """2% apart is noise of single runs for a throughput, and settled for shares with small intervals."""
    for name, settled in (("throughput_rps", False), ("top1_ratio", True)):
        pair = [of_result(FIGURES[name], value, stated=Stated(within=0.001)) for value in (0.95, 0.97)]
        assert Change.between(*pair).settled is settled
