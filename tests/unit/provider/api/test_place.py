"""When a job's devices are expected to be free for it."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.cluster.state import ClusterState, DeviceState, WaitingJob
from inferbench_tasks.provider.api.place import Place, place_of, together_s, worst

T4 = frozenset({"t4"})


def device(number: int, left_s: float | None = None, *, of: str = "t4", host: str = "a") -> DeviceState:
    """Free without ``left_s``, else busy for as long."""
    return DeviceState(
        device_id=f"{host}:{of}:{number}",
        device_type=of,
        name=of,
        host=host,
        state="free" if left_s is None else "busy",
        reason="",
        job=None if left_s is None else "a-job",
        run_id=None,
        held_with=[],
        expected_left_s=left_s,
        token=0,
        heartbeat_age_s=1.0,
        capabilities={},
    )


def waits(expected_s: float, devices: int = 1, priority: int = 0, types: tuple[str, ...] = ("t4",)) -> Any:
    return WaitingJob(
        job="other",
        user="u",
        priority=priority,
        expected_s=expected_s,
        waited_s=1.0,
        device_types=list(types),
        devices=devices,
        attempt=1,
        why="",
    )


def placed(devices: list[DeviceState], at_once: int = 1, waiting: tuple[Any, ...] = ()) -> Place:
    found = place_of(ClusterState(devices=devices, queues=[], waiting=list(waiting)), T4, at_once, 0)
    assert found is not None
    return found


def test_two_devices_at_once_wait_for_the_later_one() -> None:
    """One of two is busy for an hour: a job of one begins at once, one of both in an hour, one of three never."""
    both = [device(0), device(1, 3600.0)]
    assert [placed(both, n).wait_s for n in (1, 2, 3)] == [0.0, 3600.0, None]
    assert [placed(both, n).jobs_at_once for n in (1, 2, 3)] == [2, 1, 0]


def test_devices_at_once_are_of_one_host() -> None:
    """Two free ones of two hosts are none for a job of two; the host that has both first is taken."""
    spread = [device(0), device(0, host="b")]
    assert (placed(spread, 2).wait_s, placed(spread, 2).devices) == (None, 2)
    assert placed([*spread, device(1, 500.0), device(1, 90.0, host="b")], 2).wait_s == 90.0


def test_a_job_that_is_overdue_is_said() -> None:
    """0 s is then the least; a free device, or one whose end is known, is rather taken."""
    late = placed([device(0, -50.0)])
    assert (late.wait_s, late.overdue) == (0.0, True)
    assert not placed([device(0, -50.0), device(1)]).overdue
    assert placed([device(0, -50.0), device(1)], 2).overdue
    assert (placed([device(0, -50.0)], 1, (waits(30.0),)).wait_s) == 30.0
    assert placed([device(0, -50.0)], 1, (waits(30.0),)).overdue


def test_what_waits_before_takes_the_devices_that_are_free_first() -> None:
    """Free in 0 and 100 s. A job of 40 s and one of 10 s before it: 50 s; one of both, for 40 s: 140 s; what fits on no
    host stands in nobody's way, nor does one of a lower priority.
    """
    two = [device(0), device(1, 100.0)]
    assert placed(two, 1, (waits(40.0), waits(10.0))).wait_s == 50.0
    assert placed(two, 1, (waits(40.0, devices=2),)).wait_s == 140.0
    assert placed(two, 1, (waits(40.0, devices=3),)).wait_s == 0.0
    low = placed(two, 1, (waits(40.0, priority=-1),))
    assert (low.wait_s, low.jobs_before) == (0.0, 0)


def test_who_can_run_elsewhere_goes_there_first() -> None:
    """A job of either type takes the free CPU, not the GPU that is busy for 20 s."""
    either = waits(40.0, types=("cpu", "t4"))
    assert placed([device(0, 20.0), device(0, of="cpu")], 1, (either,)).wait_s == 20.0


def test_the_worst_place_has_no_device_or_the_longest_wait() -> None:
    """A sweep over devices is not told the place of its first job alone."""
    free, busy, none = placed([device(0)]), placed([device(0, 60.0)]), placed([device(0, of="cpu")])
    late = placed([device(0, -1.0)])
    assert none.wait_s is None
    assert worst([free, busy, none]) is none and worst([busy, None, free]) is busy
    assert worst([late, free]) is late and worst([None]) is None


def test_without_devices_jobs_take_turns() -> None:
    """No worker has registered: there is no place to tell."""
    assert place_of(ClusterState(devices=[], queues=[], waiting=[]), T4, 1, 0) is None


def test_no_job_is_divided_among_devices() -> None:
    """One job of 600 s takes 600 s on four devices, and not 150; three of 100 s on two take 200 s, and not 150. Of 30,
    10 and 20 s on two the shortest begin: 10 and 20 s, then 30 s behind the first of them, until 40 s.
    """
    assert together_s([600.0], 4) == 600.0
    assert together_s([100.0] * 3, 2) == 200.0
    assert together_s([30.0, 10.0, 20.0], 2) == 40.0
    assert together_s([30.0, 10.0, 20.0], 1) == 60.0
