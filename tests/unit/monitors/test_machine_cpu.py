"""CPU time of the machine and of others, by cgroups of both versions."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from inferbench_tasks.monitors.base import Target
from inferbench_tasks.monitors.machine_cpu import ForeignCpu, MachineCpu
from inferbench_tasks.monitors.waiting import WaitMonitor


def _v1(folder: Path, usage_ns: int) -> Path:
    (folder / "cpuacct").mkdir(exist_ok=True)
    (folder / "cpuacct" / "release_agent").touch()
    (folder / "cpuacct" / "cpuacct.usage").write_text(f"{usage_ns}\n")
    return folder


def _v2(folder: Path, **usage_us: int) -> Path:
    (folder / "cgroup.controllers").touch()
    for name, usage in usage_us.items():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "cpu.stat").write_text(f"usage_usec {usage}\nuser_usec 0\n")
    return folder


def test_the_root_of_version_1_counts_all(tmp_path: Path) -> None:
    """In nanoseconds, from the first sample on."""
    machine = MachineCpu(_v1(tmp_path, 5_000_000_123))
    assert machine.known and machine.sample_ns() == 0
    _v1(tmp_path, 5_000_500_123)
    assert machine.sample_ns() == 500_000
    machine.close()


def test_the_outermost_cgroups_of_version_2_are_added_up(tmp_path: Path) -> None:
    """A new one counts from when it is seen."""
    machine = MachineCpu(_v2(tmp_path, system=1000, user=10))
    machine.sample_ns()
    _v2(tmp_path, system=1400, user=11, late=77)
    machine.find()
    assert machine.sample_ns() == 401_000
    _v2(tmp_path, late=78)
    assert machine.sample_ns() == 402_000
    machine.close()


def test_a_container_does_not_take_its_own_cgroup_for_the_machine(tmp_path: Path) -> None:
    """It would see no others at all, and call every wait its own."""
    inner = _v2(tmp_path, system=1)
    (inner / "cgroup.type").write_text("domain\n")
    assert not MachineCpu(inner).known
    v1 = tmp_path / "v1"
    v1.mkdir()
    (_v1(v1, 1) / "cpuacct" / "release_agent").unlink()
    assert not MachineCpu(v1).known


def test_what_the_named_processes_use_is_not_foreign(tmp_path: Path) -> None:
    """The rest is; and it never falls, where own time is counted before the machine's."""
    machine = MachineCpu(_v1(tmp_path, 0))
    foreign = ForeignCpu(machine)
    assert foreign.sample([os.getpid()]) == 0.0
    enough = time.process_time() + 0.05
    while time.process_time() < enough:
        pass
    assert foreign.sample([os.getpid()]) == 0.0
    _v1(tmp_path, 10_000_000_000)
    rest_s = foreign.sample([os.getpid()])
    assert 9.0 < rest_s < 9.96
    assert foreign.sample([]) == rest_s
    machine.close()


def test_interrupts_pressures_and_others_are_recorded_in_the_same_steps() -> None:
    """Interrupts only grow; disk and memory have pressures where the kernel tells any."""
    monitor = WaitMonitor(Target(pid=os.getpid(), started_ns=0))
    first, second = monitor.sample(), monitor.sample()
    monitor.close()
    assert 0 < first["interrupts_total"] <= second["interrupts_total"]
    if not Path("/proc/pressure/io").exists():
        pytest.skip("the kernel keeps no pressure (PSI)")
    assert {"io_pressure_s_total", "memory_pressure_s_total"} <= set(first)
