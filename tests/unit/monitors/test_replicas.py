"""Several servers as one: sums, each one's own, and what stands before them apart from both."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from inferbench_tasks.contracts.handles import ServerHandle
from inferbench_tasks.monitors.base import Target
from inferbench_tasks.monitors.records import read_recording
from inferbench_tasks.monitors.server import BalancerMonitor, ServerMonitor
from inferbench_tasks.monitors.session import MonitorSession
from inferbench_tasks.monitors.waiting import WaitMonitor

#: Uses so much CPU, says so, and waits.
SPIN = "import time\nwhile time.process_time() < {s}: pass\nprint('done', flush=True)\ntime.sleep(60)"
#: Of two replicas and what stands before them, s.
USED_S = (0.4, 0.2, 0.3)


def handle(pid: int) -> ServerHandle:
    started_ns = int(psutil.Process(pid).create_time() * 1e9)
    return ServerHandle(launcher="process", pid=pid, started_ns=started_ns, log_path="l", config_path="c")


@pytest.fixture
def three() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two servers and a balancer, each in a session of its own; all are children of this process."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SPIN.replace("{s}", str(seconds))],
            stdout=subprocess.PIPE, start_new_session=True,
        )
        for seconds in USED_S
    ]  # fmt: skip
    yield processes
    for process in processes:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def test_the_server_is_the_sum_and_the_balancer_is_none_of_it(
    three: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """CPU and memory of both servers, each by itself as well; neither they nor the balancer are the client's."""
    first, second, before = (handle(process.pid) for process in three)
    path = tmp_path / "monitors.parquet"
    with MonitorSession(first, path, interval_s=0.05, replicas=[second], balancer=before):
        for process in three:
            assert process.stdout is not None
            process.stdout.readline()
        time.sleep(1.5)
    seen = read_recording(path)

    def last(source: str, metric: str) -> float:
        series = seen.get(source, metric)
        assert series is not None
        return float(series.values[-1])

    own = [last("server", f"replica{number}_cpu_s_total") for number in (1, 2)]
    assert last("server", "cpu_s_total") == pytest.approx(sum(own), abs=1e-9)
    assert last("server", "rss_bytes") == last("server", "replica1_rss_bytes") + last(
        "server", "replica2_rss_bytes"
    )
    assert last("server", "processes") == 2.0 and last("balancer", "processes") == 1.0
    # What they used before the sampler looked for the first time is not counted.
    assert all(0.0 <= used <= most + 0.05 for used, most in zip(own, USED_S, strict=False))
    assert last("balancer", "cpu_s_total") <= USED_S[2] + 0.05
    waits = seen.get("wait", "balancer_longest_s")
    assert waits is not None and waits.values.min() >= 0.0
    # The client: this process (pytest's own) and the sampler, whose number of processes holds none of the three.
    children = {process.pid for process in psutil.Process().children(recursive=True)}
    assert last("client", "processes") <= 2 + len(children - {process.pid for process in three})
    assert seen.about["unavailable"].get("balancer") is None


def test_without_a_balancer_nothing_is_said_of_one(
    three: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """A recording of one server is as it was."""
    path = tmp_path / "monitors.parquet"
    with MonitorSession(handle(three[0].pid), path, interval_s=0.05):
        time.sleep(0.3)
    seen = read_recording(path)
    assert "balancer" not in seen.sources() and "balancer" not in seen.about["unavailable"]
    assert not [name for _, name in seen.series if name.startswith(("replica", "balancer"))]


def test_once_one_of_them_has_ended_there_is_no_sum(three: list[subprocess.Popen[bytes]]) -> None:
    """What the other uses alone would look like both."""
    monitor = ServerMonitor(Target(pid=three[0].pid, started_ns=0, replicas=(three[1].pid,)))
    assert monitor.sample()["processes"] == 2.0
    three[1].kill()
    three[1].wait()
    assert monitor.sample() == {}
    reason = ServerMonitor.unavailable(Target(pid=three[0].pid, started_ns=0, replicas=(three[1].pid,)))
    assert reason == f"process {three[1].pid} is not running"


def test_what_is_under_test_is_all_of_it() -> None:
    """Of a host that only sends there is nothing."""
    target = Target(pid=5, started_ns=0, replicas=(6,), balancer=7)
    assert target.servers == (5, 6) and target.tested == (5, 6, 7)
    assert Target(pid=5, started_ns=0).tested == (5,) and Target(pid=0, started_ns=0).tested == ()


def test_waits_of_the_balancer_are_its_own(three: list[subprocess.Popen[bytes]]) -> None:
    """Beside the servers', whose are those of all of them."""
    first, second, before = (process.pid for process in three)
    monitor = WaitMonitor(Target(pid=first, started_ns=0, replicas=(second,), balancer=before))
    figures = monitor.sample()
    monitor.close()
    assert {"server_longest_s", "balancer_longest_s"} <= figures.keys()


def test_nothing_stands_before_a_server_unless_it_is_named() -> None:
    """Said, where somebody asks for that monitor."""
    assert (
        BalancerMonitor.unavailable(Target(pid=os.getpid(), started_ns=0))
        == "nothing stands before the server"
    )
    assert BalancerMonitor.unavailable(Target(pid=1, started_ns=0, balancer=os.getpid())) is None


class Group:
    """Processes that used so much at each look, ns."""

    def __init__(self, *looks: dict[int, int]) -> None:
        self._looks = iter(looks)
        self.each_ns: dict[int, int] = {}

    def sample(self) -> dict[str, float]:
        """The next look."""
        self.each_ns = next(self._looks)
        return {"processes": float(len(self.each_ns))} if self.each_ns else {}


def test_the_busiest_of_the_balancers_processes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Since the first look; of one that began later all of its life, and what one used that ended stays."""
    monitor = BalancerMonitor(Target(pid=os.getpid(), started_ns=0, balancer=os.getpid()))
    second = 1_000_000_000
    looks: tuple[dict[int, int], ...] = (
        {1: 5 * second, 2: 9 * second}, {1: 8 * second, 2: 10 * second},
        {2: 10 * second, 3: second}, {2: 10 * second, 3: 4 * second}, {},
    )  # fmt: skip
    monkeypatch.setattr(monitor, "_group", Group(*looks))
    told = [monitor.sample().get("busiest_s_total") for _ in looks]
    assert told == [0.0, 3.0, 3.0, 4.0, None]
