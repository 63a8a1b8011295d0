"""The recommender: bounds are kept, the order's certainty is told, missing data are named."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.analysis.recommend import Bound, choose, path_of
from inferbench_tasks.errors import InputError
from tests.unit.perfdb.builders import result

P99 = Bound("p99_ms", True, 100.0)


def run(batch: int, throughput: float, p99: float | None, index: int = 0) -> dict[str, Any]:
    """One valid run of a configuration with that batch size."""
    return result(
        f"run-{batch}-{index}",
        submission={"name": "x", "digest": f"{batch:064d}"},
        load={"arrivals": {"kind": "poisson", "rate_rps": 80.0}, "batch_size": batch, "network": "lan"},
        summary={
            "e2e_latency_ms": {"p99": p99},
            "throughput_samples_per_s": throughput,
            "throughput_rps": throughput,
        },
    ).model_dump()


def test_the_best_three_that_keep_the_bound_in_order() -> None:
    """The fastest breaks the bound and is out; three of the rest remain, best first."""
    found = choose(
        [run(1, 50, 20), run(2, 90, 40), run(4, 150, 80), run(8, 200, 130), run(16, 30, 90)],
        "samples_per_s",
        [P99],
    )
    assert [row["samples_per_s"] for row in found.top] == [150, 90, 50]
    assert (found.candidates, found.fitting) == (5, 4)
    assert "batch 4" in found.top[0]["configuration"]
    assert found.top[0]["p99_ms"] == 80


def test_clear_differences_are_sure_and_close_ones_are_not() -> None:
    """150 against 90 is nearly certain; 100 against 99 is a coin's toss, and which runs would settle it is said."""
    clear = choose([run(1, 150, 20), run(2, 90, 20)], "samples_per_s", [])
    assert clear.top[0]["beats_next_probability"] > 0.999
    close = choose([run(1, 100, 20), run(2, 99, 20)], "samples_per_s", [])
    assert 0.5 < close.top[0]["beats_next_probability"] < 0.6
    assert any("2 more run(s) of both would settle it" in note for note in close.notes)


def test_repeated_runs_bring_their_own_spread() -> None:
    """Three runs each, wide apart within a configuration: the same means are less sure than with tight ones."""
    tight = [run(b, v, 20, i) for b, vs in ((1, (100, 101, 99)), (2, (95, 96, 94))) for i, v in enumerate(vs)]
    wide = [run(b, v, 20, i) for b, vs in ((1, (130, 100, 70)), (2, (125, 95, 65))) for i, v in enumerate(vs)]
    sure, unsure = (choose(runs, "samples_per_s", []).top[0] for runs in (tight, wide))
    assert sure["runs"] == unsure["runs"] == 3
    assert sure["beats_next_probability"] > 0.99 > 0.7 > unsure["beats_next_probability"]


def test_one_run_beyond_the_bound_takes_a_configuration_out() -> None:
    """The mean of three runs is within the bound, one of them is not: it does not keep the SLO."""
    found = choose([run(1, 100, p99, i) for i, p99 in enumerate((50, 60, 110))], "samples_per_s", [P99])
    assert found.top == []
    assert "None of 1 configuration(s) keeps p99_ms ≤ 100." in found.notes


def test_a_missing_percentile_is_named_and_not_taken_for_kept() -> None:
    """Too few requests for a p99: the configuration is not recommended, and what to do is said."""
    found = choose([run(1, 100, None)], "samples_per_s", [P99])
    assert found.top == []
    assert "no p99_ms was measured" in found.notes[0] and "Longer runs would tell" in found.notes[0]


def test_lower_is_better_for_latency() -> None:
    """The order follows the figure."""
    assert [r["p99_ms"] for r in choose([run(1, 9, 30), run(2, 9, 10)], "p99_ms", []).top] == [10, 30]


def test_without_results_it_says_what_to_do() -> None:
    """No data, no recommendation."""
    assert "run a submission" in choose([], "samples_per_s", []).notes[0]


@pytest.mark.parametrize("name", ["nonsense", "model"])
def test_an_unknown_figure_is_refused_with_those_that_there_are(name: str) -> None:
    """The message lists the figures."""
    with pytest.raises(InputError, match="allowed: mean_ms, "):
        path_of(name)
