"""A run on a device that is slower than its kind."""

from __future__ import annotations

from inferbench_tasks.training.diagnosis.runs.slow_device import find
from tests.unit.training.fleet.test_rows import result

OTHERS = [result(f"r{at}", f"d{at}", 3 if at == 2 else 1) for at in range(6)]


def test_the_runs_own_device_is_named_by_its_kinds_baseline() -> None:
    """Three times the others' step: two thirds of the 36 ms are the device's."""
    (cause,) = find(OTHERS[2], OTHERS, 36.0)
    assert cause.rule == "slow_device" and "d2 is slower than its kind: 3.00 times" in cause.sentence
    assert cause.cost_s is not None and abs(cause.cost_s - 0.024) < 1e-9 and cause.changes == {}
    assert "6 devices of EPYC, 2 core(s)" in cause.evidence[0]


def test_a_run_that_was_not_slow_itself_is_not_charged() -> None:
    """The device's newest five runs take three times as long, this older one as long as the others' did; one at half
    of their speed costs half of its own step, whatever the newest do.
    """
    newest = [result(f"n{at}", "d2", 3) for at in range(5)]
    fine, half = result("old", "d2", 1), result("half", "d2", 2)
    assert list(find(fine, [*newest, *OTHERS, fine], 12.0)) == []
    (cause,) = find(half, [*newest, *OTHERS, half], 24.0)
    assert "2.00 times the others" in cause.sentence and "3.00 times" in cause.evidence[1]
    assert cause.cost_s is not None and abs(cause.cost_s - 0.012) < 1e-9


def test_other_devices_few_devices_and_leaseless_runs_are_not_named() -> None:
    """A healthy one; fewer than five; a run that leased none."""
    assert list(find(OTHERS[0], OTHERS, 12.0)) == []
    assert list(find(OTHERS[2], OTHERS[:4], 36.0)) == []
    assert list(find(result("x", None, 9), OTHERS, 36.0)) == []
