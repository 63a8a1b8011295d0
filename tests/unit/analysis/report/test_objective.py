"""The objective's checks as a report tells them, in results of this version and of earlier ones."""

from __future__ import annotations

import math
from typing import Any

import pytest

from inferbench_tasks.analysis.report.objective import checks_of, latency_bounds
from inferbench_tasks.analysis.report.runs import RunView
from tests.unit.analysis.builders import records, view


def run(**checks: tuple[float | None, float, bool | None]) -> RunView:
    """A run with these checks: (value, bound, met)."""
    judged = view(records(5.0))
    stored: dict[str, Any] = {
        n: dict(zip(("value", "bound", "met"), c, strict=True)) for n, c in checks.items()
    }
    judged.summary["slo"] = {"met": False, "checks": stored}
    return judged


@pytest.mark.parametrize("name", ["p99_ms", "latency_p99_ms"])
def test_a_check_reads_the_same_under_its_earlier_name(name: str) -> None:
    """Results from before figures had one name call it latency_p99_ms."""
    (check,) = checks_of(run(**{name: (31.25, 20.0, False)}))
    assert check.figure.name == "p99_ms"
    assert (check.allowed, check.failure) == ("p99 ≤ 20 ms", "p99 is 31.25 ms, bound 20 ms")
    assert latency_bounds([run(**{name: (1.0, 20.0, True)})]) == {"p99": 20.0}


def test_the_side_of_a_bound_is_the_figures() -> None:
    """At least for what is better when higher; the overshoot says how many times the bound."""
    rate, errors, memory = checks_of(
        run(
            throughput_rps=(40.0, 50.0, False),
            error_ratio=(0.02, 0.0, False),
            rss_bytes=(2**31, 2**30, False),
        )
    )
    assert (rate.allowed, rate.overshoot) == ("throughput ≥ 50 requests/s", 1.25)
    assert (errors.failure, errors.overshoot) == ("errors is 0.02, bound 0", math.inf)
    assert (memory.allowed, memory.overshoot) == ("RSS ≤ 1024 MiB", 2.0)


def test_a_figure_of_a_package_that_is_gone_keeps_its_name() -> None:
    """Its bound is shown all the same."""
    (check,) = checks_of(run(jitter_ms=(None, 3.0, None)))
    assert (check.allowed, check.overshoot) == ("jitter_ms ≤ 3", 0.0)
