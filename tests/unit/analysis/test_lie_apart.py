"""Where a run can't bound a percentile: what the requests themselves say of a difference, and what stays open."""

from __future__ import annotations

import math
from typing import Any

import pytest

from inferbench_tasks.analysis.certainty import Change, Estimate, of_one_run
from inferbench_tasks.analysis.charts.tradeoffs import fronts_by_ground
from inferbench_tasks.analysis.recommend.candidates import Bound, Candidate
from inferbench_tasks.analysis.recommend.judge import Judge
from inferbench_tasks.analysis.recommend.leaderboard import ranked
from inferbench_tasks.analysis.recommend.recommender import choose
from inferbench_tasks.analysis.report.differences import NONE_SHOWN, difference
from inferbench_tasks.analysis.report.distinguish import surely_lower, with_interval
from inferbench_tasks.analysis.report.in_words import in_words
from inferbench_tasks.analysis.report.judged import JudgedRuns
from inferbench_tasks.analysis.report.paired import NOT_DECIDED
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.analysis.stated import Stated, needed, no_interval, stated
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.documents import ResultDocument, SubmissionInfo
from tests.unit.perfdb.builders import result

P50 = FIGURES["p50_ms"]
WHY = "a few episodes make most of it, and their luck is not bounded by them"
#: Figures that one comparison looks at.
MANY = 28


def run(name: str, low: float, p50: float, p99: float, ci95: list[float] | None = None) -> ResultDocument:
    """A run whose requests lie between these; its p50 has that interval, or none and the reason."""
    latency = {
        "count": 4219, "min": low, "p50": p50, "p99": p99, "ci95": {"p50": ci95, "p99": None},
        "ci95_reasons": {"p50": WHY} if ci95 is None else {},
    }  # fmt: skip
    return result(name, summary={"e2e_latency_ms": latency})


FAST, SLOW = run("fast", 0.2, 0.325, 0.737), run("slow", 1.299, 1.38, 4.0)


def test_what_a_run_states_of_a_percentile_that_it_can_not_bound() -> None:
    """A quarter of it, and between its fastest request and its p99; of the p99 itself nothing lies beyond."""
    error = stated(P50, FAST.model_dump())
    assert error.within == pytest.approx(0.25 * 0.325) and error.extremes == (0.2, 0.737)
    assert no_interval(P50, FAST.model_dump()["summary"]) == WHY
    assert stated(FIGURES["p99_ms"], FAST.model_dump()).extremes is None
    bounded = run("bounded", 0.2, 0.325, 0.737, [0.31, 0.34]).model_dump()
    assert stated(P50, bounded) == Stated((0.34 - 0.31) / 2 / 1.959964)
    assert no_interval(P50, bounded["summary"]) is None


def test_requests_that_lie_apart_bound_the_ratio_by_hand() -> None:
    """The fastest of the one is 1.299 / 0.737 = 1.7626 times the p99 of the other: ln = 0.56677. 5% from run to run of
    each are hypot(0.05, 0.05) = 0.070711, with (2 x 0.5^2 / 3)^-1 = 6 degrees of freedom: at 28 figures t = 5.3255 for
    1 - 0.025 / 28, so the ratio is at least exp(0.56677 - 0.37657) = 1.2095. A quarter each alone would be
    hypot(0.25, 0.25) = 0.35355 about ln 4.246 = 1.44602, from exp(-0.43683) = 0.646 on.
    """
    pair = [
        of_one_run(r.summary.e2e_latency_ms.p50 or 0.0, stated=stated(P50, r.model_dump()))
        for r in (FAST, SLOW)
    ]
    change = Change.between(*pair)
    assert math.exp(change.interval(MANY)[0]) == pytest.approx(1.2095, abs=1e-3)
    guessed = Change(change.size, change.error, change.freedom)
    assert math.exp(guessed.interval(MANY)[0]) == pytest.approx(0.646, abs=1e-3)
    assert not guessed.excludes_none(MANY) and change.excludes_none(MANY)
    back = Change.between(*reversed(pair)).interval(MANY)
    assert back == pytest.approx([-end for end in reversed(change.interval(MANY))])


def test_two_runs_whose_requests_lie_apart_differ() -> None:
    """Every request of the one was slower than 99% of the other's: four times the median is worse, not open."""
    assert difference(FAST, SLOW, "p50_ms", {}, MANY).verdict == "worse"
    assert difference(SLOW, FAST, "p50_ms", {}, MANY).verdict == "better"


def test_everybody_who_judges_the_two_runs_says_the_same() -> None:
    """1.05 against 0.7 ms, a quarter each: ln 1.5 = 0.405 of 0.3536 is P = 0.85 by t with 6 degrees of freedom, which
    settles nothing. But the nearest requests are 1.0 and 0.737: ln = 0.3052 of 0.070711 is z = 4.316, P = 0.9975: a
    comparison of one figure claims it, and leaderboard and recommender rank by it.
    """
    fast, slow = run("a", 0.6, 0.7, 0.737), run("b", 1.0, 1.05, 1.3)
    pair = [of_one_run(p50, stated=stated(P50, of.model_dump())) for of, p50 in ((fast, 0.7), (slow, 1.05))]
    change = Change.between(*pair)
    assert Change(change.size, change.error, change.freedom).probability == pytest.approx(0.85, abs=0.01)
    assert change.probability == pytest.approx(0.9975, abs=1e-3) and change.settled
    assert difference(fast, slow, "p50_ms", {}).verdict == "worse"
    documents = [of.model_copy(update={"submission": SubmissionInfo(name="x", digest=of.run_id * 8)}).model_dump()
                 for of in (fast, slow)]  # fmt: skip
    assert [row["rank"] for row in ranked(documents, P50, ())] == [1, 2]
    assert choose(documents, "p50_ms", []).top[0]["beats_next_probability"] == pytest.approx(
        change.probability
    )
    paths = {f"summary.e2e_latency_ms.{name}" for name in ("ci95", "min", "p99")}
    assert paths <= {*needed(P50)}, "whoever reads parts of results reads these"


def test_what_an_interval_that_is_missing_leaves_open_is_said_with_the_reason() -> None:
    """Overlapping requests: not decided, never "no difference shown"; of two with intervals none is shown."""
    near = run("near", 0.3, 0.5, 1.2)
    found = difference(FAST, near, "p50_ms", {}, MANY)
    assert found.verdict == NOT_DECIDED
    assert (
        found.reason
        == f"run 1 has no interval of its p50 ({WHY}); this run has no interval of its p50 ({WHY})"
    )
    row: dict[str, Any] = {"figure": "p50_ms", "fast": 0.325, "differences": [vars(found)]}
    assert in_words(["fast", "near"], [row]) == [f"Run 2: not decided: {found.reason}."]
    known = run("known", 0.2, 0.33, 0.8, [0.31, 0.35])
    shown = difference(run("bounded", 0.2, 0.325, 0.737, [0.31, 0.34]), known, "p50_ms", {}, MANY)
    assert (shown.verdict, shown.reason) == (NONE_SHOWN, None)
    one = difference(known, FAST, "p50_ms", {}, MANY)
    assert one.verdict == NOT_DECIDED and one.reason == f"this run has no interval of its p50 ({WHY})"


def test_what_the_wrong_choice_costs_goes_by_the_nearest_ends_too() -> None:
    """8 to 12 and 15 to 30: from 12 to 15 it is ln(15 / 12) = 0.2231 with an error of sqrt(2) x 5% at 6 degrees, so
    that the quicker one is the slower with 1% and costs 0.00062 on average; by the guessed errors it was 0.0133.
    """
    quick, slow = (
        Estimate(mean, mean / 20, 1, 3, Stated(mean / 4, bounded=False, extremes=ends))
        for mean, ends in ((10.0, (8.0, 12.0)), (20.0, (15.0, 30.0)))
    )
    assert Change.between(slow, quick).expected_loss(higher=False) == pytest.approx(0.00062, abs=1e-5)
    assert Change.between(quick, slow).expected_loss(higher=True) == pytest.approx(0.00062, abs=1e-5)
    assert Change.between(slow, quick).expected_loss(higher=True) == pytest.approx(0.706, abs=1e-3)


def alone(low: float, p50: float, p99: float) -> tuple[Judge, Candidate]:
    """A configuration that ran once, and its judge."""
    candidate = Candidate("c", [run("c", low, p50, p99).model_dump()])
    return Judge([candidate]), candidate


def test_a_bound_beyond_all_requests_is_kept_as_surely_as_the_nearest_of_them_by_hand() -> None:
    """1.0 between 0.9 and 1.1, at most 1.3: by the guess of a quarter 0.3 / 0.25 = 1.2 is 84.2% by t with 3 degrees.
    But even 1.1, which varies by 0.055 from run to run, is 0.2 / 0.055 = 3.636 of it below: 98.2%. At most 0.8, which
    all are above: by the guess 0.2 / 0.25 = 0.8 leaves 24.1%, from 0.9 on 0.1 / 0.045 = 2.222 leaves 5.6%. Within the
    requests nothing but the guess is known: at most 1.05 is kept with 57.3%.
    """
    judge, candidate = alone(0.9, 1.0, 1.1)
    for bound, kept in ((1.3, 0.9821), (0.8, 0.0564), (1.05, 0.5728)):
        assert judge.keeps(candidate, [Bound("p50_ms", True, bound)]) == pytest.approx(kept, abs=2e-4)
    wide, other = alone(0.2, 1.0, 1.4)
    assert wide.keeps(other, [Bound("p50_ms", True, 1.3)]) == pytest.approx(0.8419, abs=2e-4)


def test_an_interval_ends_where_the_requests_do_by_hand() -> None:
    """By the guess 1 -+ 3.18245 x 0.25 = 0.204 to 1.796; by the ends 0.9 - 3.18245 x 0.045 = 0.757 and
    1.1 + 3.18245 x 0.055 = 1.275.
    """
    judge, candidate = alone(0.9, 1.0, 1.1)
    assert judge.interval95(candidate, "p50_ms") == pytest.approx([0.7568, 1.2750], abs=1e-4)
    wide, other = alone(0.1, 1.0, 4.0)
    assert wide.interval95(other, "p50_ms") == pytest.approx([0.2044, 1.7956], abs=1e-4)


def views(*results: ResultDocument) -> list[RunView]:
    job = {"name": "x", "load": {"duration_s": 10.0}}
    return [RunView(r.run_id, job, r.verdict, r, None, label=r.run_id) for r in results]


def test_a_percentile_is_surely_lower_where_the_requests_lie_apart() -> None:
    """The fastest of the slow run is slower than the p99 of the fast one, with or without an interval of either. The
    p99 itself has nothing beyond it, and overlapping requests claim nothing.
    """
    near, bounded = run("near", 0.3, 0.5, 1.2), run("bounded", 0.2, 0.325, 0.737, [0.31, 0.34])
    fast, slow, beside, known = views(FAST, SLOW, near, bounded)
    judge = JudgedRuns([fast, slow, beside, known])
    assert surely_lower(fast, slow, "p50", judge) and not surely_lower(slow, fast, "p50", judge)
    assert surely_lower(known, slow, "p50", judge)
    assert not surely_lower(fast, beside, "p50", judge)
    assert not surely_lower(fast, slow, "p99", judge)
    assert with_interval(fast, "p50") == "0.325 ms (no interval; 99% of its requests within 0.2 to 0.737)"
    assert with_interval(known, "p50") == "0.325 ms (0.31 to 0.34)"
    assert with_interval(fast, "p99") == "0.737 ms"


def test_what_lies_apart_is_off_the_front() -> None:
    """By p50 alone: the slow run is beaten, the one whose requests overlap is not."""
    near = run("near", 0.3, 0.5, 1.2)
    three = views(FAST, SLOW, near)
    points = [(view.summary["e2e_latency_ms"]["p50"],) for view in three]
    (front,) = fronts_by_ground(three, points, (P50,)).values()
    assert front == {0, 2}
