"""A throughput that moved over the load says so, and is judged with an error as large as what it moved by."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.analysis.certainty import Estimate
from inferbench_tasks.analysis.charts.sweep import bars
from inferbench_tasks.analysis.devices.costs import offers
from inferbench_tasks.analysis.devices.speedup import speedups
from inferbench_tasks.analysis.recommend.leaderboard import ranked
from inferbench_tasks.analysis.report.advise import advise
from inferbench_tasks.analysis.report.columns import Column, doubt_of, unsteady_notes
from inferbench_tasks.analysis.report.differences import difference
from inferbench_tasks.analysis.stated import UNBOUNDED_RATIO, Z95, stated
from inferbench_tasks.analysis.steadiness import UNKNOWN_RATIO, change_ratio, unsteady
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.documents import ResultDocument
from tests.unit.analysis.builders import named, records, view
from tests.unit.analysis.devices.builders import CPU, T4
from tests.unit.analysis.devices.builders import run as on_device
from tests.unit.perfdb.builders import result

WORDS = "not steady: the throughput drifts by -22% over the load, about a level of 5065 requests/s"
THROUGHPUT = FIGURES["throughput_samples_per_s"]


def certificate(words: str, change: float | None = None) -> dict[str, Any]:
    """As the load writes it; earlier versions wrote no number."""
    figures: dict[str, Any] = {"steady_state": words}
    return {"figures": figures | ({} if change is None else {"throughput_change_ratio": change})}


def run(name: str, per_s: float, **more: Any) -> ResultDocument:
    summary = {
        "e2e_latency_ms": {"p99": 5.0},
        "ok": 10_000,
        "throughput_samples_per_s": per_s,
        "throughput_rps": per_s,
        "cost_usd_per_1k": 1 / per_s,
    }
    return result(name, submission={"name": "x", "digest": name * 8}, summary=summary, **more)


def test_the_error_of_a_rate_that_moved_by_hand() -> None:
    """Of 5,065/s by 10,000 answers Poisson's law has 1%; a drift of 22% adds 0.22 x 5065 = 1114.3, which no second run
    lessens. The energy's method has 30% (a half of its 95% interval): 2 x 0.3 / 1.96 = 0.3061 of 2 J, beside 0.44 by
    the drift, and 0.5360 of both.
    """
    steady, moved = run("a", 5065), run("b", 5065, certificate=certificate(WORDS, -0.22))
    assert stated(THROUGHPUT, steady.model_dump()).moved == 0.0
    error = stated(THROUGHPUT, moved.model_dump())
    assert error.within == pytest.approx(50.65) and error.moved == pytest.approx(1114.3)
    assert stated(FIGURES["cost_usd_per_1k"], moved.model_dump()).moved == pytest.approx(0.22 / 5065)
    energy = {"energy": {"joule_per_request": 2.0, "uncertainty_ratio": 0.3}}
    joule = stated(
        FIGURES["joule_per_request"], {"summary": energy, "certificate": certificate(WORDS, -0.22)}
    )
    assert joule.systematic == pytest.approx(2 * 0.3 / Z95) == pytest.approx(0.3061, abs=1e-4)
    assert joule.moved == pytest.approx(0.44)
    assert Estimate(2.0, 0.0, 4, 9.0, joule).error == pytest.approx(0.5360, abs=1e-4)
    assert stated(FIGURES["p50_ms"], moved.model_dump()).moved == 0.0


@pytest.mark.parametrize(
    ("words", "change", "ratio"),
    [
        (WORDS, -0.22, 0.22),
        (WORDS, None, UNKNOWN_RATIO),
        ("steady only 6.0 s after the warm-up", None, UNKNOWN_RATIO),
        ("not steady: the latency drifts by +30% over the load", 0.0, 0.0),
        ("not steady: the latency drifts by +30% over the load", -0.25, 0.25),
        ("not judged: the load did not come to its end", None, 0.0),
        ("steady", 0.0, 0.0),
    ],
)
def test_how_far_it_moved_is_what_the_load_measured(words: str, change: float | None, ratio: float) -> None:
    """A latency that drifts is no throughput that does; a result without the number is known to a quarter."""
    document = {"certificate": certificate(words, change)}
    assert change_ratio(document) == ratio
    assert (unsteady(THROUGHPUT, document) is None) == (ratio == 0)
    assert unsteady(FIGURES["cold_start_ms"], document) is None
    assert UNKNOWN_RATIO == UNBOUNDED_RATIO


def test_it_is_no_rank_above_what_it_is_not_surely_better_than() -> None:
    """5,065 against 4,200: a fifth apart, which two steady runs settle and a drift of 22% does not."""
    documents = [run("a", 5065).model_dump(), run("b", 4200).model_dump()]
    assert [row["rank"] for row in ranked(documents, THROUGHPUT, ())] == [1, 2]
    assert [row["not_steady"] for row in ranked(documents, THROUGHPUT, ())] == [None, None]
    documents[0]["certificate"] = certificate(WORDS, -0.22)
    rows = ranked(documents, THROUGHPUT, ())
    assert [row["rank"] for row in rows] == [1, 1]
    assert [row["not_steady"] for row in rows] == [WORDS, None]
    by_latency = ranked(documents, FIGURES["p99_ms"], ("throughput_rps",))
    assert [row["not_steady"] for row in by_latency] == [WORDS, None]


def test_a_comparison_does_not_call_it_better() -> None:
    """Twice the throughput is better; within a drift of half of it nothing is shown."""
    first = run("a", 1000)
    assert difference(first, run("b", 2000), "throughput_rps", {}).verdict == "better"
    moved = run("b", 2000, certificate=certificate(WORDS, -0.5))
    assert difference(first, moved, "throughput_rps", {}).verdict == "no difference shown"


def test_its_cell_and_its_bar_say_so_and_the_reason_stands_beneath() -> None:
    """Wherever the number stands: in the report's and the run's cell, in the bars of the paper's page."""
    steady, moved = view(records(5.0), "s"), view(records(5.0), "m", certificate=certificate(WORDS, -0.22))
    assert doubt_of(moved, THROUGHPUT) == "not steady" and doubt_of(steady, THROUGHPUT) == ""
    assert doubt_of(moved, FIGURES["p50_ms"]) == ""
    assert Column("", THROUGHPUT).cell(moved) == "200 (not steady)"
    (note,) = unsteady_notes([steady, moved])
    assert note.startswith(f"Not steady (m): {WORDS}")
    assert advise(named(moved)).doubts == tuple(unsteady_notes([moved]))
    chart = bars([steady, moved], THROUGHPUT)
    assert chart is not None and chart["data"][0]["text"] == ["200", "200 (not steady)"]


def test_devices_and_their_costs_say_so() -> None:
    """The speed-up of the device whose rate moved carries it, the reference's does not; so do notes of costs."""
    documents = [
        on_device("cpu", CPU, 5.0, 100.0),
        on_device("t4", T4, 4.0, 300.0, certificate=certificate(WORDS, -0.22)),
    ]
    base, other = speedups(documents, "cpu", "p99_ms").rows
    assert base["reason"] is None
    assert other["reason"] == f"of a rate that moved ({WORDS}), and is judged with an error of 22%"
    steady = [documents[0], {**documents[1], "certificate": {}}]
    wide, narrow = (speedups(of, "cpu", "p99_ms").rows[1]["ci95"] for of in (documents, steady))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    notes = [note for offer in offers(documents) for note in offer.notes]
    assert any("of a rate that moved" in note and "22%" in note for note in notes)
