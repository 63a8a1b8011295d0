"""The test that decides each comparison."""

from __future__ import annotations

import math

import numpy as np
import pytest

from inferbench_tasks.regression.bisect.sequential import differ, estimate, is_changed, sizes_of
from inferbench_tasks.regression.power import Noise
from tests.unit.regression.builders import nights

NOISE = Noise(within=0.03, between=0.005, sessions=20, freedom=30)


@pytest.mark.parametrize("shift", [0.0, 0.03])
def test_wrong_decisions_are_as_seldom_as_promised(shift: float) -> None:
    """15.25: looked at after every block, at most 5% of 200 tests decide wrongly, and nearly all decide."""
    sizes, wrong, open_ones = np.full(1, math.log(1.03)), 0, 0
    for seed in range(200):
        blocks = nights([shift] * 60, noise=0.03 / math.sqrt(2), pairs=4, seed=seed)
        decisions = (is_changed(blocks[:count], sizes, NOISE, 0.05) for count in range(1, 61))
        first = next((decision for decision in decisions if decision is not None), None)
        wrong += first is not None and first != (shift > 0)
        open_ones += first is None
    assert wrong <= 10 and open_ones <= 10


def test_the_ends_are_looked_at_in_both_directions() -> None:
    """3% up and 3% down differ; nothing does not."""
    quiet = Noise(within=0.01, between=0.001, sessions=20, freedom=30)
    for shift, answer in ((0.05, True), (-0.05, True), (0.0, False)):
        assert differ(nights([shift] * 8, noise=0.007, pairs=4), 0.03, quiet, 0.01) is answer


@pytest.mark.parametrize("shift", [0.03, 0.25, -0.25, 0.7, 3.0])
def test_a_change_many_times_the_smallest_is_decided_sooner_and_not_later(shift: float) -> None:
    """15.25: a doubled latency looked for as 3% took 76 pairs; four blocks are enough for each."""
    quiet = Noise(within=0.003, between=0.0057, sessions=4, freedom=8)
    assert differ(nights([shift] * 4, noise=0.002, pairs=4), math.log1p(0.03), quiet, 0.05 / 6) is True


def test_ends_that_do_not_differ_are_seldom_called_different() -> None:
    """Looked at after every block, for 3% or more: at most 5% of 200."""
    wrong = 0
    for seed in range(200):
        blocks = nights([0.0] * 40, noise=0.03 / math.sqrt(2), pairs=4, seed=seed)
        looks = (differ(blocks[:count], 0.03, NOISE, 0.05) for count in range(1, 41))
        wrong += next((look for look in looks if look is not None), False)
    assert wrong <= 10


def test_one_block_of_bad_luck_does_not_decide() -> None:
    """Seven blocks without a change and one that is 20% off: not changed."""
    blocks = nights([0.0] * 7 + [0.2], noise=0.007, pairs=4)
    quiet = Noise(within=0.01, between=0.005, sessions=20, freedom=30)
    assert is_changed(blocks, np.full(1, 0.03), quiet, 0.01) is False
    assert abs(estimate(blocks, quiet, 0.95).effect) < 0.01


def test_what_a_step_may_be_changed_by_is_never_less_than_half() -> None:
    """In the direction of the ends, around what they differ by."""
    ends = estimate(nights([-0.04] * 6, noise=0.05, pairs=4), Noise(0.07, 0.01, 6, 8.0), 0.95)
    sizes = sizes_of(ends, 8.0)
    assert (sizes < 0).all() and np.abs(sizes).min() >= abs(ends.effect) / 2
    assert np.median(sizes) == pytest.approx(ends.effect)
