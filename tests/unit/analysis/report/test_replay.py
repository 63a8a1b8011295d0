"""Replay: the same job, the differences, the agreement."""

from __future__ import annotations

import pytest

from inferbench_tasks.analysis.report.replay import agreement, environment_differences
from inferbench_tasks.perfdb.documents import ResultDocument
from tests.unit.analysis.builders import records, view


def result(latency_ms: float, seed: int = 1, **changes: object) -> ResultDocument:
    """A result with that latency."""
    document = view(records(latency_ms, seed=seed), **changes).result  # type: ignore[arg-type]
    assert document is not None
    return document


def test_equal_runs_agree_and_others_do_not() -> None:
    """Another seed of the same agrees in everything; twice the latency is named."""
    then = result(5.0)
    assert all(row["agrees"] for row in agreement(then, result(5.0, seed=2)))
    slower = {row["figure"]: row for row in agreement(then, result(10.0, seed=2))}
    assert slower["p50_ms"]["agrees"] is False
    assert slower["p50_ms"]["ratio"] == pytest.approx(2.0, rel=0.05)
    assert slower["throughput_rps"]["agrees"] is True


def test_what_differs_in_the_environment_is_listed() -> None:
    """Only what is not the same, with both values; the host's name is no difference."""
    then = result(5.0, environment={"hardware": {"cpu": "A"}, "system": {"kernel": "6.1", "host": "x"}})
    now = result(5.0, environment={"hardware": {"cpu": "B"}, "system": {"kernel": "6.1", "host": "y"}})
    assert environment_differences(then, now) == [
        {"what": "environment.hardware.cpu", "then": "A", "now": "B"}
    ]


def test_a_figure_that_one_run_lacks_is_not_agreed_on() -> None:
    """A p99 that was withheld the second time is left open, not left out: nobody knows whether it agrees."""
    then, now = result(5.0), result(5.0, seed=2)
    now.summary.e2e_latency_ms.p99 = None
    rows = {row["figure"]: row for row in agreement(then, now)}
    assert rows["p99_ms"] == {
        "figure": "p99_ms", "unit": "ms", "then": then.summary.e2e_latency_ms.p99, "now": None, "ratio": None,
        "agrees": None,
    }  # fmt: skip


def test_a_run_that_does_not_count_agrees_with_nothing() -> None:
    """Bounds of what a quiet machine gives neither confirm nor refute what one gave."""
    disturbed = result(5.0, seed=2, verdict="disturbed: the hypervisor took 20%")
    assert {row["agrees"] for row in agreement(result(5.0), disturbed)} == {None}
