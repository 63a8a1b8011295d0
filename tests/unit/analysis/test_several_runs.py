"""Several runs of one configuration: more of the same makes nothing less sure, and each run has its own error."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

from inferbench_tasks.analysis.certainty import Change, Estimate, estimate
from inferbench_tasks.analysis.recommend.candidates import Bound, Candidate
from inferbench_tasks.analysis.recommend.judge import Judge
from inferbench_tasks.analysis.recommend.moved import moved_notes, why_moved
from inferbench_tasks.analysis.recommend.recommender import choose
from inferbench_tasks.analysis.stated import Stated, stated, together
from inferbench_tasks.figures import FIGURES
from tests.unit.analysis.test_lie_apart import P50, run
from tests.unit.analysis.test_steadiness import THROUGHPUT, WORDS, certificate
from tests.unit.analysis.test_steadiness import run as rated
from tests.unit.perfdb.builders import result

Document = dict[str, Any]


def times(of: Document, count: int, configuration: str) -> list[Document]:
    """So many runs of one configuration, each with the same figures."""
    submission = {"name": "x", "digest": configuration * 8}
    return [{**of, "run_id": f"{configuration}{at}", "submission": submission} for at in range(count)]


FAST, SLOW = run("a", 0.6, 0.7, 0.737).model_dump(), run("b", 1.0, 1.05, 1.3).model_dump()


def beats(count: int) -> float:
    """That the fast configuration is better, by so many equal runs of both."""
    (first, _) = choose([*times(FAST, count, "a"), *times(SLOW, count, "b")], "p50_ms", []).top
    assert first["run"].startswith("a")
    probability: float = first["beats_next_probability"]
    return probability


def test_a_second_equal_run_makes_it_surer_by_hand() -> None:
    """Once, the nearest ends are ln(1 / 0.737) = 0.3052 of hypot(0.05, 0.05) apart: 99.75%. Of two equal runs of each
    the pooled spread is sqrt(3 x 0.05^2 / 5) = 0.038730, a configuration's sqrt(3 x 0.038730^2 / 4) = 0.033541, its
    mean's / sqrt(2) = 0.023717, both 0.033541: z = 9.098 with 8 degrees of freedom. By the guess of a quarter alone it
    would be ln 1.5 / hypot(0.25, 0.25) x sqrt(2) = 1.622, 92.8%.
    """
    from scipy.special import stdtr

    assert beats(1) == pytest.approx(0.9975, abs=1e-3)
    assert beats(2) == pytest.approx(float(stdtr(8, 9.098)), abs=1e-6) and beats(2) > 0.99999
    guessed = Stated(0.25 * 0.7, bounded=False), Stated(0.25 * 1.05, bounded=False)
    pair = [Estimate(mean, 0.0, 2, 4.0, error) for mean, error in zip((0.7, 1.05), guessed, strict=True)]
    assert Change.between(*pair).probability == pytest.approx(0.928, abs=1e-3)


@pytest.mark.parametrize("figure", ["p50_ms", "p99_ms", "throughput_rps", "error_ratio", "accuracy_ratio"])
def test_more_of_the_same_never_makes_it_less_sure(figure: str) -> None:
    """The order of two configurations, and that a bound is kept, by one to five equal runs of each."""
    better, worse = 0.7, 0.75
    pair = []
    for value in (better, worse):
        latency = {
            "count": 4219,
            "min": value - 0.02,
            "p50": value,
            "p99": value + 0.02,
            "ci95": {"p50": None},
        }
        summary = {
            "e2e_latency_ms": latency, "ok": 900, "throughput_rps": 1 / value, "requests": 1000,
            "error_ratio": value / 10, "accuracy_ratio": 1 - value / 10,
        }  # fmt: skip
        extensions = {"requests": {"samples": 256}}
        pair.append(result("r", summary=summary, extensions=extensions).model_dump())
    higher = FIGURES[figure].higher
    sure, kept = [], []
    for count in range(1, 6):
        documents = [*times(pair[0], count, "a"), *times(pair[1], count, "b")]
        candidates = [
            Candidate(name, [d for d in documents if d["run_id"].startswith(name)]) for name in "ab"
        ]
        judge = Judge(candidates)
        sure.append(judge.beats(candidates[0], candidates[1], figure))
        mean = candidates[0].mean(figure)
        assert mean is not None
        keeps = judge.keeps(candidates[0], [Bound(figure, not higher, mean * (0.97 if higher else 1.03))])
        assert keeps is not None
        kept.append(keeps)
    assert sure[0] > 0.5
    for probabilities in (sure, kept):
        assert all(more >= less - 1e-9 for less, more in pairwise(probabilities)), (sure, kept)


def test_runs_with_and_without_an_interval_together_by_hand() -> None:
    """0.70 between 0.60 and 0.737 with a guess of 0.175, and 0.72 known to 0.01: sqrt((0.175^2 + 0.01^2) / 2) =
    0.123945; the ends' means are (0.60 + 0.72) / 2 = 0.66 and (0.737 + 0.72) / 2 = 0.7285, and of the second run's
    error sqrt(0.01^2 / 2) = 0.007071 is left there.
    """
    unknown = stated(P50, FAST)
    known = Stated(0.01)
    both = together([(0.70, unknown), (0.72, known)])
    assert both.within == pytest.approx(0.123945, abs=1e-6) and not both.bounded
    assert both.extremes == pytest.approx((0.66, 0.7285))
    assert both.beside == pytest.approx(0.0070711, abs=1e-7)
    end = estimate([0.70, 0.72], stated=both).at(0.7285)
    assert (end.mean, end.stated.within, end.stated.extremes) == (0.7285, both.beside, None)
    without = together([(0.70, Stated(0.175, bounded=False)), (0.72, known)])
    assert without.extremes is None, "of one of them nobody knows between what it lies"


def test_what_a_method_is_wrong_by_and_a_source_are_of_all_or_of_none() -> None:
    """Alike in all runs: 2 J and 4 J by 30% are 3 J by 30%; of two machines there is no one factor."""
    one, two = Stated(systematic=0.6, source=("rapl", "a")), Stated(systematic=1.2, source=("rapl", "a"))
    both = together([(2.0, one), (4.0, two)])
    assert both.systematic == pytest.approx(0.9) and both.source == ("rapl", "a")
    assert together([(2.0, one), (4.0, Stated(source=("rapl", "b")))]).source is None


def five(moved: int) -> list[Document]:
    """Five runs of 1,000 samples/s, so many of which moved by a fifth."""
    steady, unsteady = rated("s", 1000.0), rated("m", 1000.0, certificate=certificate(WORDS, -0.2))
    return [{**(unsteady if at < moved else steady).model_dump(), "run_id": f"run-{at}"} for at in range(5)]


@pytest.mark.parametrize(("moved", "error"), [(0, 9.583), (1, 41.13), (5, 200.2)])
def test_each_run_is_judged_by_its_own_rate_by_hand(moved: int, error: float) -> None:
    """Five equal runs: pooled sqrt(3 x 0.05^2 / 7) = 3.2733%, theirs sqrt(3 x 32.733^2 / 7) = 21.43, the mean's /
    sqrt(5) = 9.583. One that moved by 200 adds 200 / 5 = 40: hypot(9.583, 40) = 41.13. All five add 200: 200.2.
    """
    candidate = Candidate("c", five(moved))
    own = Judge([candidate]).estimate(candidate, THROUGHPUT.name)
    assert own.error == pytest.approx(error, rel=1e-3)
    assert own.stated.moved == pytest.approx(200 * moved / 5)


def test_not_steady_is_said_as_far_as_it_is_so() -> None:
    """One of five is named with its reason and its error; all five are all; one alone as ever."""
    assert why_moved(Candidate("c", five(0)), THROUGHPUT.name) is None
    assert why_moved(Candidate("c", five(1)), THROUGHPUT.name) == (
        f"not steady in 1 of 5 runs (run-0: {WORDS}): that run is judged with an error of 20%, the mean of all with 4%"
    )
    told = why_moved(Candidate("c", five(5)), THROUGHPUT.name)
    assert told is not None and told.startswith("not steady in 5 of 5 runs (run-0: ")
    assert "; and 2 more): those runs are judged with an error of 20%, the mean of all with 20%" in told
    alone = Candidate("c", five(1)[:1])
    assert why_moved(alone, THROUGHPUT.name) == (
        f"of a rate that moved ({WORDS}), and is judged with an error of 20%"
    )
    notes = moved_notes([Candidate("c", five(2))], {"c": "configuration c"}, [THROUGHPUT.name, "p99_ms"])
    assert len(notes) == 1 and notes[0].startswith(
        "The throughput_samples_per_s of configuration c is not steady in 2 of 5 runs"
    )


def test_errors_of_chance_are_the_root_mean_square() -> None:
    """3 and 4: sqrt(12.5) of one run, sqrt(12.5 / 2) = 2.5 = hypot(3, 4) / 2 of the mean."""
    both = together([(10.0, Stated(3.0)), (10.0, Stated(4.0))])
    assert Estimate(10.0, 0.0, 2, 9.0, both).error == pytest.approx(math.hypot(3, 4) / 2)
