"""A host as people see it, by what its workers told."""

from __future__ import annotations

from inferbench_tasks.cluster.clock import ClockOffset
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.host import Facts, Host
from inferbench_tasks.cluster.node_state import _state
from inferbench_tasks.cluster.versions import own

OFF = ClockOffset(ahead_s=400.0, error_s=0.001, round_trip_s=0.001, exchanges=24)
HOST = Host(
    home="0" * 32,
    versions=own(),
    facts=Facts(
        host="a", cpu="Xeon", machine="x86_64", kernel="6", cores_physical=4, cores_logical=8, cores_usable=8,
        memory_bytes=16_000_000_000,
    ),
    clock=OFF,
    clock_age_s=10.0,
)  # fmt: skip


def test_only_a_host_that_is_there_is_to_set_its_clock() -> None:
    """By how much it was off stays with one that is gone, as its versions do; nothing asks for it to be set."""
    device = Device(device_id="a.cpu-0", device_type="cpu", name="Xeon", host="a", home=HOST.home, age_s=1.0)
    there = _state(HOST, [device], None)
    assert there.state == "serving" and there.clock_warning is not None
    assert "400 s ahead of PerfDB's" in there.clock_warning
    gone = _state(HOST, [], None)
    assert (gone.state, gone.clock_ahead_s, gone.clock_warning) == ("gone", 400.0, None)
