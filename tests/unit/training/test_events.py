"""The timing by a device's own stamps, on a device that lags behind its host."""

from __future__ import annotations

import pytest

from inferbench_tasks.training import events, figures
from inferbench_tasks.training.events import DeviceEvents, device_clock
from inferbench_tasks.training.order import Answer, Epoch
from inferbench_tasks.training.phases import HEAD, MEASURED

MS = 1_000_000


class Lagging:
    """Launching takes 1 ms of the host; the device works in turn, each work as long as it says."""

    def __init__(self) -> None:
        self.host_ns = self.device_ns = 0
        self.synchronised = 0

    def monotonic_ns(self) -> int:
        return self.host_ns

    def work(self, ms: int) -> None:
        self.host_ns += MS
        self.device_ns = max(self.device_ns, self.host_ns) + ms * MS

    def synchronise(self) -> None:
        self.synchronised += 1


def test_the_devices_time_and_the_hosts_stand_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device works 5 and 7 ms in each phase, the host launches for 1 ms; nothing waits before the epoch's end."""
    clock = Lagging()
    monkeypatch.setattr(events, "time", clock)
    stamps = (lambda: clock.device_ns, lambda start, end: end - start)
    timing = DeviceEvents(("loading", "forward"), stamps, clock.synchronise)
    clock.work(50)  # the device is behind from the start
    for step in range(30):
        timing.step_begins()
        timing.run(clock.work, 5)
        timing.run(clock.work, 7)
        timing.step_ends(step, 8, MEASURED)
    assert timing.rows == [] and clock.synchronised == 0
    timing.epoch_ends()
    assert timing.columns[len(HEAD) :] == [
        "loading_device_ns", "loading_host_ns", "forward_device_ns", "forward_host_ns",
    ]  # fmt: skip
    assert [row[4:] for row in timing.rows] == [[12 * MS, 5 * MS, MS, 7 * MS, MS]] * 30
    answer = Answer(
        rank=0, world=1, pid=1, parameters=[], parameter_count=0, device="cuda:0",
        epochs=[
            Epoch(
                kind="events", round=at, started_ns=0, ready_ns=0,
                columns=list(timing.columns), rows=timing.rows[at::3],
            )
            for at in range(3)
        ],
    )  # fmt: skip
    told = figures.events([answer])
    assert told is not None and not told["in_step_with_host"]
    assert told["step_ms"]["mean"] == pytest.approx(12)
    assert told["phases"]["forward"] == pytest.approx({"device_ms": 7, "host_ms": 1})


def test_a_cpu_has_no_clock_but_the_hosts() -> None:
    """Its stamps are readings of it."""
    stamp, between = device_clock("cpu")
    first, second = stamp(), stamp()
    assert between(first, second) == second - first >= 0


def test_no_events_are_no_figures() -> None:
    """None where they were not asked for."""
    answer = Answer(rank=0, world=1, pid=1, epochs=[], parameters=[], parameter_count=0, device="cpu")
    assert figures.events([answer]) is None
