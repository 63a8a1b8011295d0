"""Computing, waiting for a core and being blocked: of steps of known times."""

from __future__ import annotations

import numpy as np

from inferbench_tasks.training.diagnosis import thread_times
from inferbench_tasks.training.diagnosis.observation import Steps

PHASE = "forward"


def steps(**times_ns: float) -> Steps:
    return {f"{PHASE}_{name}_ns": np.array([value]) for name, value in times_ns.items()}


def of(times: Steps) -> tuple[float, float, float, float]:
    """CPU, wait, blocked and held, ns."""
    asked = (thread_times.cpu_ns, thread_times.waited_ns, thread_times.blocked_ns, thread_times.held_ns)
    return tuple(float(ask(times, PHASE)[0]) for ask in asked)  # type: ignore[return-value]


def test_a_threads_own_times_add_up_to_the_wall_clock() -> None:
    """Whatever others of its process used and waited for beside it: 100 are 40 computed, 10 waited, 50 blocked."""
    own = steps(wall=100, cpu=90, wait=300, own_cpu=40, own_wait=10)
    assert of(own) == (40, 10, 50, 90)


def test_waits_of_many_threads_count_as_far_as_there_is_room_for_them() -> None:
    """Older runs have sums only: of 300 ns of waits 60 fit beside 40 of computing; 20 are taken whole."""
    assert of(steps(wall=100, cpu=40, wait=300)) == (40, 60, 0, 40)
    assert of(steps(wall=100, cpu=40, wait=20)) == (40, 20, 40, 80)


def test_a_kernel_without_such_statistics_gives_no_waits() -> None:
    """Null counts as none; CPU beyond the wall clock, of clocks that are read one after the other, leaves nothing."""
    assert of(steps(wall=100, cpu=40, wait=np.nan)) == (40, 0, 60, 100)
    assert of(steps(wall=100, cpu=101, wait=5, own_cpu=101, own_wait=np.nan)) == (101, 0, 0, 100)


def test_the_exchange_of_statistics_is_no_time_of_a_forward_pass() -> None:
    """Of 100 the first 30 are the exchange, 5 of them computed and 4 waited for a core; of the 70 left 35 are computed,
    6 waited for a core, and 29 blocked. Nothing is taken off where its own waits are not known.
    """
    own = steps(wall=100, cpu=40, wait=10, own_cpu=40, own_wait=10)
    shared = {
        f"statistics{name}_ns": np.array([value]) for name, value in (("", 30), ("_cpu", 5), ("_wait", 4))
    }
    assert of({**own, **shared}) == (35, 6, 29, 64)
    assert float(thread_times.shared_ns(shared)[0]) == 21
    assert of({**own, **shared, "statistics_wait_ns": np.array([np.nan])}) == (40, 10, 50, 90)
