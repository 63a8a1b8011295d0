"""Waits for a core, of this process's own children."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferbench_tasks.contracts.handles import ServerHandle
from inferbench_tasks.monitors.base import Target
from inferbench_tasks.monitors.records import read_recording
from inferbench_tasks.monitors.session import MonitorSession
from inferbench_tasks.monitors.waiting import WaitMonitor, cgroup_pressure

SPIN = "while True: pass"


@pytest.fixture
def two_on_one_core() -> Iterator[tuple[int, int]]:
    """Two busy processes that share a core, each in a session of its own: both wait half of the time."""
    core = min(os.sched_getaffinity(0))
    children = [
        subprocess.Popen([sys.executable, "-c", SPIN], start_new_session=True,
                         preexec_fn=lambda: os.sched_setaffinity(0, {core}))  # noqa: PLW1509 - no threads here
        for _ in range(2)
    ]  # fmt: skip
    yield children[0].pid, children[1].pid
    for child in children:
        child.kill()
        child.wait()


def test_a_busy_core_shows_as_waits_in_time(two_on_one_core: tuple[int, int]) -> None:
    """The totals grow, a single thread's longest wait is a part of them, and what was open is closed."""
    before = len(os.listdir("/proc/self/fd"))
    monitor = WaitMonitor(Target(pid=two_on_one_core[0], started_ns=0))
    first = monitor.sample()
    waits = [first]
    while waits[-1]["server_s_total"] == 0.0 and len(waits) < 500:
        time.sleep(0.01)
        waits.append(monitor.sample())
    monitor.close()
    assert first["server_s_total"] == 0.0 and waits[-1]["server_s_total"] > 0.0
    assert 0.0 < waits[-1]["server_longest_s"] <= waits[-1]["server_s_total"]
    assert waits[-1]["steal_s_total"] >= first["steal_s_total"] >= 0.0
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_session_records_waits_in_fine_steps(two_on_one_core: tuple[int, int], tmp_path: Path) -> None:
    """However coarse the other monitors are; server and sender apart."""
    server = ServerHandle(
        launcher="process", pid=two_on_one_core[0], started_ns=1, log_path="l", config_path="c"
    )
    with (
        subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE),
        MonitorSession(server, tmp_path / "monitors.parquet", interval_s=1.0, kinds=["wait", "host"]),
    ):
        time.sleep(2.0)
    recording = read_recording(tmp_path / "monitors.parquet")
    fine, coarse = recording.get("wait", "server_longest_s"), recording.get("host", "cpu_busy_s_total")
    assert fine is not None and coarse is not None and len(fine.t_ns) > 3 * len(coarse.t_ns)
    assert fine.values.max() > 0.0
    assert recording.get("wait", "sender_s_total") is not None


def test_a_process_without_a_cgroup_of_its_own_has_no_pressure_of_it() -> None:
    """The root's is the machine's; nor has one that does not exist."""
    path = cgroup_pressure(os.getpid())
    assert path is None or path.name == "cpu.pressure"
    assert cgroup_pressure(2**22 + 1) is None
