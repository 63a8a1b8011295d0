"""What a share of requests is worth: one failure of 100 and two of 100 are the same within chance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.analysis.certainty import SETTLED, Change, of_result
from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.recommend.leaderboard import ranked
from inferbench_tasks.analysis.recommend.recommender import choose
from inferbench_tasks.analysis.report.differences import NONE_SHOWN, difference
from inferbench_tasks.analysis.report.in_words import in_words
from inferbench_tasks.analysis.stated import Stated, needed, share_error, stated
from inferbench_tasks.dotted import set_at
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.loadgen.early_stopping import worth_of
from inferbench_tasks.loadgen.summary import worth_as_stored
from inferbench_tasks.perfdb.documents import ResultDocument
from tests.unit.perfdb.builders import result

SHARES = ("error_ratio", "good_ratio", "kept_ttft_ratio", "kept_tpot_ratio", "kept_latency_ratio")


def run(failed: int, requests: int = 100, **more: Any) -> ResultDocument:
    """A run of which so many requests failed."""
    return result(
        f"{failed}-of-{requests}",
        submission={"name": "x", "digest": f"{failed}{requests:063d}"},
        summary={"requests": requests, "error_ratio": failed / requests, "throughput_rps": 10.0, **more},
    )


def test_the_error_of_a_share_by_hand() -> None:
    """1 of 100: 1.5 / 101 = 0.014851, so sqrt(0.014851 x 0.985149 / 100) = 0.012096; none of 100 is not exactly none:
    0.5 / 101 = 0.004950, sqrt(0.004950 x 0.995050 / 100) = 0.007019.
    """
    assert share_error(0.01, 100) == pytest.approx(0.012096, rel=1e-3)
    assert share_error(0.0, 100) == pytest.approx(0.007019, rel=1e-3)
    assert share_error(1.0, 100) == pytest.approx(share_error(0.0, 100))


@pytest.mark.parametrize("name", SHARES)
def test_every_share_of_requests_states_it(name: str) -> None:
    """Of the requests of the run; one from before they were counted states nothing."""
    summary: dict[str, Any] = {"requests": 100}
    set_at(summary, FIGURES[name].path, 0.01)
    assert stated(FIGURES[name], {"summary": summary}) == Stated(share_error(0.01, 100), plain=True)
    del summary["requests"]
    assert stated(FIGURES[name], {"summary": summary}) == Stated()


@pytest.mark.parametrize("name", SHARES)
def test_requests_in_clusters_are_worth_fewer(name: str) -> None:
    """2,000 of 60,000 in one stall are worth 30: 1.5 / 31 = 0.048387, sqrt(0.048387 x 0.951613 / 30) = 0.039178."""
    over = np.zeros(60_000, dtype=bool)
    over[30_000:32_000] = True
    worth, reason = worth_of(over)
    assert worth == 30.0 and reason is not None
    summary: dict[str, Any] = {"requests": 60_000}
    set_at(summary, FIGURES[name].path, 1 / 30)
    set_at(summary, FIGURES[name].worth[0], worth)
    found = stated(FIGURES[name], {"summary": summary})
    assert found.within == pytest.approx(0.039178, rel=1e-4) and found.plain and found.bounded
    set_at(summary, FIGURES[name].worth[0].replace(".requests", ".reason"), reason)
    assert stated(FIGURES[name], {"summary": summary}) == Stated(found.within, plain=True, bounded=False)
    assert {f"summary.{path}" for path in FIGURES[name].worth} < set(needed(FIGURES[name]))


def test_what_a_stored_decision_was_worth_counts_for_older_results() -> None:
    """They have it of the share of good answers alone: 60 of 1,000 were not, worth 50."""
    summary = {"requests": 1000, "tokens": {"good_ratio": 0.94, "good_decision": {"worth_requests": 50.0}}}
    expected = Stated(share_error(0.94, 50.0), plain=True)
    assert stated(FIGURES["good_ratio"], {"summary": summary}) == expected


def test_one_stall_makes_no_worse_server() -> None:
    """One run had a stall, in which 2,000 of 60,000 failed, the other none: which is better is not known, and said so;
    2,000 failures here and there are another thing.
    """
    stall, scattered = np.zeros(60_000, dtype=bool), np.zeros(60_000, dtype=bool)
    stall[30_000:32_000] = True
    scattered[np.random.default_rng(1).permutation(60_000)[:2000]] = True

    def of(over: np.ndarray) -> ResultDocument:
        return run(int(over.sum()), 60_000, worth={"error_ratio": worth_as_stored(over)})

    none = of(np.zeros(60_000, dtype=bool))
    better = choose([of(stall).model_dump(), none.model_dump()], "error_ratio", []).top[0]
    # 1/30 over 0.0392, by t with 3 degrees of freedom: 0.851.
    assert better["beats_next_probability"] == pytest.approx(0.771, abs=0.005)
    shown = difference(none, of(stall), "error_ratio", {})
    assert shown.verdict == "not decided" and "episodes" in (shown.reason or "")
    assert choose([of(scattered).model_dump(), none.model_dump()], "error_ratio", []).top[0][
        "beats_next_probability"
    ] > 0.99  # fmt: skip
    assert difference(none, of(scattered), "error_ratio", {}).verdict == "worse"


def test_one_failure_and_two_of_100_do_not_differ() -> None:
    """Fisher's one-sided p is 0.50. 0.01 / hypot(0.012096, 0.015537) = 0.508: 68% by Student's t. Ten times as much of
    1,000 does differ by that: 0.01 / hypot(0.003222, 0.004482) = 1.81.
    """
    one, two = run(1), run(2)
    change = Change.between(*(of_result(FIGURES["error_ratio"], value, stated=error)
                              for value, error in ((0.01, Stated(share_error(0.01, 100), plain=True)),
                                                   (0.02, Stated(share_error(0.02, 100), plain=True)))))  # fmt: skip
    assert change.error == pytest.approx(math.hypot(0.012096, 0.015537), rel=1e-3)
    assert change.probability == pytest.approx(0.685, abs=0.01)
    documents = [one.model_dump(), two.model_dump()]
    assert [row["rank"] for row in ranked(documents, FIGURES["error_ratio"], ())] == [1, 1]
    first, _ = choose(documents, "error_ratio", []).top
    assert first["beats_next_probability"] == pytest.approx(change.probability, abs=1e-6)
    assert "better with probability 68%, so the difference may be noise" in first["why"]
    more = [run(10, 1000).model_dump(), run(20, 1000).model_dump()]
    assert choose(more, "error_ratio", []).top[0]["beats_next_probability"] > SETTLED


def test_a_comparison_judges_shares_by_their_difference() -> None:
    """1 and 2 of 100 show none; 50 of 100 is worse than none, without a ratio to it, and told in words."""
    shown = difference(run(1), run(2), "error_ratio", {})
    assert (shown.ratio, shown.ci95, shown.verdict) == (None, None, NONE_SHOWN)
    worse = difference(run(0), run(50), "error_ratio", {})
    assert worse.ratio is None and worse.verdict == "worse"
    row = {"figure": "error_ratio", "a": 0.0, "differences": [vars(worse)]}
    assert in_words(["a", "b"], [row]) == ["Run 2: worse in errors (50 % against run 1's 0 %)."]


def test_a_bound_on_failures_is_kept_as_surely_as_so_few_requests_tell() -> None:
    """1 of 100 below 2%: 0.01 / 0.012096 = 0.827, 77% by t with 3 degrees of freedom, where Jeffreys' interval has 74%.
    Where no failure is allowed and none was, nothing keeps the bound better.
    """
    (row,) = choose([run(1).model_dump()], "throughput_rps", [Bound("error_ratio", True, 0.02)]).top
    assert row["keeps_slo_probability"] == pytest.approx(0.7655, abs=1e-3)
    (row,) = choose([run(0).model_dump()], "throughput_rps", [Bound("error_ratio", True, 0.0)]).top
    assert row["keeps_slo_probability"] == 1.0
    (row,) = choose([run(0).model_dump()], "throughput_rps", [Bound("error_ratio", True, 0.01)]).top
    assert 0.8 < row["keeps_slo_probability"] < 0.95


def test_several_bounds_are_kept_as_surely_as_all_of_them_are() -> None:
    """Two by their own 76.55% each are kept together with 1 - 2 x 23.45% = 53.1% at least, which is said. Two at
    their bounds (50.3% each) and a third by 76.55%: that all are is not known at all.
    """
    both = run(1, tokens={"good_ratio": 0.99}).model_dump()
    bounds = [Bound("error_ratio", True, 0.02), Bound("good_ratio", False, 0.98)]
    found = choose([both], "throughput_rps", bounds)
    assert found.top[0]["keeps_slo_probability"] == pytest.approx(1 - 2 * (1 - 0.7655), abs=2e-3)
    assert any("with probability at least 53% only" in note for note in found.notes)
    close = [Bound("error_ratio", True, 0.0101), Bound("good_ratio", False, 0.9899)]
    (row,) = choose([both], "throughput_rps", [*close, bounds[0]]).top
    assert row["keeps_slo_probability"] == 0.0


def test_an_interval_is_within_what_the_figure_can_be() -> None:
    """1 of 100 +- 3.18 x 0.0121 would begin below no failures at all; 99 of 100 good ones would end above all."""
    (row,) = choose([run(1).model_dump()], "error_ratio", []).top
    assert row["ci95"] == pytest.approx([0.0, 0.01 + 3.18245 * 0.012096], rel=1e-3)
    good = run(1, tokens={"good_ratio": 0.99}).model_dump()
    (row,) = choose([good], "good_ratio", []).top
    assert row["ci95"][0] < 0.99 - 3.18 * 0.012 and row["ci95"][1] == 1.0
