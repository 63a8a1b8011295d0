"""Figures of good answers are ranked within one objective: a wider bound makes no server better."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.analysis.recommend.leaderboard import ranked
from inferbench_tasks.analysis.recommend.recommender import choose
from inferbench_tasks.figures import FIGURES
from tests.unit.perfdb.builders import result


def documents() -> list[dict[str, Any]]:
    """90 requests/s within 200 ms, 60 and 40 within 20 ms; and what each has within its answers."""
    made = [("lax", 90.0, 200.0), ("fast", 60.0, 20.0), ("slow", 40.0, 20.0)]
    return [
        result(
            run_id,
            submission={"name": run_id, "digest": run_id * 8},
            summary={"goodput_rps": rps, "goodput_limit_ms": limit_ms, "ok": 5000},
        ).model_dump()
        for run_id, rps, limit_ms in made
    ]


def test_each_objective_has_ranks_of_its_own() -> None:
    """The lax one is the first of its own, and beats nobody."""
    rows = ranked(documents(), FIGURES["goodput_rps"], ())
    assert {(row["run"], row["rank"]) for row in rows} == {("lax", 1), ("fast", 1), ("slow", 2)}
    assert {row["load"] for row in rows if row["run"] == "lax"} == {
        "poisson, 320 samples/s, good within 200 ms"
    }


def test_a_recommendation_says_that_objectives_differ() -> None:
    """It stands first by its objective, which the answer says."""
    notes = choose(documents(), "goodput_rps", []).notes
    assert any("good within 20 ms; good within 200 ms" in note for note in notes)
    assert not any("good within" in note for note in choose(documents()[1:], "goodput_rps", []).notes)
