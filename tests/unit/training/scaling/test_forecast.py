"""Predictions for more ranks, against the bounds worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from inferbench_tasks.training.scaling.curve import Curve, curves
from inferbench_tasks.training.scaling.forecast import forecast, greatest
from tests.unit.training.scaling.made import raw, result

#: 1% to both sides of two rates, each by t(2): of their ratio on the logarithm 1.414%.
LEAST, MOST = math.exp(-0.01 * math.sqrt(2)), math.exp(0.01 * math.sqrt(2))


def weak(cores: float = 64, imbalance: float = 0.0) -> Curve:
    """10 ms on one rank; on two 2 ms of exchange more."""
    steps = {"one": raw(1, 10), "two": raw(2, 10, exchange=2, imbalance=imbalance)}
    step_ms = 12 + imbalance
    results = [
        result("one", 1, 64, 6400, cores=cores),
        result("two", 2, 64, 128 / step_ms * 1e3, cores=cores),
    ]
    (curve,) = curves(results, lambda made: steps[made.run_id])
    return curve


def test_the_exchange_grows_by_bandwidth_at_least_and_by_latency_at_most() -> None:
    """Of 2 ms on two ranks four make 3 (1.5 times as much is sent) to 6 ms (three times the messages); 1% of noise in
    each of the two rates.
    """
    (four,), reason = forecast(weak(), [2, 4])
    assert reason is None and four.ranks == 4
    assert four.efficiency == pytest.approx((LEAST * 10 / 16, MOST * 10 / 13))
    assert four.speedup == pytest.approx((4 * LEAST * 10 / 16, 4 * MOST * 10 / 13))


def test_the_wait_for_the_last_rank_grows_with_their_number_at_most() -> None:
    """As the greatest of four normal deviates by that of two: 1.0294 by 0.5642; it stays as it is at least."""
    assert greatest(2) == pytest.approx(0.5642, abs=1e-4) and greatest(4) == pytest.approx(1.0294, abs=1e-4)
    (four,), _ = forecast(weak(imbalance=1), [4])
    assert four.efficiency == pytest.approx((LEAST * 10 / (16 + 1.0294 / 0.5642), MOST * 10 / 14), rel=1e-4)


def test_strong_scaling_has_a_part_that_does_not_shrink() -> None:
    """12 ms for 64 samples and 7 for 32 are 2 ms and 10 for 64: a quarter of the batch takes 4.5 ms."""
    steps = {"one": raw(1, 12), "two": raw(2, 7, exchange=1)}
    results = [result("one", 1, 64, 64 / 0.012), result("two", 2, 32, 64 / 0.008)]
    (curve,) = curves(results, lambda made: steps[made.run_id])
    (four,), _ = forecast(curve, [4])
    assert four.efficiency == pytest.approx((LEAST * 3 / (4.5 + 3), MOST * 3 / (4.5 + 1.5)))


def test_bounds_are_as_wide_as_the_speed_up_that_they_hang_on() -> None:
    """100 rounds of one rank tell its rate to 0.1%, three of two ranks theirs to 20%: so are the bounds, and not 0.1%.

    t(2) and t(99) are 4.3027 and 1.9842; the smaller sample decides.
    """
    steps = {"one": raw(1, 10), "two": raw(2, 10, exchange=2)}
    results = [result("one", 1, 64, 6400), result("two", 2, 64, 128 / 0.012)]
    for made, share, rounds in zip(results, (0.001, 0.2), (100, 3), strict=True):
        assert made.summary is not None
        bare = made.summary.bare
        bare["samples_per_s_ci95"] = [
            bare["samples_per_s"] * (1 - share),
            bare["samples_per_s"] * (1 + share),
        ]
        bare["rounds"] = rounds
    (curve,) = curves(results, lambda made: steps[made.run_id])
    (four,), _ = forecast(curve, [4])
    half = 4.302653 * math.hypot(0.2 / 4.302653, 0.001 / 1.984217)
    assert four.efficiency == pytest.approx((math.exp(-half) * 10 / 16, math.exp(half) * 10 / 13), rel=1e-5)
    without = replace(curve, points=(curve.points[0], replace(curve.points[1], speedup_ci95=None)))
    assert forecast(without, [4]) == ([], "the speed-up of 2 ranks has no interval")


def test_a_batch_has_a_sample_for_each_rank_at_least() -> None:
    """Of 64 samples 64 ranks have one each, and 128 have none: no figure of half a sample."""
    steps = {"one": raw(1, 12), "two": raw(2, 7, exchange=1)}
    results = [result("one", 1, 64, 64 / 0.012), result("two", 2, 32, 64 / 0.008)]
    (curve,) = curves(results, lambda made: steps[made.run_id])
    found, reason = forecast(curve, [64, 128])
    assert [of.ranks for of in found] == [64]
    assert reason == "a batch of 64 has no sample for each of more than 64 ranks"
    assert forecast(weak(), [64, 128])[1] is None  # of weak scaling each rank has its own batch


def test_a_batch_is_divided_evenly_among_its_ranks() -> None:
    """100 samples are 25 for each of 4 ranks, and 5 for each of 20; of 8 no rank can have 12.5: no figure of that. Of
    weak scaling 8 ranks have whole batches, as any.
    """
    steps = {"one": raw(1, 12), "two": raw(2, 7, exchange=1)}
    results = [result("one", 1, 100, 100 / 0.012), result("two", 2, 50, 100 / 0.008)]
    (curve,) = curves(results, lambda made: steps[made.run_id])
    assert curve.kind == "strong"
    found, reason = forecast(curve, [2, 4, 8, 16, 20, 128])
    assert [of.ranks for of in found] == [4, 20]
    assert reason == (
        "a batch of 100 can't be divided evenly among 8, 16 ranks; "
        "a batch of 100 has no sample for each of more than 100 ranks"
    )
    assert forecast(curve, [8]) == ([], "a batch of 100 can't be divided evenly among 8 ranks")
    assert [of.ranks for of in forecast(weak(), [8, 9])[0]] == [8, 9]


def test_ranks_that_share_their_gpus_predict_nothing() -> None:
    """Two ranks on one GPU say nothing of two GPUs."""
    found, reason = forecast(replace(weak(), shares_gpus=True), [4])
    assert found == [] and reason is not None and "share their GPUs" in reason


def test_ranks_that_share_cores_predict_nothing() -> None:
    """Two ranks on one core say nothing of four with one each."""
    found, reason = forecast(weak(cores=1), [4])
    assert found == [] and reason is not None and reason.startswith("2 ranks had fewer cores than threads")


def test_raw_steps_that_are_gone_predict_nothing() -> None:
    """Without them nobody knows what the exchange took."""
    (curve,) = curves([result("one", 1, 64, 6400), result("two", 2, 64, 9000)], lambda _: [])
    assert forecast(curve, [4]) == (
        [],
        "the raw steps of a run are missing, or its kernel told no waits for a core",
    )
