"""Copies from pageable memory, of made-up runs on a GPU."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.training.diagnosis.measured import causes_of
from inferbench_tasks.training.diagnosis.observation import Observation, PhaseTimes
from tests.unit.training.diagnosis.observations import observe


def copying(wall_ms: float, pinned_ms: float | None, **loader: Any) -> Observation:
    """A step of 10 ms, in which copying takes so long."""
    fields = {"devices": {"kind": "gpu"}, "loader": loader}
    run = observe(None, loading_ms=0.0, fields=fields, probes={"pinned_copy_ms": pinned_ms})
    times = {**run.phases, "to_device": PhaseTimes(wall_ms, wall_ms)}
    return Observation(**{**run.__dict__, "phases": times, "step_ms": 9.5 + wall_ms})


def test_what_page_locked_memory_would_save_is_the_cost() -> None:
    """3 ms as it is, 1 pinned: 2 ms, and the remedy is a field."""
    (cause,) = causes_of(copying(3.0, 1.0))
    assert (cause.rule, cause.cost_s, cause.changes) == ("unpinned", 0.002, {"loader.pin_memory": True})


def test_pinned_copies_and_short_ones_are_no_cause() -> None:
    """Nor is anything said without the probe, which a CPU does not have."""
    assert causes_of(copying(3.0, 1.0, pin_memory=True)) == []
    assert causes_of(copying(3.0, None)) == []
    assert causes_of(copying(0.3, 0.1)) == []
    assert causes_of(copying(1.0, 2.0)) == []
