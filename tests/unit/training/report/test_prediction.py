"""The predicted step over loader processes."""

from __future__ import annotations

from inferbench_tasks.training.diagnosis.observation import Batch
from inferbench_tasks.training.report.prediction import by_workers
from tests.unit.training.diagnosis.observations import observe
from tests.unit.training.report.results import view


def test_both_curves_and_the_measured_step_are_drawn() -> None:
    """Making 20 ms without processes beside 10: 30 ms are 20 with one, 11 with two; on one core never below its
    work.
    """
    run = observe(Batch(20.0, 20.0), loading_ms=20.0, loading_cpu_ms=20.0, cores=1)
    chart = by_workers(view("a"), run)
    assert chart is not None
    here, enough, measured = chart["data"]
    assert here["y"][:3] == [30.0, 31.0, 31.0] and enough["y"][:3] == [30.0, 20.0, 11.0]
    assert (measured["x"], measured["y"]) == ([0], [30.0])


def test_a_run_that_tells_nothing_predicts_nothing() -> None:
    """One that does not count, one that makes no batches, one that does not know what a hand-over takes."""
    run = observe(Batch(20.0, 20.0), loading_ms=20.0)
    assert by_workers(view("a", wrong="nobody watched"), run) is None
    assert by_workers(view("a"), observe(None, loading_ms=0.0)) is None
    assert by_workers(view("a"), observe(Batch(20.0, 20.0), loading_ms=20.0, hand_over_ms=None)) is None
    assert by_workers(view("a"), None) is None
