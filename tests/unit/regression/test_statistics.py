"""The statistics: each against a known value, a library, or its own promise over many draws."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.regression.changepoint import best_split, change_points
from inferbench_tasks.regression.decide import adjusted
from inferbench_tasks.regression.evidence import of_newest, strongest_run
from inferbench_tasks.regression.power import Noise, minimum_detectable_effect, noise_of, pairs_needed
from inferbench_tasks.regression.ratio import effect, mann_whitney
from inferbench_tasks.regression.spread import History, moderated
from tests.unit.regression.builders import nights


def test_the_rank_test_is_exact_for_small_samples() -> None:
    """6 + 6 fully separated runs: 2 of 924 orders are as extreme."""
    assert mann_whitney([1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]) == pytest.approx(2 / 924)
    assert mann_whitney([1, 1], [1, 1]) == 1.0
    assert mann_whitney([], [1, 2]) == 1.0


def test_the_effect_ignores_one_wild_run() -> None:
    """One pair of ten that took a hundred times as long moves the estimate by less than the noise."""
    clean = list(np.random.default_rng(1).normal(0.03, 0.01, 10))
    assert effect(clean) == pytest.approx(0.03, abs=0.01)
    assert effect([*clean[:-1], np.log(100)]) == pytest.approx(effect(clean), abs=0.01)


def test_the_error_covers_what_it_says() -> None:
    """In at least 91% of 400 series of ten sessions the newest's effect lies within 1.96 errors of the truth."""
    covered = 0
    for seed in range(400):
        night = of_newest(History.of(nights([0.0] * 9 + [0.02], noise=0.03, seed=seed)), 1, 9)
        covered += abs(night.effect - np.log(1.02)) <= 1.96 * night.error
    assert covered / 400 >= 0.91


def test_variances_that_differ_stay_and_those_that_are_alike_are_drawn_together() -> None:
    """Nights of 1 and 10% keep their own variance; nights that are alike get nearly the same one."""
    rng = np.random.default_rng(1)
    own = np.full(20, 7.0)
    deviations = np.where(np.arange(20) % 2, 0.01, 0.1)
    mixed, _ = moderated(deviations**2 * rng.chisquare(7, 20) / 7, own)
    assert np.sqrt(np.median(mixed[1::2])) == pytest.approx(0.01, rel=0.2)
    assert np.sqrt(np.median(mixed[::2])) == pytest.approx(0.1, rel=0.2)
    alike, freedom = moderated(0.02**2 * rng.chisquare(7, 20) / 7, own)
    assert np.sqrt(alike).std() < 0.003 and freedom > 20


def test_choosing_the_most_different_run_is_paid_for() -> None:
    """Of 200 quiet histories at most 5% + three standard errors have a run with p <= 0.05."""
    chances = [strongest_run(History.of(nights([0.0] * 20, seed=seed))) for seed in range(200)]
    share = np.mean([run is not None and run[1] <= 0.05 for run in chances])
    assert share <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
    assert strongest_run(History.of(nights([0.0] * 4))) is None


def test_a_pair_tells_a_shift_with_its_size() -> None:
    """5% of shift in 1% of noise after ten quiet nights: two errors around it hold 5%, not 3%, and chance does not."""
    pair = of_newest(History.of(nights([0.0] * 10 + [0.05], pairs=10)), 1, 10)
    assert pair.effect - 2 * pair.error < np.log(1.05) < pair.effect + 2 * pair.error
    assert pair.effect - 2 * pair.error > 0.03
    assert pair.p_value < 1e-3


def test_adjusted_p_values_are_benjamini_hochbergs() -> None:
    """The table of the procedure's definition, in any order, never above 1."""
    assert adjusted([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.16 / 3, 0.16 / 3, 0.5])
    assert adjusted([]) == []
    assert adjusted([0.9, 0.95]) == pytest.approx([0.95, 0.95])


def test_change_points_are_found_where_they_are() -> None:
    """Two steps in a noisy level: both found, at their place, with the levels around them."""
    rng = np.random.default_rng(5)
    level = np.concatenate([np.zeros(20), np.full(15, 3.0), np.full(15, 1.0)])
    points = change_points(list(level + rng.normal(0, 0.3, 50)))
    assert [p.index for p in points] == [20, 35]
    assert points[0].before == pytest.approx(0, abs=0.3) and points[0].after == pytest.approx(3, abs=0.3)
    assert points[1].after == pytest.approx(1, abs=0.3)


def test_the_energy_statistic_is_the_published_one() -> None:
    """The vectorised statistic against its formula, written out with loops."""
    from inferbench_tasks.regression.changepoint import MIN_SEGMENT, _statistics

    z = np.random.default_rng(2).normal(0, 1, 11)
    expected = []
    for k in range(MIN_SEGMENT, len(z) - MIN_SEGMENT + 1):
        x, y = z[:k], z[k:]
        n, m = len(x), len(y)
        across = 2 / (n * m) * sum(abs(a - b) for a in x for b in y)
        left = 2 / (n * (n - 1)) * sum(abs(x[i] - x[j]) for i in range(n) for j in range(i))
        right = 2 / (m * (m - 1)) * sum(abs(y[i] - y[j]) for i in range(m) for j in range(i))
        expected.append(n * m / (n + m) * (across - left - right))
    assert _statistics(np.abs(z[:, None] - z[None, :])) == pytest.approx(expected)


def test_a_history_without_a_change_keeps_its_level_of_false_alarms() -> None:
    """Of 200 histories of noise at most 5% + three standard errors have a split with p <= 0.05."""
    rng = np.random.default_rng(8)
    splits = [best_split(rng.standard_t(3, 20), 99, rng) for _ in range(200)]
    share = np.mean([split is not None and split[1] <= 0.05 for split in splits])
    assert share <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
    assert best_split(np.ones(3), 99, rng) is None
    assert change_points([1.0] * 30) == []


def test_the_minimum_detectable_effect_is_what_simulation_finds() -> None:
    """A shift as large as the stated one is found by a z test in 80% of simulated nights."""
    noise = Noise(within=0.03, between=0.01, sessions=20)
    mde = minimum_detectable_effect(noise, pairs=9)
    rng = np.random.default_rng(4)
    means = rng.normal(mde, noise.of_session(9), 20_000)
    assert np.mean(np.abs(means) / noise.of_session(9) > 2.5758) == pytest.approx(0.8, abs=0.02)


def test_the_number_of_runs_follows_from_the_wanted_effect() -> None:
    """It is the smallest that reaches it; where sessions differ by more, no number of runs does."""
    noise = Noise(within=0.03, between=0.0, sessions=20)
    pairs = pairs_needed(noise, 0.02)
    assert pairs is not None
    assert minimum_detectable_effect(noise, pairs) <= 0.02 < minimum_detectable_effect(noise, pairs - 1)
    assert pairs_needed(Noise(0.03, between=0.02, sessions=20), 0.02) is None
    assert pairs_needed(Noise(0.03, between=0.02, sessions=20), 0.02, sessions=20) is not None


def test_noise_is_told_apart_within_and_between_sessions() -> None:
    """Pairs of 2% noise in sessions of 3% bias: both standard deviations come back."""
    rng = np.random.default_rng(6)
    sessions = nights(list(np.expm1(rng.normal(0, 0.03, 60))), noise=0.02)
    noise = noise_of(sessions)
    assert noise.within == pytest.approx(0.02 * np.sqrt(2), rel=0.1)
    assert noise.between == pytest.approx(0.03, rel=0.25)
