"""Devices that are slower than their kind, among seeded fleets of known speeds."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.training.fleet.outliers import FALSE_ALARMS, outliers


def fleet(seed: int, devices: int = 8, sick: dict[str, float] | None = None) -> dict[str, list[float]]:
    """Steps of 100 ms that differ by 2% from device to device, and by 1% from run to run."""
    rng = np.random.default_rng(seed)
    return {
        f"d{at}": list(
            0.1 * (sick or {}).get(f"d{at}", 1.0) * np.exp(rng.normal(0, 0.02) + rng.normal(0, 0.01, 3))
        )
        for at in range(devices)
    }


@pytest.mark.parametrize("devices", [6, 8, 12])
def test_equal_devices_are_named_at_no_more_than_the_stated_rate(devices: int) -> None:
    """Of 3,000 fleets 1% at most: 30, and three standard deviations more."""
    named = sum(bool(outliers(fleet(seed, devices), FALSE_ALARMS)) for seed in range(3000))
    assert named <= 30 + 3 * 30**0.5


def test_a_device_at_80_percent_is_found_among_8() -> None:
    """In 20 of 20, and nobody else is named."""
    for seed in range(20):
        found = outliers(fleet(seed, sick={"d3": 1 / 0.8}))
        assert [one.device for one in found] == ["d3"]
        assert found[0].ratio == pytest.approx(1.25, rel=0.1) and 1.05 <= found[0].bound < found[0].ratio


def test_two_sick_ones_do_not_hide_each_other_among_enough() -> None:
    """One much slower than the other, which is found once the first is taken away."""
    found = outliers(fleet(1, devices=12, sick={"d2": 2.0, "d7": 1.4}))
    assert [one.device for one in found] == ["d2", "d7"]


@pytest.mark.parametrize("devices", [6, 8, 12, 16])
def test_two_that_are_as_slow_as_each_other_do_not_hide_each_other(devices: int) -> None:
    """At half the speed in 20 of 20, and nobody else. One by one the slower of the two is beside the other: of 12 that
    is twice the mean, log 2 (1 - 1 / 11), with a standard deviation of log 2 / sqrt(11), and no t(10) of 1 - 0.01 / 12
    times that (4.2) leaves room for it.
    """
    for seed in range(20):
        found = outliers(fleet(seed, devices, {"d2": 2.0, "d4": 2.0}))
        assert {one.device for one in found} == {"d2", "d4"}
        assert all(one.ratio == pytest.approx(2, rel=0.15) and one.bound < one.ratio for one in found)


def test_those_that_are_named_are_beside_those_that_are_not() -> None:
    """Of six at 1, 1, 1, 1, 3 and 3 both take 3 times the others' time: not 3 / 3^(1/5) = 2.41 times."""
    found = outliers({f"d{at}": [3.0 if at > 3 else 1.0] for at in range(6)})
    assert [(one.ratio, one.bound) for one in found] == [pytest.approx((3, 1.05))] * 2
    assert (
        outliers({f"d{at}": [3.0 if at > 2 else 1.0] for at in range(6)}) == []
    )  # half of them are no exception


def test_few_devices_and_small_differences_name_nobody() -> None:
    """Without a baseline of four others nothing is said, and 3% are nobody's fault."""
    assert outliers({f"d{at}": [9.0 if at == 0 else 1.0] for at in range(4)}) == []
    assert outliers({f"d{at}": [1.03 if at == 0 else 1 + at * 1e-6] for at in range(8)}) == []
    assert outliers({}) == []
