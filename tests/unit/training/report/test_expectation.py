"""A run beside the speed that its submission expects."""

from __future__ import annotations

import pytest

from inferbench_tasks.training.report.expectation import sentences, verdict
from tests.unit.training.report.results import view


def test_a_run_is_set_beside_what_was_expected() -> None:
    """800 samples/s of 1,000 (0.79 to 0.81 of it) are too few; 12 ms of 12 without an interval tell nothing."""
    run = view("a", interval=(790, 810))
    run.job = {"expected": {"samples_per_s": 1000.0, "step_ms": 12.0, "source": "last year"}}
    assert run.timing is not None
    run.timing["step_ms"]["ci95"] = None
    assert sentences(run) == [
        "a: 800 samples/s (790 to 810), expected 1,000 (last year): 0.80 of it, slower than it should be.",
        "a: 12 ms a step, expected 12 (last year): 1.00 of it, without an interval nobody can tell more.",
    ]
    assert sentences(view("b")) == []


@pytest.mark.parametrize(
    ("ratio", "interval", "higher", "says"),
    [
        (1.0, (0.9, 1.1), True, "as it should be"),
        (1.3, (1.2, 1.4), True, "faster than it should be"),
        (1.3, (1.2, 1.4), False, "slower than it should be"),
        (0.7, (0.6, 0.8), False, "faster than it should be"),
        (1.1, (0.9, 1.3), True, "not told apart"),
    ],
)
def test_the_interval_decides(ratio: float, interval: tuple[float, float], higher: bool, says: str) -> None:
    """Within 15% of the expectation, beyond it, or neither."""
    assert says in verdict(ratio, interval, higher)
