"""What the benchmark of many devices says of its rows, and what it does not."""

from __future__ import annotations

from typing import Any

from benchmarks.cluster.judged import growth, p99, quantile, saturated


def row(
    devices: int, *, saturated: bool = False, phase: str = "going", **figures: float | None
) -> dict[str, Any]:
    return {"devices": devices, "phase": phase, "saturated": saturated, **figures}


def test_a_p99_takes_a_hundred_values() -> None:
    """Of fewer it would be their largest; a median needs one."""
    assert p99([float(n) for n in range(100)]) == 99.0 and p99([1.0] * 99) is None
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0 and quantile([], 0.5) is None


def test_agents_that_are_late_by_more_than_twofold_are_saturated() -> None:
    """Four and a half seconds for a fifth of one; not what a look itself takes."""
    assert saturated(4.5, 0.2) and saturated(0.41, 0.2)
    assert not saturated(0.4, 0.2) and not saturated(0.21, 0.2)


def test_growth_is_of_the_fewest_and_the_most_devices() -> None:
    """Of the phase in which jobs end and start; what was not measured at either has none."""
    rows = [
        row(1000, perfdb_ops_per_s=6000, perfdb_cores=1.5, round_cpu_p50_ms=None),
        row(10, perfdb_ops_per_s=60, perfdb_cores=0.03, round_cpu_p50_ms=15.0),
        row(10, phase="filling", perfdb_ops_per_s=1),
        row(100, perfdb_ops_per_s=500),
    ]
    told = growth(rows)
    assert (told["devices"], told["perfdb_ops_per_s"], told["perfdb_cores"]) == (100, 100, 50)
    assert told["round_cpu_p50_ms"] is None and "reason" not in told


def test_no_growth_is_stated_from_a_machine_that_was_full() -> None:
    """Nor from one size; the reason names the sizes that were too much."""
    rows = [row(10, perfdb_ops_per_s=60), row(1000, saturated=True, perfdb_ops_per_s=1100)]
    told = growth(rows)
    assert "with 1,000 devices" in told["reason"] and "perfdb_ops_per_s" not in told
    assert "does not grow" in growth(rows[:1])["reason"]
