"""Devices that are slow in each of their groups, among seeded groups of known speeds."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from inferbench_tasks.training.fleet.links import slow_members
from inferbench_tasks.training.fleet.outliers import outliers


def pairs(
    seed: int, count: int, slow: tuple[int, ...] = (), device: float = 0.0, pair: float = 0.0
) -> dict[tuple[str, ...], list[float]]:
    """All pairs of up to 6 devices, else a ring; steps of 100 ms, twice that with a slow one, that differ by ``device``
    and ``pair`` and by 2% from run to run.
    """
    rng = np.random.default_rng(seed)
    known = (
        list(combinations(range(count), 2)) if count <= 6 else [(a, (a + 1) % count) for a in range(count)]
    )
    own = rng.normal(0, device, count) if device else np.zeros(count)
    return {
        (f"d{a}", f"d{b}"): list(
            (0.2 if {a, b} & set(slow) else 0.1)
            * np.exp(own[a] + own[b] + (rng.normal(0, pair) if pair else 0) + rng.normal(0, 0.02, 3))
        )
        for a, b in known
    }


@pytest.mark.parametrize("count", [4, 5, 6, 7, 8, 12])
def test_a_device_with_a_slow_link_is_found_among_all_pairs_and_in_a_ring(count: int) -> None:
    """Twice as slow in each of its pairs: in 50 of 50 it alone is named, though among the pairs it is in none."""
    for seed in range(50):
        (found,) = slow_members(pairs(seed, count, (0,)))
        assert found.device == "d0" and found.ratio == pytest.approx(2, rel=0.1) and found.bound < found.ratio


def test_two_slow_links_do_not_hide_each_other_among_five() -> None:
    """8 of 10 pairs are slow, 3 of the others' are not."""
    for seed in range(50):
        assert sorted(one.device for one in slow_members(pairs(seed, 5, (0, 2)))) == ["d0", "d2"]


def test_one_slow_pair_names_none_of_its_devices() -> None:
    """Each of them has other pairs, which are as all are."""
    times = {**pairs(1, 5), ("d0", "d1"): [0.3, 0.3, 0.3]}
    assert slow_members(times) == []


def test_few_pairs_name_nobody() -> None:
    """Of three devices there is one pair without a given one; of separate pairs nobody knows which member it is."""
    assert slow_members(pairs(0, 3, (0,))) == []
    assert slow_members({(f"a{at}", f"b{at}"): [9.0 if at == 0 else 1.0] for at in range(8)}) == []
    assert slow_members({}) == []


@pytest.mark.parametrize(("count", "device", "pair"), [(4, 0.0, 0.02), (6, 0.02, 0.0), (7, 0.02, 0.02)])
def test_equal_links_are_named_at_no_more_than_the_stated_rate(
    count: int, device: float, pair: float
) -> None:
    """Device or pair in 1% of 1,000 fleets at most, each at half of it: 10, and three standard deviations more."""
    fleets = [pairs(seed, count, (), device, pair) for seed in range(1000)]
    named = sum(
        bool(slow_members(times, 0.005) or outliers({" ".join(of): s for of, s in times.items()}, 0.005))
        for times in fleets
    )
    assert named <= 10 + 3 * 10**0.5
