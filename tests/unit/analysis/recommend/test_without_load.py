"""Runs without a load are ranked, recommended and compared by their answers alone: nobody watched their cold start."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.analysis.recommend.comparable import stands
from inferbench_tasks.analysis.recommend.recommender import choose
from inferbench_tasks.analysis.report.alike import unlike
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.offered import NO_LOAD, WITHOUT_LOAD
from tests.unit.perfdb.builders import result


def run(run_id: str, total_ms: float, *, loaded: bool) -> ResultDocument:
    """With a cold start and a measure."""
    changes: dict[str, Any] = {} if loaded else {"load": {"arrivals": {"kind": NO_LOAD}}}
    quality = {"top1_ratio": {"value": 0.9, "ci95": [0.89, 0.91]}}
    return result(
        run_id,
        submission={"name": run_id, "digest": (run_id * 64)[:64]},
        summary={"cold_start_ms": {"total_ms": total_ms}, "quality": quality},
        extensions={"evaluation": {"dataset": "digits", "samples": 450}},
        **changes,
    )


@pytest.mark.parametrize(
    ("figure", "load", "ranks"),
    [
        ("cold_start_ms", WITHOUT_LOAD, False),
        ("top1_ratio", WITHOUT_LOAD, True),
        ("cold_start_ms", "poisson, 80 samples/s", True),
    ],
)
def test_only_measures_stand_on_the_leaderboard(figure: str, load: str, ranks: bool) -> None:
    """A cold start of a run with a load does, one of a run without does not."""
    assert stands(FIGURES[figure], load) is ranks


def test_a_recommendation_leaves_their_cold_starts_out_and_says_so() -> None:
    """The quicker one, 10 ms against 500, was not watched; by top-1 both are there."""
    documents = [run(name, ms, loaded=name == "a").model_dump() for name, ms in (("a", 500.0), ("b", 10.0))]
    chosen = choose(documents, "cold_start_ms", [])
    assert [row["run"] for row in chosen.top] == ["a"]
    assert any(note.startswith("1 result(s) of runs without a load are left out") for note in chosen.notes)
    assert len(choose(documents, "top1_ratio", []).top) == 2


def test_no_cold_start_is_called_better_than_an_unwatched_one() -> None:
    """Either way round, and of two such; measures of the same samples are compared."""
    loaded, without = run("a", 500.0, loaded=True), run("b", 10.0, loaded=False)
    pairs = [(loaded, without), (without, loaded), (without, without)]
    assert all(unlike(FIGURES["cold_start_ms"], *pair) for pair in pairs)
    assert not unlike(FIGURES["top1_ratio"], loaded, without)
