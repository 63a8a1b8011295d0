"""Looking whether the machine is quiet, and waiting for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from inferbench_tasks.monitors.quiet import Look, look, wait_for_quiet

QUIET, BUSY = Look(wait_ms=0.1, steal_ratio=0.0), Look(wait_ms=7.5, steal_ratio=0.0)
STOLEN = Look(wait_ms=0.1, steal_ratio=0.3)


class Machine:
    """One whose looks are given, a second each."""

    def __init__(self, *looks: Look) -> None:
        self.looks = list(looks)
        self.now_s = 100.0
        self.texts: list[tuple[float, str]] = []

    def look(self) -> Look:
        self.now_s += 1.0
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def wait(self, limit_s: float, cancelled: bool = False) -> tuple[Look, float]:
        patience = wait_for_quiet(
            limit_s, progress=lambda waited_s, text: self.texts.append((waited_s, text)),
            cancelled=lambda: cancelled, look=self.look, now_s=lambda: self.now_s,
        )  # fmt: skip
        return patience.last, patience.waited_s


def test_a_quiet_machine_is_not_waited_for() -> None:
    """One look, and the load begins."""
    machine = Machine(QUIET)
    assert machine.wait(60) == (QUIET, 1.0) and machine.texts == []


def test_a_busy_machine_is_waited_for_with_progress_until_it_is_quiet() -> None:
    """Each look tells what is not quiet."""
    machine = Machine(BUSY, STOLEN, QUIET, BUSY)
    assert machine.wait(60) == (QUIET, 3.0)
    assert machine.texts == [
        (1.0, "5% of the waits for a core take 7.5 ms or more (quiet: 1 ms)"),
        (2.0, "the hypervisor takes 30% of the CPU (quiet: 2%)"),
    ]


@pytest.mark.parametrize(("limit_s", "waited_s"), [(0, 1.0), (3, 3.0)])
def test_a_load_begins_at_last_and_says_so(limit_s: float, waited_s: float) -> None:
    """After ``wait_for_quiet_s``; 0 looks once."""
    machine = Machine(BUSY)
    patience = wait_for_quiet(
        limit_s,
        progress=lambda *_: None,
        cancelled=lambda: False,
        look=machine.look,
        now_s=lambda: machine.now_s,
    )
    assert (patience.last, patience.waited_s) == (BUSY, waited_s)
    assert patience.warning == (
        f"the machine was not quiet when the load began, {waited_s:.0f} s were waited for it: "
        "5% of the waits for a core take 7.5 ms or more (quiet: 1 ms)"
    )
    assert patience.as_dict() == {"quiet": False, "waited_s": waited_s, "wait_ms": 7.5, "steal_ratio": 0.0}


def test_who_cancels_does_not_wait() -> None:
    """The next look is the last."""
    assert Machine(BUSY).wait(60, cancelled=True) == (BUSY, 1.0)


def test_busy_neighbours_show_in_a_look() -> None:
    """Three busy processes on this one's only core: a turn waits for them, and the machine is not quiet."""
    cores = os.sched_getaffinity(0)
    core = min(cores)
    hogs: list[subprocess.Popen[bytes]] = []
    try:
        os.sched_setaffinity(0, {core})
        hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
        seen = [look(0.5) for _ in range(4)]  # they start first
    finally:
        os.sched_setaffinity(0, cores)
        for hog in hogs:
            hog.kill()
            hog.wait()
    assert not all(one.quiet for one in seen)
    assert max(one.wait_ms or 0.0 for one in seen) > 1.0
