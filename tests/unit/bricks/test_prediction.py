"""Constructed times and their intervals, against calculations by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from inferbench_tasks.bricks import prediction
from inferbench_tasks.bricks.calibration import ClassFactors
from inferbench_tasks.bricks.constructors import constructor_of
from inferbench_tasks.bricks.prediction import (
    Calibration,
    Estimate,
    by_operators,
    calibrated,
    calibration_by,
    constructed,
    measured,
    sum_error,
    uncalibrated,
)
from inferbench_tasks.bricks.results import WHOLE
from inferbench_tasks.errors import InputError, UnknownKindError
from tests.unit.bricks.builders import result

#: Student's for 95% with two degrees of freedom.
T2 = 4.302652729911275


def test_the_sum_and_its_interval() -> None:
    """Rounds of 11, 12 and 13: 12, with Student's interval of three values."""
    estimate = constructed([result("a", 1, 2, 3), result("b", 10, 10, 10)], [[], [0]], "warm")
    assert estimate.ns == 12
    assert estimate.high_ns - 12 == pytest.approx(T2 / math.sqrt(3))
    assert 12 - estimate.low_ns == pytest.approx(T2 / math.sqrt(3))
    assert constructed([result("a", 1, 1, 1)], [[]], "streamed").ns == 2


def test_bricks_that_were_timed_in_unlike_numbers_of_rounds_have_all_of_their_rounds() -> None:
    """1, 1, 1 and, of a night, 1, 1, 1 and seven times 2: 1 + 1.7, as where the time goes says. Only the second
    differs, by a variance of (3 x 0.49 + 7 x 0.09) / 9 = 0.2333 and so a standard error of root(0.02333), with the
    quantile of nine degrees of freedom, 2.262. If the first also differs, by 0.9, 1, 1.1 (a variance of 0.01 / 3 of the
    mean), they add, with (0.003333 + 0.02333)^2 / (0.003333^2 / 2 + 0.02333^2 / 9) = 10.77 degrees of freedom."""
    night = result("b", *[1] * 3, *[2] * 7).model_copy(update={"session": "night"})
    steady, moving = result("a", 1, 1, 1), result("a", 0.9, 1, 1.1)
    estimate = constructed([steady, night], [[], [0]], "warm")
    assert estimate.ns == pytest.approx(2.7)
    [of_both] = by_operators([steady, night], "warm")
    assert of_both["ms"] == pytest.approx(estimate.ns / 1e6)
    assert estimate.high_ns - 2.7 == pytest.approx(2.2621571627409915 * math.sqrt(0.07 / 3))
    both = constructed([moving, night], [[], [0]], "warm")
    ours, theirs = 0.01 / 3, 0.07 / 3
    freedom = (ours + theirs) ** 2 / (ours**2 / 2 + theirs**2 / 9)
    assert freedom == pytest.approx(10.77, abs=0.01)
    assert both.high_ns - 2.7 == pytest.approx(stats.t.ppf(0.975, freedom) * math.sqrt(ours + theirs))


def test_what_disturbs_a_round_adds_up_within_a_session_alone() -> None:
    """Both bricks take 9, 10 and 11 in the same rounds: 18, 20 and 22, a standard error of 2 / root 3. Of two sessions
    the rounds have nothing in common: root(1/3 + 1/3), with four degrees of freedom."""
    one, other = result("a", 9, 10, 11), result("b", 9, 10, 11)
    together = constructed([one, other], [[], [0]], "warm")
    assert together.high_ns - 20 == pytest.approx(T2 * 2 / math.sqrt(3))
    apart = constructed([one, other.model_copy(update={"session": "later"})], [[], [0]], "warm")
    assert apart.ns == 20
    assert apart.high_ns - 20 == pytest.approx(2.7764451051977987 * math.sqrt(2 / 3))


def test_a_critical_path_of_two_sessions_has_each_ones_rounds() -> None:
    """a, 4 and 8, beside b, 7 and 5: in the same rounds the longer one is 7 and 8, 7.5 in the mean. Of two sessions the
    rounds are nobody's together: both take 6. a's rounds make 6 and 8 of that, b's 7 and 6:
    standard errors of 1 and 1/2, with (1 + 1/4)^2 / (1 + 1/16) degrees of freedom."""
    one, other = result("a", 4, 8), result("b", 7, 5)
    assert constructed([one, other], [[], []], "warm", "parallel").ns == 7.5
    apart = [one, other.model_copy(update={"session": "later"})]
    estimate = constructed(apart, [[], []], "warm", "parallel")
    half = stats.t.ppf(0.975, 1.25**2 / (1 + 1 / 16)) * math.sqrt(1.25)
    assert estimate.ns == 6 and estimate.high_ns == pytest.approx(6 + half)


def test_the_critical_path_leaves_out_what_goes_beside() -> None:
    """a, then b (2) beside c (5), then d: 1 + 5 + 3; the sum is 11."""
    bricks = [result(name, *[time] * 3) for name, time in zip("abcd", (1, 2, 5, 3), strict=True)]
    needs = [[], [0], [0], [1, 2]]
    assert constructed(bricks, needs, "warm", "parallel").ns == 9
    assert constructed(bricks, needs, "warm").ns == 11


@pytest.mark.parametrize("time", [0.0, -1.0, math.nan, math.inf])
def test_a_constructor_that_makes_no_time_is_refused(time: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever's it is: nothing is predicted of it, and its name is said."""
    monkeypatch.setattr(prediction, "constructor_of", lambda name: lambda times, needs: time)
    with pytest.raises(
        InputError, match="constructor: ours makes .* ns of 1 bricks: a model's time is a number"
    ):
        constructed([result("a", 1, 2, 3)], [[]], "warm", "ours")


def test_a_repeated_brick_counts_as_often_as_it_stands_there() -> None:
    """Three times 2 and once 10; the table by operator has the same sum."""
    a, b = result("a", 2, 2, 2), result("b", 10, 10, 10, operators=("Gemm",))
    assert constructed([a, b, a, a], [[]] * 4, "warm").ns == 16
    rows = by_operators([a, b, a, a], "warm")
    assert [(row["operators"], row["bricks"], row["share_ratio"]) for row in rows] == [
        ("Gemm", 1, 10 / 16),
        ("Conv", 3, 6 / 16),
    ]


#: a forks into b and c, d takes both; e stands beside all of them.
FORK = [[], [0], [0], [1, 2], []]


@pytest.mark.parametrize(
    ("name", "times", "needs", "expected"),
    [
        ("parallel", [1.0, 2.0, 5.0, 1.0, 4.0], FORK, 7.0),  # a, c, d
        ("streams:1", [1.0, 2.0, 5.0, 1.0, 4.0], FORK, 13.0),  # the sum
        # 0 to 1: a, and e to 4; b from 1 to 3, c from 3 to 8, d to 9.
        ("streams", [1.0, 2.0, 5.0, 1.0, 4.0], FORK, 9.0),
        ("streams:2", [1.0, 2.0, 5.0, 1.0, 4.0], FORK, 9.0),
        ("streams:3", [1.0, 2.0, 5.0, 1.0, 4.0], FORK, 7.0),  # as many as ever may run: the critical path
        # Graham's anomaly: the fourth executor makes it slower.
        (
            "streams:3",
            [3.0, 2.0, 2.0, 2.0, 4.0, 4.0, 4.0, 4.0, 9.0],
            [[], [], [], [], [3], [3], [3], [3], [0]],
            12.0,
        ),
        (
            "streams:4",
            [3.0, 2.0, 2.0, 2.0, 4.0, 4.0, 4.0, 4.0, 9.0],
            [[], [], [], [], [3], [3], [3], [3], [0]],
            15.0,
        ),
        ("streams:2", [2.0, 2.0], [[], [0, 0]], 4.0),  # both inputs of one brick
        ("streams", [], [], 0.0),
    ],
)
def test_constructors_give_what_is_calculated_by_hand(
    name: str, times: list[float], needs: list[list[int]], expected: float
) -> None:
    """Critical path; list scheduling in the model's order on so many executors."""
    assert constructor_of(name)(times, needs) == expected


@pytest.mark.parametrize(
    "name", ["streams:0", "streams:x", "streams:", "streams:-1", "streams:1025", "parallel:2"]
)
def test_a_number_of_executors_that_is_none_is_refused(name: str) -> None:
    """As is one for a constructor that takes none."""
    with pytest.raises(InputError, match="executors"):
        constructor_of(name)


def test_an_unknown_constructor_is_named() -> None:
    """With those that there are."""
    with pytest.raises(
        UnknownKindError, match="'magic' at constructor; known: parallel, sequential, streams"
    ):
        constructed([result("a", 1, 1)], [[]], "warm", "magic")


def test_the_calibrated_interval_has_both_parts() -> None:
    """Rounds without spread, models with one of 10%: the factor's alone, of one more model."""
    one = calibrated(constructed([result("a", 10, 10, 10)], [[]], "warm"), Calibration(3, 1.2, 0.1, 3))
    assert one.ns == pytest.approx(12)
    assert math.log(one.high_ns / one.ns) == pytest.approx(T2 * 0.1 * math.sqrt(4 / 3))
    assert one.low_ns * one.high_ns == pytest.approx(one.ns**2)
    two = calibrated(constructed([result("a", 9, 10, 11)], [[]], "warm"), Calibration(3, 1.2, 0.0, 3))
    assert two.high_ns / two.ns == pytest.approx((10 + T2 / math.sqrt(3)) / 10)


def test_what_may_be_half_as_long_may_be_so_when_it_is_calibrated() -> None:
    """Two batch sizes allow 5 to 11 around 10: times 1.2, and three models that are all off alike, 6 to 13.2, by one
    factor as by classes; with models that differ either side has the wider of its own."""
    interpolated = Estimate(10, 5, 11)
    one = calibrated(interpolated, Calibration(3, 1.2, 0.0, 3))
    assert (one.low_ns, one.ns, one.high_ns) == pytest.approx((6, 12, 13.2))
    of_class = ClassFactors(4, {"dense": 1.2, "memory-bound": 2.0, "other": 1.0}, 0.0, 0.0)
    by_class = of_class.calibrated(interpolated, {"dense": 10.0})
    assert (by_class.low_ns, by_class.ns, by_class.high_ns) == pytest.approx((6, 12, 13.2))
    both = calibrated(interpolated, Calibration(3, 1.0, 0.1, 3))
    half = T2 * 0.1 * math.sqrt(4 / 3)
    assert math.log(10 / both.low_ns) == pytest.approx(math.hypot(math.log(2), half))
    assert math.log(both.high_ns / 10) == pytest.approx(math.hypot(math.log(1.1), half))
    assert calibrated(Estimate(10, 0, 20), Calibration(3, 1.2, 0.1, 3)).low_ns == 0


def test_models_beside_those_that_calibrate_tell_how_far_they_are_off() -> None:
    """Logarithms of 0, 0.1 and 0.2 calibrate: a factor of exp(0.1). With -0.1 and 0.3 beside them the factor stays, and
    the scatter is that of five: root(0.1 / 4) = 0.158, with Student's quantile of four degrees of freedom, 2.776."""
    by = calibration_by([0.0, 0.1, 0.2], [-0.1, 0.3])
    assert by is not None and (by.models, by.judged_by) == (3, 5)
    assert by.factor == pytest.approx(math.exp(0.1)) and by.spread == pytest.approx(math.sqrt(0.1 / 4))
    found = calibrated(Estimate(10, 10, 10), by)
    assert found.ns == pytest.approx(10 * math.exp(0.1))
    half = 2.7764451051977987 * math.sqrt(0.1 / 4) * math.sqrt(4 / 3)
    assert math.log(found.high_ns / found.ns) == pytest.approx(half)
    assert calibration_by([0.0, 0.1], [0.2, 0.3]) is None


def test_a_sum_that_nothing_calibrates_is_off_as_other_sums_are() -> None:
    """Others are off by 0.1, 0.1, 0.1 and 0.3: a root mean square of root(0.12 / 4), which also has their mean in it,
    times 2.776; the sum stays where it is. Two others say nothing."""
    by = sum_error([0.1, 0.1, 0.1, 0.3])
    assert by is not None and by.judged_by == 4 and by.rms == pytest.approx(math.sqrt(0.03))
    found = uncalibrated(Estimate(10, 10, 10), by)
    assert found.ns == 10 and found.low_ns * found.high_ns == pytest.approx(100)
    assert math.log(found.high_ns / 10) == pytest.approx(2.7764451051977987 * math.sqrt(0.03))
    rounds = uncalibrated(Estimate(10, 9, 11), by)
    assert math.log(rounds.high_ns / 10) == pytest.approx(
        math.hypot(math.log(1.1), 2.7764451051977987 * math.sqrt(0.03))
    )
    assert sum_error([0.1, 0.1]) is None


@pytest.mark.parametrize(
    ("others", "mean", "plain"),
    [(3, 0.0, (0.94, 0.96)), (20, 0.0, (0.94, 0.96)), (20, 0.05, (0.95, 0.98)), (20, 0.15, (0.99, 1.0))],
)
def test_intervals_hold_as_often_as_they_say(others: int, mean: float, plain: tuple[float, float]) -> None:
    """Models that are off by 5%, on the logarithm, around some mean, three of which calibrate: 95% of the calibrated
    times are held, however far off the mean is; of sums 95% where it is 0, and more where it is not. (4,000 draws: a
    standard error of 0.3%.)"""
    rng = np.random.default_rng(19)
    held = {"calibrated": 0, "sum": 0}
    for *logs, own in rng.normal(mean, 0.05, (4_000, others + 1)).tolist():
        one, by, off = Estimate(1, 1, 1), calibration_by(logs[:3], logs[3:]), sum_error(logs)
        assert by is not None and off is not None
        for name, found in (("calibrated", calibrated(one, by)), ("sum", uncalibrated(one, off))):
            held[name] += found.low_ns <= math.exp(own) <= found.high_ns
    assert 0.94 <= held["calibrated"] / 4_000 <= 0.965
    assert plain[0] <= held["sum"] / 4_000 <= plain[1]


def test_a_whole_model_s_own_interval() -> None:
    """Student's over its rounds."""
    assert measured(result(WHOLE + "one", 9, 10, 11)).high_ns == pytest.approx(10 + T2 / math.sqrt(3))
