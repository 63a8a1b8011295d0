"""A share and its complement are one thing: what is said of 99% kept holds of 1% failed, in absolute terms."""

from __future__ import annotations

import math
from typing import Any

import pytest

from inferbench_tasks.analysis.certainty import (
    Change,
    Estimate,
    estimate,
    of_one_run,
    of_result,
    pooled_ratio,
)
from inferbench_tasks.analysis.recommend.candidates import Candidate
from inferbench_tasks.analysis.recommend.judge import Judge
from inferbench_tasks.analysis.spread import DRIFT_RATIO, PRIOR_RUNS, scale_of
from inferbench_tasks.analysis.stated import Stated, share_error, stated
from inferbench_tasks.figures import FIGURES
from tests.unit.perfdb.builders import result

ERRORS, GOOD = FIGURES["error_ratio"], FIGURES["good_ratio"]


def complement(values: list[float]) -> list[float]:
    return [1 - value for value in values]


def test_one_run_by_hand() -> None:
    """0.05 x 0.99 x 0.01 = 0.000495 of both; of 1% alone it is 0.05% as of any figure but for that hundredth, and a
    latency of 10 ms still has 0.5.
    """
    good, failed = (of_one_run(value, share=True) for value in (0.99, 0.01))
    assert good.between == pytest.approx(0.000495) and failed.between == pytest.approx(0.000495)
    assert of_one_run(10.0).between == pytest.approx(0.5)
    assert [scale_of(value, share=True) for value in (0.0, 0.5, 1.0, 1.5)] == [0.0, 0.25, 0.0, 1.5]


def test_two_runs_by_hand() -> None:
    """98% and 96%: p (1 - p) = 0.97 x 0.03 = 0.0291, squares 2 x 0.01^2 = 0.0002. Pooled with three runs of 5%:
    sqrt((3 x 0.05^2 + 0.0002 / 0.0291^2) / 4) = 0.246820; the configuration's own sqrt((3 x (0.24682 x 0.0291)^2 +
    0.0002) / 4) = 0.0094176. Of 2% and 4% failed it is the same.
    """
    for values in ([0.98, 0.96], [0.02, 0.04]):
        pooled = pooled_ratio([values], share=True)
        assert pooled == pytest.approx(0.246820, abs=1e-6)
        assert estimate(values, pooled, share=True).between == pytest.approx(0.0094176, abs=1e-7)


def test_a_share_of_few_events_tells_little_of_another_by_hand() -> None:
    """50% and 52%, and 99.9% and 99.8%: squares 0.0002 + 0.0000005 over 0.2499^2 + 0.00149775^2 = 0.0624523 are
    0.0032105 of each degree: sqrt((3 x 0.05^2 + 2 x 0.0032105) / 5) = 0.05277. Each divided for itself it would be
    0.2127, by the one failure more of the second.
    """
    samples = [[0.50, 0.52], [0.999, 0.998]]
    assert pooled_ratio(samples, share=True) == pytest.approx(0.05277, abs=1e-5)
    each = 0.0002 / 0.2499**2 + 0.0000005 / 0.00149775**2
    prior = PRIOR_RUNS * DRIFT_RATIO**2
    assert math.sqrt((prior + each) / (PRIOR_RUNS + 2)) == pytest.approx(0.2162, abs=1e-4)


@pytest.mark.parametrize(
    "samples", [[[0.98, 0.96], [0.9, 0.95, 0.93]], [[0.999]], [[1.0, 1.0], [0.5, 0.51]], [[0.7, 0.2, 0.4]]]
)
def test_whatever_the_runs_show_both_have_the_same_error(samples: list[list[float]]) -> None:
    """Pooled, of a configuration, and of one run of it."""
    others = [complement(values) for values in samples]
    pooled = pooled_ratio(samples, share=True)
    assert pooled == pytest.approx(pooled_ratio(others, share=True))
    for values, opposite in zip(samples, others, strict=True):
        one, other = (estimate(each, pooled, share=True) for each in (values, opposite))
        assert one.between == pytest.approx(other.between, abs=1e-12)
        one, other = (of_one_run(each[0], each, pooled, share=True) for each in (values, opposite))
        assert one.between == pytest.approx(other.between, abs=1e-12)


def documents(kept: float) -> dict[str, Any]:
    summary = {"requests": 100_000, "error_ratio": 1 - kept, "tokens": {"good_ratio": kept}}
    return result(f"run-{kept}", summary=summary).model_dump()


def test_everybody_judges_both_alike() -> None:
    """99% against 98.8% of 100,000 requests each: 0.05 x 0.99 x 0.01 = 0.000495 and 0.05 x 0.988 x 0.012 = 0.000593,
    beside the binomial's 0.000315 and 0.000344: 0.002 / hypot(0.000495, 0.000593) = 2.59, by good ones as by failed
    ones. By 5% of 99% it was 0.002 / 0.07: nothing.
    """
    changes = []
    for figure, values in ((GOOD, (0.988, 0.99)), (ERRORS, (0.01, 0.012))):
        errors = [Stated(share_error(value, 100_000), plain=True) for value in values]
        pair = [of_result(figure, value, stated=error) for value, error in zip(values, errors, strict=True)]
        changes.append(Change.between(*pair))
    assert changes[0].size == pytest.approx(changes[1].size) == pytest.approx(0.002)
    assert changes[0].error == pytest.approx(changes[1].error) == pytest.approx(0.000772, abs=1e-6)
    assert changes[0].settled and changes[1].settled
    more, less = (Candidate(name, [documents(kept)]) for name, kept in (("a", 0.99), ("b", 0.988)))
    judge = Judge([more, less])
    assert judge.beats(more, less, "good_ratio") == pytest.approx(judge.beats(more, less, "error_ratio"))
    assert judge.beats(more, less, "good_ratio") == pytest.approx(changes[0].probability)
    assert stated(GOOD, documents(0.99)).plain


def test_the_error_of_a_figure_that_is_no_share_is_what_it_was() -> None:
    """5% of the mean, by however many runs."""
    same: Estimate = estimate([10.0, 10.0, 10.0], pooled_ratio([[10.0, 10.0, 10.0]]))
    pooled = math.sqrt(3 * 0.05**2 / 5)
    assert same.between == pytest.approx(math.sqrt(3 * (pooled * 10) ** 2 / 5))
