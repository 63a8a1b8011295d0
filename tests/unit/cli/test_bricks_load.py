"""What is said beside a prediction's figures."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.cli.bricks_load import _in_words, _short

ROW: dict[str, Any] = {
    "job": "j-1", "point": {}, "state": "stable", "disturbed": [], "saturation_rps": 1000.0, "calibrated": True,
    "judged": True,
    "slo_left_out": [], "coverage_ratio": 1.0, "error_ratio": 0.0, "p50_ms": 1.0, "p95_ms": 2.0, "p99_ms": 3.0,
    "draws": 40, "draws_wanted": 40, "capacity_arrivals": "poisson", "capacity_by": "error_ratio <= 1e-05",
    "capacity_rps": None, "capacity_fails_at_rps": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("interval", "least", "says"),
    [
        (
            [0.0, 810.0],
            0.00025,
            "its capacity is 810 at most, that of error_ratio 0.00025: whether fewer fail can't be",
        ),
        ([940.0, 1000.0], None, "its capacity is between 940 and the saturation rate, 1000 at most"),
    ],
)
def test_a_capacity_that_is_not_told_is_given_with_its_reason(
    interval: list[float], least: float | None, says: str
) -> None:
    """A share that is too small to be judged and a rate too close to saturation, one of both."""
    row = ROW | {"capacity_interval_rps": interval, "capacity_least_error_ratio": least}
    assert _short(row)["capacity_rps"] == f"{interval[0]:g} to {interval[1]:g}"
    said = [words for words in _in_words(row) if words.startswith("j-1: its capacity is ")]
    assert len(said) == 1 and says in said[0]


def test_intervals_without_what_cutting_changes_are_said_to_be() -> None:
    """Where no other models tell how far sums are off; where they do nothing is left out, calibrated or not."""
    told = {"capacity_interval_rps": [1.0, 2.0], "capacity_least_error_ratio": None, "calibrated": False}
    alone, judged = (" ".join(_in_words(ROW | told | {"judged": judged})) for judged in (False, True))
    assert "intervals leave out what cutting changes" in alone and "leave out" not in judged
