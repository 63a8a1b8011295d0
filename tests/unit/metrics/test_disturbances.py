"""When a machine was disturbed, from made-up recordings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.metrics.disturbances import WAIT_S, Disturbance, disturbances
from inferbench_tasks.monitors.base import ROUNDS_PER_RATE
from inferbench_tasks.monitors.records import Recording, Series

STEP_NS = 30_000_000
STEPS = 200
T_NS = np.arange(STEPS) * STEP_NS


def found(cores: int | None = 2, **metrics: Any) -> list[Disturbance]:
    """Of six seconds in which only this happened; counters by their growth in each step."""
    values = {"server_longest_s": np.zeros(STEPS), "sender_longest_s": np.zeros(STEPS)}
    grown = {"foreign_s_total": np.full(STEPS, 1e-4), "interrupts_total": np.full(STEPS, 30.0)}
    for name, value in metrics.items():
        (values if name in values else grown)[name] = value
    series = {("wait", name): Series(T_NS, value) for name, value in values.items()}
    series |= {
        ("wait", name): Series(T_NS, np.cumsum(value)) for name, value in grown.items() if value is not None
    }
    result = disturbances(Recording(series, {}), 0, int(T_NS[-1]), cores)
    assert result is not None
    return result


def at(step: int, value: float, rest: float = 0.0) -> np.ndarray:
    """One step of its own."""
    values = np.full(STEPS, rest)
    values[step] = value
    return values


def test_a_quiet_recording_has_none() -> None:
    """The daemons of any machine are below the thresholds."""
    assert found() == []


@pytest.mark.parametrize("group", ["server", "sender"])
def test_a_wait_behind_others_is_cut_from_its_begin(group: str) -> None:
    """It shows in the step in which it ended: 40 ms of it began in the step before."""
    waits: dict[str, Any] = {f"{group}_longest_s": at(50, 0.04)}
    result = found(**waits, foreign_s_total=at(50, 0.04, 1e-4))
    causes = [one for one in result if one.cause == "wait for a core"]
    assert causes == [Disturbance(49 * STEP_NS - 40_000_000, 50 * STEP_NS, "wait for a core")]


def test_a_wait_behind_ones_own_threads_is_none() -> None:
    """Server and sender wait for one another under load: a cut there would keep the calm moments of the load only."""
    assert found(server_longest_s=np.full(STEPS, 0.02)) == []


def test_of_a_wait_counts_what_others_ran_meanwhile() -> None:
    """A thread waits 20 ms, and others ran for less than a threshold of it."""
    assert found(server_longest_s=at(50, 0.02), foreign_s_total=at(50, WAIT_S * 0.5, 1e-4)) == []


def test_steal_is_cut_with_the_step_before() -> None:
    """A tick of 10 ms may have begun there."""
    assert found(steal_s_total=at(9, 0.01)) == [Disturbance(7 * STEP_NS, 9 * STEP_NS, "steal")]


def test_others_use_counts_by_the_share_of_all_cores() -> None:
    """A tenth; of a run that has only some cores to itself it says nothing."""
    busy = at(9, 0.1 * 2 * STEP_NS / 1e9 * 1.01, 1e-4)
    assert [one.cause for one in found(foreign_s_total=busy)] == ["others' use of the CPU"]
    assert found(cores=8, foreign_s_total=busy) == [] and found(cores=None, foreign_s_total=busy) == []


def test_memory_pressure_and_storms_of_interrupts_are_cut() -> None:
    """Interrupts by their usual number in this run, which depends on its load."""
    assert [one.cause for one in found(memory_pressure_s_total=at(9, 0.02))] == ["memory pressure"]
    assert [one.cause for one in found(interrupts_total=at(9, 130.0, 30.0))] == ["interrupts"]
    assert found(interrupts_total=np.where(np.arange(STEPS) % 5 == 0, 130.0, 30.0)) == []


def test_time_that_nobody_watched_is_no_quiet_time() -> None:
    """The sampler was held up for 0.9 s, and ended 0.3 s before the window."""
    t_ns = T_NS.copy()
    t_ns[100:] += 900_000_000
    series = {("wait", f"{group}_longest_s"): Series(t_ns, np.zeros(STEPS)) for group in ("server", "sender")}
    series["wait", "foreign_s_total"] = Series(t_ns, np.zeros(STEPS))
    result = disturbances(Recording(series, {}), 0, int(t_ns[-1]) + 300_000_000, 2)
    end_ns = int(t_ns[-1])
    assert result == [
        Disturbance(99 * STEP_NS, 100 * STEP_NS + 900_000_000, "nobody watched"),
        Disturbance(end_ns, end_ns + 300_000_000, "nobody watched"),
    ]


def test_a_long_load_is_watched_in_longer_steps() -> None:
    """Four quiet hours, whose steps double after each 36,000: 320 ms at the end, which is no time that nobody watched;
    1.7 s are, five steps and more.
    """
    steps_ns = np.repeat(40_000_000 * 2 ** np.arange(4), [ROUNDS_PER_RATE] * 3 + [13_500])
    for late_ns in (0, 1_400_000_000):
        steps_ns[-100] = 320_000_000 + late_ns
        t_ns = np.cumsum(steps_ns)
        series = {
            ("wait", f"{group}_longest_s"): Series(t_ns, np.zeros(len(t_ns)))
            for group in ("server", "sender")
        }
        series["wait", "foreign_s_total"] = Series(t_ns, np.zeros(len(t_ns)))
        end_ns = int(t_ns[-1])
        assert end_ns == 14_400 * 1_000_000_000 + late_ns
        late = [] if not late_ns else [Disturbance(int(t_ns[-101]), int(t_ns[-100]), "nobody watched")]
        assert disturbances(Recording(series, {}), 0, end_ns, 2) == late


def test_without_the_waits_nothing_is_told() -> None:
    """None, which is not the same as no disturbance."""
    assert disturbances(Recording({}, {}), 0, 1, 2) is None
