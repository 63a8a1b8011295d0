"""What may be said of what was measured: no p99 of a few values, no growth from agents that were late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: Of fewer values the 99th percentile is their largest.
LEAST_FOR_P99 = 100
#: Agents that look so many times more seldom than they want to ask PerfDB for as much less: the machine is full.
MOST_LATE = 2.0
#: What may grow with the devices, of the phase in which jobs end and others start.
GROWING = (
    "round_cpu_p50_ms",
    "scheduler_cores",
    "perfdb_ops_per_s",
    "perfdb_cores",
    "decision_to_lease_p50_ms",
)


def quantile(values: Sequence[float], q: float) -> float | None:
    """None of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else None


def p99(values: Sequence[float]) -> float | None:
    """None of fewer than a hundred."""
    return quantile(values, 0.99) if len(values) >= LEAST_FOR_P99 else None


def saturated(look_every_s: float, wanted_s: float) -> bool:
    """Whether agents were late by more than twofold."""
    return look_every_s > MOST_LATE * wanted_s


def growth(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """From the fewest devices to the most: figure -> times; or why nothing is said. ``rows``: of all sizes and phases.

    A figure grows no worse than linearly if its times are no more than the devices'.
    """
    going = sorted((row for row in rows if row["phase"] == "going"), key=lambda row: row["devices"])
    if len({row["devices"] for row in going}) < 2:
        return {"phase": "growth", "reason": "one number of devices does not grow"}
    if late := [row["devices"] for row in going if row["saturated"]]:
        sizes = ", ".join(f"{devices:,}" for devices in late)
        return {
            "phase": "growth",
            "reason": f"with {sizes} devices agents were late by more than {MOST_LATE:g}x: this machine was full, and "
            "what it could not do did not grow",
        }
    first, last = going[0], going[-1]
    times = {
        name: round(last[name] / first[name], 2) if first.get(name) and last.get(name) is not None else None
        for name in GROWING
    }
    return {"phase": "growth", "devices": round(last["devices"] / first["devices"], 2), **times}
