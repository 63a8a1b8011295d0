"""Threads that are more than the cores."""

from __future__ import annotations

import pytest

from inferbench_tasks.training.diagnosis.measured import causes_of
from inferbench_tasks.training.diagnosis.observation import Observation, PhaseTimes
from tests.unit.training.diagnosis.observations import first, observe


def run(
    threads: int, *, wall_ms: float, cpu_ms: float, wait_ms: float, cores: float, **probes: float
) -> Observation:
    """One phase that computes."""
    base = observe(None, loading_ms=0, threads=threads, cores=cores)
    phases = {"forward": PhaseTimes(wall_ms, cpu_ms, wait_ms)}
    return Observation(base.job, cores, wall_ms, phases, probes=probes)


def test_eight_threads_on_two_cores_are_the_threads() -> None:
    """30 ms for 40 ms of CPU time: two threads on two cores take 20."""
    cause = first(run(8, wall_ms=30, cpu_ms=40, wait_ms=120, cores=2))
    assert cause.rule == "threads" and cause.changes == {"devices.threads": 2}
    assert cause.gain_s == pytest.approx(0.010)


def test_as_many_threads_as_cores_are_no_cause() -> None:
    """Two on two cores, whatever they wait for each other."""
    assert causes_of(run(2, wall_ms=30, cpu_ms=40, wait_ms=10, cores=2)) == []


def test_what_else_blocks_threads_is_not_mended_by_fewer() -> None:
    """30 ms for 10 of CPU time, of which all threads waited 2 for a core: the rest is a device's, or another rank's."""
    cause = first(run(8, wall_ms=30, cpu_ms=10, wait_ms=2, cores=2))
    assert cause.rule == "threads" and cause.cost_s == cause.gain_s == pytest.approx(0.002)
    assert causes_of(run(8, wall_ms=30, cpu_ms=10, wait_ms=0, cores=2)) == []


def test_the_gain_is_what_the_same_work_takes_less_with_as_many_threads_as_cores() -> None:
    """46 ms, of which the threads spin so much that 6 ms are left by CPU time and waits: by itself two take 7 ms."""
    times = {"wall_ms": 46.0, "cpu_ms": 80.0, "wait_ms": 120.0, "cores": 2.0}
    cause = first(run(8, **times, fewer_threads=2, fewer_threads_ms=7.0))
    assert cause.rule == "threads" and cause.gain_s == cause.cost_s == pytest.approx(0.039)
    assert any("with 2 thread(s), the same work takes 7 ms" in line for line in cause.evidence)
    others = first(run(8, **times, fewer_threads=4, fewer_threads_ms=7.0))
    assert others.gain_s == pytest.approx(0.006), (
        "of another number of threads than the remedy's it says nothing"
    )
    assert causes_of(run(8, **times, fewer_threads=2, fewer_threads_ms=46.5)) == []
