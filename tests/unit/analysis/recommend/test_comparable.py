"""What is compared at all: one task and data set, one quality, one load."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.recommend.comparable import ACCURACY, stands
from inferbench_tasks.analysis.recommend.recommender import choose
from inferbench_tasks.figures import FIGURES
from tests.unit.perfdb.builders import result

RATE = "throughput_samples_per_s"


def run(name: str, rate: float, accuracy: float | None, offered_rps: float = 80.0) -> dict[str, Any]:
    """A valid run of a model of that name with that accuracy."""
    return result(
        f"run-{name}",
        submission={"name": "x", "digest": name.ljust(64, "0")},
        model={"name": name, "task": "image-classification", "dataset": "digits"},
        load={"arrivals": {"kind": "poisson", "rate_rps": offered_rps}, "batch_size": 1},
        summary={RATE: rate, "throughput_rps": rate, ACCURACY: accuracy, "ok": 5000},
    ).model_dump()


def test_item_19_models_of_different_accuracy_are_a_trade_off_and_said_so() -> None:
    """15.19: nobody "wins" by being less right: each row buys accuracy, and one that buys none is left out."""
    answer = choose([run("tiny", 900, 0.80), run("odd", 400, 0.81), run("large", 300, 0.97)], RATE, [])
    assert [(row[RATE], row[ACCURACY]) for row in answer.top] == [(900, 0.80), (300, 0.97)]
    (note,) = [
        note for note in answer.notes if "trade-off between accuracy and throughput_samples_per_s" in note
    ]
    assert "0.8 to 0.97" in note and "--slo 'accuracy_ratio>=0.96'" in note


@pytest.mark.parametrize("accuracy", [0.97, 0.965])
def test_item_19_models_of_one_quality_are_compared(accuracy: float) -> None:
    """15.19: an accuracy within one point is the same quality, so the faster is first and nothing needs saying."""
    answer = choose([run("a", 900, accuracy), run("b", 300, 0.97)], RATE, [])
    assert [row[RATE] for row in answer.top] == [900, 300]
    assert not any("trade-off" in note for note in answer.notes)


def test_item_19_who_states_the_quality_gets_an_order_within_it() -> None:
    """15.19: with a bound on the accuracy the best of those that keep it is first."""
    runs = [run("tiny", 900, 0.80), run("good", 500, 0.95), run("large", 300, 0.97)]
    answer = choose(runs, RATE, [Bound(ACCURACY, False, 0.9)])
    assert [row[RATE] for row in answer.top] == [500, 300]
    assert not any("trade-off" in note for note in answer.notes)


def test_item_19_loads_that_somebody_put_together_are_told() -> None:
    """15.19: results at hand of two loads are compared as asked for, and that they differ is said."""
    loads = choose([run("a", 900, 0.9, 900.0), run("b", 20, 0.9, 20.0)], RATE, []).notes
    assert any(
        "2 different loads, such as poisson, 20 samples/s and poisson, 900 samples/s" in n for n in loads
    )
    same = choose([run("a", 900, 0.9), run("b", 20, 0.9)], RATE, []).notes
    assert not any("different loads" in note for note in same)


def test_cores_rank_servers_only_where_the_load_says_how_much_they_answer() -> None:
    """A server of users who wait uses half the cores by answering half as much; the CPU of a sample ranks it."""
    closed, paced = "closed_loop, 8 samples in flight", "poisson, 80 samples/s"
    assert [stands(FIGURES["cpu_cores"], load) for load in (closed, paced)] == [False, True]
    assert [stands(FIGURES["cpu_ms_per_sample"], load) for load in (closed, paced)] == [True, True]
