"""Whether an objective was kept, by any figure of the table."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.loadgen.objective import judge
from inferbench_tasks.submission.slo import SloSpec

SUMMARY: dict[str, Any] = {
    "e2e_latency_ms": {"p99": 12.0, "p999": None},
    "throughput_rps": 50.0,
    "error_ratio": 0.0,
    "accuracy_ratio": 0.9,
    "energy": {"joule_per_sample": 0.5},
    "resources": {"server": {"rss_bytes": {"max": 1e9}}},
}


@pytest.mark.parametrize(
    ("bounds", "met"),
    [
        ({"p99_ms": 12}, True),
        ({"p99_ms": 11.9}, False),
        ({"throughput_rps": 50}, True),
        ({"throughput_rps": 50.1}, False),
        ({"accuracy_ratio": 0.91}, False),
        ({"accuracy_ratio": 0.9, "joule_per_sample": 0.5, "rss_bytes": 1e9}, True),
        ({"p999_ms": 20, "p99_ms": 20}, None),
        ({"p999_ms": 20, "p99_ms": 2}, False),
        ({"cold_start_ms": 100}, None),
    ],
)
def test_every_bound_counts_on_its_own_side(bounds: dict[str, float], met: bool | None) -> None:
    """At least where more is better; one that is missed decides, one without a value leaves it open."""
    judged = judge(SloSpec.model_validate(bounds), SUMMARY)
    assert judged is not None and judged["met"] is met
    assert [*bounds, "error_ratio"] == sorted(judged["checks"], key=[*bounds, "error_ratio"].index)


def test_without_an_objective_there_is_nothing_to_keep() -> None:
    """Nothing is judged where no objective is set."""
    assert judge(None, SUMMARY) is None
