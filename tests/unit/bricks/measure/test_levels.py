"""Which rounds count."""

from __future__ import annotations

import pytest

from inferbench_tasks.bricks.measure.levels import Round, good_rounds, level_of, longest_ns
from inferbench_tasks.monitors.steal import STEAL_QUARANTINE_RATIO


def one(a: float, b: float = 50.0, wait: float | None = 0.0) -> Round:
    return Round({"a": a, "b": b}, wait)


def test_the_level_is_the_geometric_mean_of_the_ratios() -> None:
    """One reference 21% slower beside an equal one: 10%."""
    assert level_of({"a": 121.0, "b": 50.0}, {"a": 100.0, "b": 50.0}) == pytest.approx(1.1)


def test_rounds_off_the_median_do_not_count() -> None:
    """The third is 5% slower in both, the fourth 2.9% in both."""
    rounds = [one(100), one(100), one(105, 52.5), one(102.9, 51.45), one(100)]
    assert good_rounds(rounds) == [0, 1, 3, 4]


def test_rounds_that_waited_for_a_core_do_not_count() -> None:
    """1.1% of the time is too much; where the kernel does not tell the level alone decides."""
    assert good_rounds([one(100, wait=0.011), one(100, wait=0.009), one(100, wait=None)]) == [1, 2]
    assert good_rounds([]) == []


def test_rounds_of_which_the_hypervisor_took_what_disturbs_a_serving_run_do_not_count() -> None:
    """5% and more, by the ledger's own bound, however near their level is; where the kernel does not tell the others
    decide."""
    taken = (STEAL_QUARANTINE_RATIO, 0.0499, None, 0.3)
    assert good_rounds([Round({"a": 1.0}, 0.0, steal_ratio=ratio) for ratio in taken]) == [1, 2]
    assert STEAL_QUARANTINE_RATIO == 0.05


def test_how_long_one_more_round_may_take_is_known_once_two_ended() -> None:
    """Of 20 and 30 s: 60 s. Of one alone nothing is said: as bounds there have to be two."""
    ended = [Round({"a": 1.0}, 0.5, took_ns=int(seconds * 1e9)) for seconds in (20, 30)]
    assert longest_ns(ended) == pytest.approx(60e9)
    assert longest_ns(ended[:1]) is None and longest_ns([]) is None


def test_a_machine_that_changes_its_speed_has_no_three_rounds() -> None:
    """Each round 10% slower than the one before: only the one in the middle is near the median."""
    assert good_rounds([one(100 * 1.1**i, 50 * 1.1**i) for i in range(5)]) == [2]
